"""What is killed: a whole run, or a recorder that is fed with episodes. Called in a process of its own."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

PRELOAD = ("experiments.chaos.preload",)
ROOT = Path(__file__).resolve().parents[2]
FRAMES = 40


def run(arguments: Sequence[str], log: str) -> None:
    """`python run.py ARGUMENTS`; what it prints goes to `log`."""
    _print_to(log)
    sys.path.insert(0, str(ROOT))
    sys.argv = ["run.py", *arguments]
    import run as script
    from mimicpipe.signals import leave

    try:
        code = script.main()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    leave(code)


def record(root: str, count: int, workers: int, log: str) -> None:
    """Record episodes with two cameras and print the number of each that is durable.

    Goes on with what an earlier victim has left beside `root`; episodes that are durable are not made again.
    """
    _print_to(log)
    from experiments.recorder.episodes import CAMERAS, FPS, STATE, make_episode
    from mimicpipe.recorders.sharded import ShardedRecorder
    from mimicpipe.recorders.staged import StagedRun
    from mimicpipe.recorders.staging_area import staged_logs, staging_path

    staging = staging_path(Path(root))
    staged = {meta["index"] for meta in StagedRun(staged_logs(staging)).metas}
    kept = next(index for index in range(count + 1) if index not in staged)
    features = STATE | CAMERAS
    resume = kept if staging.is_dir() else None
    recorder = ShardedRecorder(root, "local/chaos", FPS, features, workers=workers, resume=resume)
    recorder.on_durable = lambda _, index: print(index, flush=True)
    for index in range(kept, count):
        recorder.commit(make_episode(index, features, FRAMES))
    recorder.finalize()


def _print_to(log: str) -> None:
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for number in (1, 2):
        os.dup2(handle, number)
    os.close(handle)
