"""`pool=hdf5`: source demos from files in Isaac Lab Mimic's or MimicGen's HDF5 layout, and from LeRobot datasets."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from mimicpipe.datagen.datagen_info import SourceDemo
from mimicpipe.datagen.subtask import SubtaskConfigs
from mimicpipe.envs.base import MimicEnv
from mimicpipe.envs.tasks.base import Task
from mimicpipe.pools.base import OnError, ReadResult
from mimicpipe.pools.conversion import conversion_of
from mimicpipe.pools.hdf5_file import list_demos, read_demos
from mimicpipe.pools.hdf5_layout import Needs
from mimicpipe.pools.lerobot_reader import LeRobotOptions, LeRobotReader
from mimicpipe.pools.loading import load_demos, load_needed

__all__ = ["Hdf5Pool", "OnError", "ReadResult", "demo_reader", "list_demos", "load_demos", "needs_of", "read_demos"]


class Hdf5Pool:
    """Source demos from a file, from the files of a folder, or from several of either.

    Args:
        path: a file, a LeRobot dataset (read as `pool=lerobot` does with its defaults), a folder of any of these, or a
            list of any.
        demo_keys: demos to take; None is all.
        max_demos: take at most this many; None is all.
        on_error: "raise" or "skip" a demo that cannot be used.
        frame, gripper_scale: of HDF5 files of another simulator, see `conversion.conversion_of`.
    """

    def __init__(
        self,
        path: str | Path | Sequence[str | Path],
        demo_keys: Sequence[str] | None = None,
        max_demos: int | None = None,
        on_error: OnError = "raise",
        frame: Sequence[float] | None = None,
        gripper_scale: float | None = None,
    ) -> None:
        self.path = paths_of(path)
        self.demo_keys = demo_keys
        self.max_demos = max_demos
        self.on_error: OnError = on_error
        self.conversion = conversion_of(frame, gripper_scale)

    def load(self, env: MimicEnv, subtask_configs: SubtaskConfigs) -> ReadResult:
        """Demos with everything that the env and the subtasks need; see `pools.base.DemoSource`."""
        needs = replace(needs_of(env, subtask_configs), conversion=self.conversion)
        return load_needed(
            self.path,
            needs,
            demo_keys=self.demo_keys,
            max_demos=self.max_demos,
            on_error=self.on_error,
            datasets=LeRobotReader(env, needs, LeRobotOptions()),
        )


def paths_of(path: str | Path | Sequence[str | Path]) -> list[Path]:
    """The paths of `pool.path`, which is one or a list of them."""
    return [Path(each).expanduser() for each in ([path] if isinstance(path, str | Path) else path)]


def demo_reader(env: MimicEnv, subtask_configs: SubtaskConfigs) -> Callable[[Path], list[SourceDemo]]:
    """The `reader` of a `DataGenInfoPool`: reads every demo of a file, and raises at the first bad one."""
    needs = needs_of(env, subtask_configs)
    return lambda path: load_needed(path, needs).demos


def needs_of(env: MimicEnv, subtask_configs: SubtaskConfigs) -> Needs:
    """What a demo must have: the env's end effectors and actions, and the objects and signals that subtasks name."""
    subtasks = [subtask for eef in subtask_configs.values() for subtask in eef]
    objects = {subtask.object_ref for subtask in subtasks}
    signals = dict.fromkeys(s.subtask_term_signal for s in subtasks if s.subtask_term_signal is not None)
    # Start signals are read where there are any: whoever needs one says so.
    return Needs(
        eef_names=env.eef_names,
        object_names=[name for name in env.object_names if name in objects],
        signal_names=list(signals),
        start_signal_names=None,
        gripper_from_actions=env.actions_to_gripper_actions,
        action_dim=env.action_dim,
        own_frame=isinstance(getattr(env, "task", None), Task),
    )
