"""HDF5 demos into a LeRobot v3 dataset, or back: `python -m mimicpipe.tools.convert SOURCE TARGET`.

SOURCE is an HDF5 file in Isaac Lab's or robomimic's layout (or the folder of recorder=hdf5), and TARGET the folder of
the new dataset; or SOURCE is a LeRobot v3 dataset, and TARGET a new .hdf5 file. Demos are converted one by one. Numbers
keep every bit, both ways. A conversion that was killed goes on when the same command is given again, to the same bytes;
TARGET appears complete. A demo that is broken, or that has not the keys of most others, is said and skipped.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mimicpipe.convert.options import Converted, Options
from mimicpipe.errors import ConfigError
from mimicpipe.pools.lerobot_files import is_dataset
from mimicpipe.recorders.layout import HDF5_NAME
from mimicpipe.tools.exits import exit_code, tool_parser
from mimicpipe.tools.merge import in_flags

_SUFFIXES = (".hdf5", ".h5")
_ONLY_FROM_HDF5 = ("fps", "task", "repo_id", "common", "state", "success_only", "mask", "images", "workers")
_ONLY_FROM_LEROBOT = ("frames",)


def convert(source: Path, target: Path, options: Options) -> Converted:
    """Convert in the direction that the source tells.

    Raises:
        ConfigError, SourceDemoError, RecorderError, OSError: as `to_lerobot` and `to_hdf5`.
    """
    if not source.exists():
        raise ConfigError(f"{source}: no such file or folder")
    if is_dataset(source):
        from mimicpipe.convert.to_hdf5 import to_hdf5

        _refuse(options, _ONLY_FROM_HDF5, "a LeRobot dataset")
        if target.suffix not in _SUFFIXES:
            raise ConfigError(f"{target}: {source} is a LeRobot dataset, so TARGET is a new file, NAME.hdf5")
        return to_hdf5(source, target, options, _say)
    from mimicpipe.convert.to_lerobot import to_lerobot

    _refuse(options, _ONLY_FROM_LEROBOT, "an HDF5 file")
    if source.is_dir() and (source / HDF5_NAME).is_file():
        source = source / HDF5_NAME
    if target.suffix in _SUFFIXES:
        raise ConfigError(f"{target}: {source} is no LeRobot dataset, so TARGET is the folder of a new one")
    return to_lerobot(source, target, options, _say)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _refuse(options: Options, names: Sequence[str], source: str) -> None:
    given = [name for name in names if getattr(options, name) != getattr(Options(), name)]
    if given:
        raise ConfigError(f"--{given[0].replace('_', '-')}: means nothing where SOURCE is {source}")


def _parser() -> argparse.ArgumentParser:
    parser = tool_parser(
        "convert",
        __doc__,
        exit_codes="Exit code: 0 converted, also if demos were skipped; 1 it could not be written; "
        "2 a wrong option, file or target, or no demo could be converted; 130 after Ctrl-C.",
    )
    parser.add_argument("source", metavar="SOURCE", type=Path, help="an HDF5 file, or the folder of a LeRobot dataset")
    parser.add_argument("target", metavar="TARGET", type=Path, help="the folder of a new dataset, or a new .hdf5 file")
    parser.add_argument("--include", action="append", default=[], metavar="GLOB",
                        help="only keys like this, by name in the demo or in the dataset; may be repeated")  # fmt: skip
    parser.add_argument(
        "--exclude", action="append", default=[], metavar="GLOB", help="no keys like this; may be repeated"
    )
    parser.add_argument("--max-demos", type=int, metavar="N", help="convert the first N demos only")
    parser.add_argument(
        "--on-error", choices=("skip", "raise"), default="skip", help="what is done at a broken demo (default: skip)"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace TARGET if it exists, once the new one is complete"
    )
    parser.add_argument("--robot-type", metavar="TEXT", help="robot_type that the result names")
    group = parser.add_argument_group("quaternions")
    orders = ("wxyz", "xyzw")
    group.add_argument("--quaternions", choices=orders, help="the order in SOURCE, where it does not say (or is wrong)")
    group.add_argument("--to-quaternions", choices=orders, help="change it to this; otherwise nothing is changed")
    group.add_argument("--quaternion-keys", action="append", default=[], metavar="GLOB",
                       help="keys of 4 numbers, or of a pose of 7 (default: *quat, *root_pose)")  # fmt: skip
    group = parser.add_argument_group("from HDF5")
    group.add_argument("--fps", type=int, metavar="HZ", help="control rate, where the file does not tell it")
    group.add_argument("--task", metavar="TEXT", help="instruction of every episode (default: each demo's own)")
    group.add_argument(
        "--images", action="store_true", help="cameras as PNG, which is lossless and large, not as videos"
    )
    group.add_argument(
        "--common", action="store_true", help="keep only keys that all demos have, instead of skipping demos"
    )
    group.add_argument("--state", action="append", default=[], metavar="GLOB",
                       help="vectors that stand side by side as observation.state, too, which LeRobot's policies want "
                       "(obs/joint_pos); may be repeated")  # fmt: skip
    group.add_argument("--success-only", action="store_true", help="leave out demos recorded as failures")
    group.add_argument("--mask", metavar="NAME", help="only the demos of robomimic's mask/NAME")
    group.add_argument(
        "--workers",
        type=int,
        default=0,
        metavar="N",
        help="processes that encode cameras (default: 0, none beside this)",
    )
    group.add_argument("--repo-id", metavar="NAME", help="checked; a dataset on disk has no place for it")
    group = parser.add_argument_group("from LeRobot")
    group.add_argument(
        "--frames", action="store_true", help="cameras, too: every frame decoded, which takes much space"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code."""
    args = vars(_parser().parse_args(argv))
    source, target = args.pop("source"), args.pop("target")

    def work() -> None:
        if args["max_demos"] is not None and args["max_demos"] < 1:
            raise ConfigError(f"--max-demos {args['max_demos']}: at least 1")
        given: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in args.items()}
        result = convert(source.expanduser(), target.expanduser(), Options(**given))
        for note in result.notes:
            print(f"note: {note}")
        gone_on = f", {result.resumed} of them by an interrupted conversion" if result.resumed else ""
        skipped = f"; {len(result.skipped)} skipped" if result.skipped else ""
        print(f"{result.episodes} of {result.total} demos ({result.frames} frames{gone_on}) in {result.path}{skipped}")

    return exit_code(work, in_words=in_flags, interrupted="interrupted: give the same command again, and it goes on")


if __name__ == "__main__":
    sys.exit(main())
