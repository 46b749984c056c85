import importlib.util

import pytest

from mimicpipe.errors import ConfigError
from mimicpipe.tools import view

HAS_RERUN = importlib.util.find_spec("rerun") is not None


@pytest.mark.skipif(not HAS_RERUN, reason="no rerun-sdk; the extra `view` brings it")
def test_a_recording_holds_the_frames_of_its_episodes(recorded_run, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    out = tmp_path / "out.rrd"
    assert view.main([str(recorded_run), "--episodes", "1", "3", "--out", str(out)]) == 0
    assert "of 2 episodes" in capsys.readouterr().out
    assert out.read_bytes()[:3] == b"RRF"
    assert out.stat().st_size > 20_000
    assert [path.name for path in tmp_path.iterdir()] == ["out.rrd"]
    with pytest.raises(ConfigError, match="episodes 0 to 4"):
        view.write_recording(recorded_run / "dataset", out, [5])


@pytest.mark.skipif(HAS_RERUN, reason="rerun-sdk is there")
def test_without_rerun_there_is_one_line(recorded_run, capsys):
    assert view.main([str(recorded_run)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "pip install -e '.[view]'" in error


def test_a_run_and_its_dataset_are_the_same(recorded_run, tmp_path):
    root = recorded_run / "dataset"
    assert view.find_dataset(recorded_run) == (root, recorded_run / "episodes.rrd")
    assert view.find_dataset(root) == (root, recorded_run / "dataset.rrd")
    with pytest.raises(ConfigError, match="neither a LeRobot v3 dataset"):
        view.find_dataset(tmp_path)


def test_poses_are_found_by_the_names_of_their_elements():
    plain = ["x", "y", "z", "qw", "qx", "qy", "qz"]
    assert list(view._poses(plain)) == [("", [0, 1, 2, 4, 5, 6, 3])]
    two = [f"{box}_{part}" for box in ("cubeA", "cubeB") for part in plain]
    assert [name for name, _ in view._poses(two)] == ["cubeA", "cubeB"]
    assert list(view._poses(two))[1][1] == [7, 8, 9, 11, 12, 13, 10]
    assert list(view._poses(["qw", "joint"])) == []
