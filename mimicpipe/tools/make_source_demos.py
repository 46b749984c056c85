"""Record the source demos that come with the package: `python -m mimicpipe.tools.make_source_demos [TASK ...]`.

The scripted expert performs them on env=mujoco, variant D0. The same command writes the same bytes again on the same
kind of machine; another CPU may round the last bits of a sine otherwise.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.tasks.base import Task
from mimicpipe.envs.tasks.catalog import task_classes
from mimicpipe.pools.hdf5_writer import write_demos
from mimicpipe.pools.scripted import Collection, collect_scripted_demos
from mimicpipe.preflight import BUNDLED_DEMOS
from mimicpipe.tools.exits import exit_code, tool_parser

VARIANT = "D0"
NUM_DEMOS = 10
SEED = 3
# robomimic's EnvType of a gym environment, which Isaac Lab writes, too.
_GYM_TYPE = 2


def record(task: Task, num_demos: int, seed: int, num_envs: int | None = None) -> Collection:
    """Perform `num_demos` demos of a task on env=mujoco, with observations; `num_envs` does not change them."""
    env = MujocoEnv(task, num_envs if num_envs is not None else num_demos)
    try:
        return collect_scripted_demos(env, num_demos, seed, observations=True)
    finally:
        env.close()


def write(path: Path, task: Task, collection: Collection) -> None:
    """Write a collection in Isaac Lab Mimic's layout."""
    env_args = {
        "env_name": f"mimicpipe-{task.name}",
        "type": _GYM_TYPE,
        "env_kwargs": {"env": "mujoco", "task": task.name, "variant": task.variant, "control": "ik_rel"},
    }
    write_demos(path, collection.demos, env_args, seeds=collection.seeds)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code."""
    classes = task_classes()
    parser = tool_parser("make_source_demos", __doc__)
    parser.add_argument("task", metavar="TASK", nargs="*", help=f"tasks to record (default: {' '.join(classes)})")
    parser.add_argument("--variant", default=VARIANT, metavar="NAME", help=f"reset distribution (default: {VARIANT})")
    parser.add_argument(
        "--num-demos", type=int, default=NUM_DEMOS, metavar="N", help=f"demos per task (default: {NUM_DEMOS})"
    )
    parser.add_argument(
        "--seed", type=int, default=SEED, metavar="N", help=f"seed of scenes and habits (default: {SEED})"
    )
    parser.add_argument("--out", type=Path, default=BUNDLED_DEMOS, metavar="FOLDER",
                        help="folder for <task>.hdf5 (default: the package's own)")  # fmt: skip
    args = parser.parse_args(argv)
    names = args.task or list(classes)
    if unknown := [name for name in names if name not in classes]:
        parser.error(f"unknown task {', '.join(unknown)}; choose from {', '.join(classes)}")
    if args.num_demos < 1:
        parser.error(f"--num-demos {args.num_demos}: must be 1 or more")

    def work() -> None:
        for name in names:
            task = classes[name](variant=args.variant)
            collection = record(task, args.num_demos, args.seed)
            path = args.out / f"{name}.hdf5"
            write(path, task, collection)
            lengths = [demo.info.length for demo in collection.demos]
            print(
                f"{path}: {len(lengths)} demos of {min(lengths)} to {max(lengths)} steps, "
                f"{collection.tried} performed, {path.stat().st_size / 1e3:.0f} kB"
            )

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
