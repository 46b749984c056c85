"""However a run ends, it leaves its page; and what goes wrong with the page never hides how the run ended."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from in_process import ROOT, run_main

from mimicpipe.envs.kinematic import KinematicEnv

QUICK = ["env=kinematic", "env.num_envs=2", "tracker=none", "num_demos=2"]
OWN = ROOT / "tests" / "cli"


@pytest.fixture
def run(tmp_path):
    """Run in this process: (arguments) -> (exit code, output folder)."""

    def call(*arguments: str, flags: tuple[str, ...] = ()) -> tuple[int, Path]:
        folder = tmp_path / "run"
        try:
            code = run_main([*flags, *QUICK, *arguments, f"hydra.run.dir={folder}"], tmp_path)
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        return code, folder

    yield call
    (tmp_path / "let_go").touch()


def page(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


def test_a_run_that_fails(run, monkeypatch):
    monkeypatch.syspath_prepend(OWN)
    fault = ["recorder._target_=own_faults.FaultyRecorder", "+recorder.hangs=commit"]
    code, folder = run("recorder=none", *fault, "allowed_targets=[own_faults]", "stall_timeout_s=1")
    assert code == 1
    assert "Failed: StallError" in page(folder)
    assert "resume=" in page(folder)
    assert not (folder / "preview.gif").exists()


def test_without_a_recorder_there_is_no_episode_to_draw_but_where_objects_started(run):
    code, folder = run("recorder=none")
    assert code == 0
    assert "No pictures: no episode was recorded." in page(folder)
    assert "Where cube started, from above" in page(folder)
    assert not (folder / "preview.gif").exists()


def test_pictures_may_be_unwanted(run):
    code, folder = run("preview=false")
    assert code == 0
    assert "No pictures: preview=false." in page(folder)
    assert "<h3>Paths</h3>" in page(folder)
    assert not (folder / "preview.gif").exists()


def test_an_env_that_cannot_play_again_costs_the_pictures_only(run, monkeypatch, capfd):
    def broken(*_):
        raise RuntimeError("no state can be set")

    monkeypatch.setattr(KinematicEnv, "set_state", broken)
    code, folder = run()
    assert code == 0
    assert "report.html is without pictures and paths: RuntimeError: no state can be set" in capfd.readouterr().err
    assert json.loads((folder / "run.json").read_text())["exit_reason"] == "num_demos"
    assert "2 of 2 demos" in page(folder)


def test_a_page_that_cannot_be_written_is_a_warning(run, tmp_path, capfd):
    (tmp_path / "run" / "report.html").mkdir(parents=True)
    code, folder = run()
    assert code == 0
    assert "report.html could not be written" in capfd.readouterr().err
    assert json.loads((folder / "run.json").read_text())["exit_code"] == 0
    assert [path.name for path in folder.glob(".report*")] == []
