"""Write report.html of a run or a sweep anew: `python -m mimicpipe.tools.report FOLDER`.

FOLDER is a run's output folder, or the folder of a sweep: then its jobs are compared, and with --jobs each job's own
page is written, too. Everything comes from the files in the folder. With --episodes a run's simulator is built, the
first episodes of its dataset are played again, and preview.gif, clips, paths and start positions are made anew. A run
does that itself, unless it failed or was killed.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from mimicpipe.errors import ConfigError
from mimicpipe.report.format import elapsed, near, percent
from mimicpipe.report.page import write_run_page
from mimicpipe.report.run_files import REPORT, read_json
from mimicpipe.report.summary import write_json
from mimicpipe.report.sweep import is_sweep, read_jobs, write_sweep_page
from mimicpipe.tools.exits import exit_code, tool_parser
from mimicpipe.tools.saved_run import dataset_roots, saved_config


def play_again(folder: Path) -> int:
    """Build a run's simulator, play episodes of its datasets and write report.json and preview.gif anew.

    Args:
        folder: the run's output folder.

    Returns:
        How many episodes were played.

    Raises:
        ConfigError: the run's config is not there, or cannot be built.
    """
    from mimicpipe import build
    from mimicpipe.report.episodes import look_back
    from mimicpipe.report.sample import chosen, takes_of_dataset

    config = saved_config(folder)
    roots = [root for root in dataset_roots(folder, config) if (root / "meta" / "info.json").is_file()]
    takes = chosen(take for root in roots for take in takes_of_dataset(root))
    env = build.build_env(config)
    try:
        found = look_back(
            env, takes, folder, float(read_json(folder / "run.json").get("wall_s") or 0.0), config.preview
        )
    finally:
        env.close()
    kept = {name: value for name, value in read_json(folder / REPORT).items() if name == "series"}
    write_json(folder / REPORT, {**kept, **found}, indent=None)
    return len(takes)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code."""
    parser = tool_parser("report", __doc__)
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="a run's output folder, or a sweep's")
    parser.add_argument("--episodes", action="store_true", help="play episodes again for clips, paths and preview.gif")
    parser.add_argument("--jobs", action="store_true", help="of a sweep: each job's page, too")
    args = parser.parse_args(argv)

    def work() -> None:
        folder = args.folder.expanduser().resolve()
        if not folder.is_dir():
            raise ConfigError(f"{args.folder}: no such folder")
        for run in _runs(folder, args.jobs):
            if args.episodes:
                number, began = play_again(run), time.monotonic()
                print(near(write_run_page(run)))
                print(_costs(run, number, time.monotonic() - began), file=sys.stderr)
            else:
                print(near(write_run_page(run)))
        if is_sweep(folder):
            print(near(write_sweep_page(folder)))

    return exit_code(work)


def _costs(folder: Path, episodes: int, page_s: float) -> str:
    """What the report of a run takes, beside what the run took."""
    drawn = float(read_json(folder / REPORT).get("seconds", 0.0))
    wall = float(read_json(folder / "run.json").get("wall_s") or 0.0)
    shares = f" ({percent(drawn / wall)} and {percent(page_s / wall)} of the run's {elapsed(wall)})" if wall else ""
    return f"{episodes} episodes played and drawn in {elapsed(drawn)}, the page written in {elapsed(page_s)}{shares}"


def _runs(folder: Path, jobs: bool) -> list[Path]:
    if is_sweep(folder):
        return [job.folder for job in read_jobs(folder)] if jobs else []
    return [folder]


if __name__ == "__main__":
    sys.exit(main())
