"""Check a dataset: `python -m mimicpipe.tools.validate DATASET [--replay K] [--run RUN]`.

One line a check: structure, counts, shapes, time stamps, finite numbers, statistics, videos. Where the run that made
the dataset is at hand (its output folder holds the dataset, or --run names it), K episodes are played again in its
simulator: each must show the recorded observations and end as it was recorded.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mimicpipe.report.format import some
from mimicpipe.tools.dataset_checks import open_dataset, run_checks
from mimicpipe.tools.exits import exit_code, tool_parser

_TOLERANCE = 1e-5
"""Of observations: the same to the bit on the machine that recorded them, but another CPU may round differently."""


def find_run(root: Path) -> Path | None:
    """The output folder of the run that made a dataset, if the dataset lies in it."""
    folder = root.parent
    return folder if (folder / "run.json").is_file() or (folder / ".hydra").is_dir() else None


def replay_checks(root: Path, run: Path, number: int) -> Iterator[tuple[str, bool, str]]:
    """Play the first episodes again; checks as `run_checks` gives them.

    Args:
        root: the dataset.
        run: output folder of the run that made it.
        number: of episodes; they are taken evenly over the dataset.

    Raises:
        ConfigError: the run's simulator cannot be built, or the dataset was not written by a mimicpipe recorder.
    """
    import torch

    from mimicpipe import build
    from mimicpipe.tools.replaying import RecordedEpisodes, replay
    from mimicpipe.tools.saved_run import saved_config

    config = saved_config(run)
    config.env["cameras"] = []  # frames are lossy, and slow to render
    recorded = RecordedEpisodes(root, number)
    env = build.build_env(config)
    try:
        with torch.inference_mode():
            played = replay(env, recorded, config.task["hold_steps"])
    finally:
        env.close()
    other = [episode for episode in played if episode.success != episode.recorded_success]
    said = f"{some(len(played), 'episode')} played again, each to the end that was recorded"
    if other:
        said = f"episode {other[0].index} ends in {'success' if other[0].success else 'failure'} when played again"
    yield "replay", not other, said
    worst = max(played, key=lambda episode: episode.difference)
    said = f"largest difference {worst.difference:.1e}"
    if worst.difference > _TOLERANCE:
        said += f", of {worst.feature} in frame {worst.frame} of episode {worst.index}: not what the actions lead to"
    yield "observations", worst.difference <= _TOLERANCE, said


def report(results: Iterator[tuple[str, bool, str]]) -> int:
    """Print a line each; returns the number of checks that failed."""
    failed = 0
    for name, good, said in results:
        print(f"{'ok  ' if good else 'FAIL'}  {name:<13} {said}", flush=True)
        failed += not good
    return failed


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code."""
    parser = tool_parser(
        "validate", __doc__, exit_codes="Exit code: 0 all passed, 1 one did not, 2 no dataset, 130 after Ctrl-C."
    )
    parser.add_argument("dataset", metavar="DATASET", type=Path, help="folder of a LeRobot v3 dataset")
    parser.add_argument(
        "--replay", type=int, default=4, metavar="K", help="episodes to play again (default: 4; 0: none)"
    )
    parser.add_argument("--run", type=Path, help="output folder of the run that made it, if it lies elsewhere")
    args = parser.parse_args(argv)
    root = args.dataset.expanduser().resolve()

    def work() -> int:
        failed = report(run_checks(open_dataset(root)))
        run: Any = args.run.expanduser().resolve() if args.run is not None else find_run(root)
        if failed or args.replay <= 0:
            return int(failed > 0)
        if run is None:
            print("--    replay        not done: the dataset lies in no run's output folder; name it with --run")
            return 0
        failed += report(replay_checks(root, run, args.replay))
        return int(failed > 0)

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
