"""One real run with a dataset, for the tools that look at it."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from in_process import run_main


@pytest.fixture(scope="session")
def recorded_run(tmp_path_factory) -> Path:
    """Output folder of a run of env=kinematic."""
    folder = tmp_path_factory.mktemp("recorded") / "run"
    arguments = ["env=kinematic", "env.num_envs=3", "tracker=none", "num_demos=5", "preview=false"]
    assert run_main([*arguments, f"hydra.run.dir={folder}"], folder.parent) == 0
    return folder
