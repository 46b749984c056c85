"""kill -9 in the middle of a conversion, and the same command again: the same bytes as without."""

import signal
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from hdf5_cases import isaaclab_file
from same_files import different_files

from mimicpipe.convert.options import Options
from mimicpipe.errors import ConfigError
from mimicpipe.recorders import joining
from mimicpipe.recorders.staging_area import staging_path
from mimicpipe.tools import convert as tool
from mimicpipe.tools.convert import convert

SCRIPT = Path(__file__).with_name("killed_conversion.py")
LATE = [pytest.param(moment, marks=pytest.mark.slow) for moment in ("assembling", "published")]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Seven demos, the second of them broken, with a camera."""
    path = isaaclab_file(tmp_path_factory.mktemp("source") / "il.hdf5", lengths=(4, 5, 6, 3, 4, 5, 6), cameras=True)
    with h5py.File(path, "a") as file:
        file["data/demo_1/actions"][2, 2] = np.inf
    return path


@pytest.fixture(scope="module")
def datasets(source, tmp_path_factory):
    """(a dataset of it with images, a file made from that), without an interruption."""
    folder = tmp_path_factory.mktemp("whole")
    convert(source, folder / "dataset", Options(images=True))
    convert(folder / "dataset", folder / "back.hdf5", Options(frames=True))
    return folder / "dataset", folder / "back.hdf5"


def killed(moment, *args):
    process = subprocess.run([sys.executable, str(SCRIPT), moment, *map(str, args)], capture_output=True, check=False)
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()


@pytest.mark.parametrize("moment", ["reading", *LATE])
def test_to_lerobot_goes_on(source, datasets, tmp_path, moment, capsys):
    args = [source, tmp_path / "dataset", "--images"]
    killed(moment, *args)
    assert (tmp_path / "dataset").exists() == (moment == "published")
    assert tool.main(list(map(str, args))) == 0
    assert "by an interrupted conversion" in capsys.readouterr().out
    assert different_files(datasets[0], tmp_path / "dataset") == []
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["reading", *LATE])
def test_to_hdf5_goes_on(datasets, tmp_path, moment, capsys):
    args = [datasets[0], tmp_path / "back.hdf5", "--frames"]
    killed(moment, *args)
    assert (tmp_path / "back.hdf5").exists() == (moment == "published")
    assert tool.main(list(map(str, args))) == 0
    assert "by an interrupted conversion" in capsys.readouterr().out
    assert (tmp_path / "back.hdf5").read_bytes() == datasets[1].read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["back.hdf5"]


@pytest.mark.slow
def test_other_options_do_not_go_on_with_it(source, datasets, tmp_path):
    killed("reading", source, tmp_path / "dataset", "--images")
    killed("reading", datasets[0], tmp_path / "back.hdf5", "--frames")
    with pytest.raises(ConfigError, match="with other options"):
        convert(source, tmp_path / "dataset", Options(images=True, task="another"))
    with pytest.raises(ConfigError, match="of another conversion"):
        convert(datasets[0], tmp_path / "back.hdf5", Options())
    with pytest.raises(ConfigError, match="give its command again"):
        joining.recover(tmp_path / "back.hdf5")
    assert staging_path(tmp_path / "dataset").is_dir()
    assert staging_path(tmp_path / "back.hdf5").is_dir()
    assert convert(source, tmp_path / "dataset", Options(images=True, task="another", overwrite=True)).resumed == 0
    assert convert(datasets[0], tmp_path / "back.hdf5", Options(overwrite=True)).resumed == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back.hdf5", "dataset"]
