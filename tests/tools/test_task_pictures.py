"""A picture shows a bundled demo, from its start to its end, in colour and in a small file."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mimicpipe.envs.tasks.catalog import task_classes
from mimicpipe.tools import task_pictures


def test_a_picture_shows_the_demo_from_start_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert task_pictures.main(["stack", "--out", str(tmp_path), "--frames", "2", "--demo", "1"]) == 0
    assert "stack.png" in capsys.readouterr().out
    image = np.asarray(Image.open(tmp_path / "stack.png")).astype(int)
    height, width = task_pictures.FRAME
    first, last = image[:, :width], image[:, width + 4 : 2 * width + 4]
    assert first.shape == last.shape == (height, width, 3)
    red = [(frame[..., 0] - frame[..., 1:].max(axis=-1) > 60).any() for frame in (first, last)]
    assert red == [True, True]
    assert (np.abs(first - last).max(axis=-1) > 40).mean() > 0.005


def test_bad_arguments_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in ((["juggle"], "choose from"), (["pick", "--frames", "0"], "must be 1 or more")):
        with pytest.raises(SystemExit, match="2"):
            task_pictures.main([*arguments, "--out", str(tmp_path)])
        assert message in capsys.readouterr().err
    assert task_pictures.main(["pick", "--demo", "10", "--out", str(tmp_path)]) == 2
    assert re.fullmatch(r"error: --demo 10: \S+ has 0 to 9\n", capsys.readouterr().err)


def test_every_task_has_a_small_picture() -> None:
    files = {path.stem: path.stat().st_size for path in task_pictures.FOLDER.glob("*.png")}
    assert set(files) == set(task_classes())
    assert max(files.values()) < 60_000
