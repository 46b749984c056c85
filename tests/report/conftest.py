"""One real run with successes and failures, for all tests of what is drawn of a run."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from in_process import run_main

from mimicpipe.report import episodes


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory) -> Path:
    """Output folder of a run of env=kinematic in which some attempts fail.

    What is found out about its episodes is not cut short, however busy the machine is.
    """
    folder = tmp_path_factory.mktemp("runs") / "run"
    arguments = ["env=kinematic", "env.lag=0.86", "task=stack", "task.variant=D1", "tracker=none", "num_demos=12",
                 "env.num_envs=4", "seed=3", "recorder.save_failed=true", f"hydra.run.dir={folder}"]  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(episodes, "_LEAST_S", 600.0)
        patch.setattr(episodes, "_PLAY_S", 600.0)
        assert run_main(arguments, folder.parent) == 0
    return folder
