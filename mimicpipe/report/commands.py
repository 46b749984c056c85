"""The exact commands that go on from a run: replay, view, check, resume."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mimicpipe.report.format import near
from mimicpipe.report.summary import open_commands

_OF_THIS_FOLDER = ("resume=", "hydra.run.dir=", "hydra.sweep.dir=", "hydra.mode=")


def next_commands(run: Mapping[str, Any], folder: Path, overrides: Sequence[str]) -> list[tuple[str, str]]:
    """(what it does, the command line) of everything that makes sense for a run as it ended.

    Args:
        run: the content of run.json.
        folder: the run's output folder; commands name it by its absolute path, so they work from the project's folder.
        overrides: those it was started with.
    """
    python, found = near(Path(sys.executable)), []

    def module(name: str, *arguments: object) -> str:
        return shlex.join([python, "-m", name, *map(str, arguments)])

    dataset, failed = run.get("dataset"), run.get("failed_dataset")
    if dataset:
        root = Path(dataset["root"])
        found.append(("Replay every episode in the simulator, from its first state and its actions alone",
                      module("examples.replay", folder)))  # fmt: skip
        found.append(("Write a recording that Rerun shows", module("mimicpipe.tools.view", folder)))
        found.append(("Check the dataset", module("mimicpipe.tools.validate", root)))
        if "repo_id" in dataset:
            opener, viewer = open_commands(dataset["repo_id"], root)
            found += [("Open it with LeRobot", opener), ("Watch an episode in LeRobot's viewer", viewer)]
        found.append(("Print the hash of its content", module("mimicpipe.tools.digest", root)))
    if failed:
        found.append(("Check the failed attempts' dataset", module("mimicpipe.tools.validate", failed["root"])))
    if not dataset and run.get("exit_reason") not in (None, "num_demos", "max_attempts", "max_failures"):
        found.append(("Go on where the run was interrupted", shlex.join([python, "run.py", f"resume={folder}"])))
        found.append(("Make a dataset of what is there", module("mimicpipe.tools.recover", folder)))
    kept = [part for part in overrides if not part.startswith(_OF_THIS_FOLDER)]
    found.append(("Generate the same again", shlex.join([python, "run.py", *kept])))
    found.append(("Write this page again", module("mimicpipe.tools.report", folder)))
    return found


def sweep_commands(folder: Path, overrides: Sequence[str]) -> list[tuple[str, str]]:
    """The same for a sweep.

    Args:
        folder: the sweep's.
        overrides: those it was started with.
    """
    python = near(Path(sys.executable))
    kept = [part for part in overrides if not part.startswith(_OF_THIS_FOLDER)]
    again = [("Generate the same again", shlex.join([python, "run.py", "-m", *kept]))] if kept else []
    return [
        *again,
        ("See how each job is doing", shlex.join([python, "-m", "mimicpipe.tools.status", str(folder)])),
        ("Write this page again, and that of each job",
         shlex.join([python, "-m", "mimicpipe.tools.report", str(folder), "--jobs"])),
    ]  # fmt: skip
