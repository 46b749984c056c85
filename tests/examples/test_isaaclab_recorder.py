"""The example that records an Isaac Lab environment, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mimicpipe.recorders.episode_rows import read_episode_metadata

pytest.importorskip("isaaclab")
pytestmark = [pytest.mark.isaaclab, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]


def test_it_records_every_slot(tmp_path):
    call = f"record(Path({str(tmp_path / 'dataset')!r}), num_envs=2, seconds=0.3, episodes=2)"
    code = f"from pathlib import Path; from examples.isaaclab_recorder import record; print({call})"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(tmp_path / "dataset")
    assert [row["length"] for row in read_episode_metadata(tmp_path / "dataset")] == [6] * 4
