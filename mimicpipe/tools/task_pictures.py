"""Draw each task for the README: `MUJOCO_GL=egl python -m mimicpipe.tools.task_pictures [TASK ...]`.

A picture shows the first bundled source demo, which is played again: at its start, in its middle and at its end, as the
front camera sees it. Frames of other demos are for looking at: `--demo 3 --frames 12 --out FOLDER`.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from mimicpipe.datagen.datagen_info import SourceDemo
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.tasks.base import Task
from mimicpipe.envs.tasks.catalog import task_classes
from mimicpipe.errors import ConfigError, SourceDemoError
from mimicpipe.pools.hdf5 import read_demos
from mimicpipe.preflight import BUNDLED_DEMOS
from mimicpipe.tools.exits import exit_code, tool_parser

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "tasks"
FRAME = (216, 288)
"""Height and width of a frame, pixels."""
_COLUMNS = 3

Image = npt.NDArray[np.uint8]


def frames_of(task: Task, demo: SourceDemo, count: int) -> list[Image]:
    """`count` frames (H, W, 3), evenly spread from the first to the last of a demo that is played again."""
    if demo.initial_state is None:
        raise SourceDemoError(f"{demo.name}: has no initial state to play it from")
    env = MujocoEnv(task, 1, cameras=("front",), image_size=FRAME)
    try:
        env.set_state(demo.initial_state[None])
        wanted = set(np.linspace(0, demo.info.length, count).round().astype(int).tolist())
        frames = []
        for step in range(demo.info.length + 1):
            if step in wanted:
                frames.append(env.observe()["observation.images.front"][0].numpy())
            if step < demo.info.length:
                env.step(demo.actions[step][None].to(torch.float32))
        return frames
    finally:
        env.close()


def write_sheet(frames: Sequence[Image], path: Path) -> None:
    """Write frames as one PNG, in rows of three."""
    from PIL import Image as Images

    height, width = FRAME
    gap = 4
    rows = -(-len(frames) // _COLUMNS)
    sheet = np.full((rows * (height + gap) - gap, _COLUMNS * (width + gap) - gap, 3), 255, np.uint8)
    for index, frame in enumerate(frames):
        top, left = index // _COLUMNS * (height + gap), index % _COLUMNS * (width + gap)
        sheet[top : top + height, left : left + width] = frame
    path.parent.mkdir(parents=True, exist_ok=True)
    Images.fromarray(sheet).save(path, optimize=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code."""
    classes = task_classes()
    parser = tool_parser("task_pictures", __doc__)
    parser.add_argument("task", metavar="TASK", nargs="*", help=f"tasks to draw (default: all, {' '.join(classes)})")
    parser.add_argument("--demo", type=int, default=0, metavar="N", help="index of the source demo (default: 0)")
    parser.add_argument("--frames", type=int, default=3, metavar="N", help="frames in the picture (default: 3)")
    parser.add_argument(
        "--demos",
        type=Path,
        default=BUNDLED_DEMOS,
        metavar="FOLDER",
        help="folder of <task>.hdf5 (default: the package's own)",
    )
    parser.add_argument(
        "--out", type=Path, default=FOLDER, metavar="FOLDER", help="folder for <task>.png (default: docs/tasks)"
    )
    args = parser.parse_args(argv)
    names = args.task or list(classes)
    if unknown := [name for name in names if name not in classes]:
        parser.error(f"unknown task {', '.join(unknown)}; choose from {', '.join(classes)}")
    if args.frames < 1:
        parser.error(f"--frames {args.frames}: must be 1 or more")

    def work() -> None:
        for name in names:
            path = args.demos / f"{name}.hdf5"
            demos = read_demos(
                path, eef_names=None, object_names=None, signal_names=None, gripper_from_actions=None
            ).demos
            if not 0 <= args.demo < len(demos):
                raise ConfigError(f"--demo {args.demo}: {path} has 0 to {len(demos) - 1}")
            picture = args.out / f"{name}.png"
            write_sheet(frames_of(classes[name](), demos[args.demo], args.frames), picture)
            print(f"{picture}: {picture.stat().st_size / 1e3:.0f} kB")

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
