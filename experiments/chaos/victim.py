"""Records episodes with two cameras and prints what is durable.

`python -m experiments.chaos.victim ROOT COUNT WORKERS` goes on with what an earlier victim has left beside ROOT.
"""

import sys
from pathlib import Path

from experiments.recorder.episodes import CAMERAS, FPS, STATE, make_episode
from mimicpipe.recorders.sharded import ShardedRecorder
from mimicpipe.recorders.staged import StagedRun
from mimicpipe.recorders.staging_area import staged_logs, staging_path

FRAMES = 40


def record(root: Path, count: int, workers: int) -> None:
    """Make the dataset of episodes 0 to `count`; episodes that are durable are not made again."""
    staged = {meta["index"] for meta in StagedRun(staged_logs(staging_path(root))).metas}
    kept = next(index for index in range(count + 1) if index not in staged)
    features = STATE | CAMERAS
    resume = kept if staging_path(root).is_dir() else None
    recorder = ShardedRecorder(root, "local/chaos", FPS, features, workers=workers, resume=resume)
    recorder.on_durable = lambda _, index: print(index, flush=True)
    for index in range(kept, count):
        recorder.commit(make_episode(index, features, FRAMES))
    recorder.finalize()


if __name__ == "__main__":
    record(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
