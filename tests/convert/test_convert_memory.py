"""Files are converted demo by demo: memory does not grow with their number."""

import tracemalloc

import h5py
import numpy as np
import pytest

from mimicpipe.convert import to_lerobot
from mimicpipe.convert.options import Options
from mimicpipe.tools.convert import convert

DEMO_BYTES = 800 * 40 * 8
MUCH = 10 * DEMO_BYTES


def peaks(folder, count):
    """Most memory that a conversion of so many demos takes, there and back, bytes."""
    folder.mkdir()
    with h5py.File(folder / "demos.hdf5", "w") as file:
        for number in range(count):
            demo = file.create_group(f"data/demo_{number}")
            demo["actions"] = np.full((800, 7), number, np.float32)
            demo["obs/x"] = np.random.default_rng(number).standard_normal((800, 40))
    found = []
    for source, target in (("demos.hdf5", "dataset"), ("dataset", "back.hdf5")):
        options = Options(fps=10, task="t") if source == "demos.hdf5" else Options()
        tracemalloc.start()
        convert(folder / source, folder / target, options)
        found.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return found


@pytest.mark.slow
def test_memory_does_not_grow_with_the_demos(tmp_path, monkeypatch):
    monkeypatch.setattr(to_lerobot, "_WAITING", 1)
    peaks(tmp_path / "first", 1)  # what is imported late
    few, many = peaks(tmp_path / "few", 8), peaks(tmp_path / "many", 80)
    assert many[0] - few[0] < MUCH
    assert many[1] - few[1] < 70 * DEMO_BYTES  # a group of 64 waits for one sync
