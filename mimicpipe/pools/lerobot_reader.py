"""Episodes of a LeRobot dataset as source demos: where each part of one comes from, and what is worked out.

A dataset has observations and actions, but neither target poses nor signals. Targets come from the actions, where they
are poses or changes of one, or else from where the eef is a step later; signals from the task, which looks at the
recorded poses as it would at a simulator.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mimicpipe.datagen.checks import check_info, require_finite
from mimicpipe.datagen.datagen_info import DatagenInfo, SourceDemo
from mimicpipe.envs.actions import GRIPPER_CLOSE, GRIPPER_OPEN, actions_to_poses, gripper_part, poses_to_actions
from mimicpipe.envs.base import MimicEnv
from mimicpipe.envs.tasks.base import Task, TaskView
from mimicpipe.errors import SourceDemoError
from mimicpipe.pools.base import OnError, ReadResult
from mimicpipe.pools.frame_columns import ORDERS, control_of, elements, ending_with, named_poses
from mimicpipe.pools.hdf5_layout import Needs
from mimicpipe.pools.lerobot_files import Column, LeRobotFiles, open_dataset
from mimicpipe.pools.names import listing
from mimicpipe.pools.tracing import Recording, trace

POSES = ("features", "fk", "replay")
TARGETS = ("action", "next_pose")
FeatureNames = str | Mapping[str, str]
"""One feature that holds several bodies, or {body: its feature}."""


@dataclass(frozen=True)
class LeRobotOptions:
    """Where the parts of a demo are in a dataset; the defaults are what this package's envs record."""

    poses: str = "features"
    """Of `POSES`: recorded poses; joint positions through the env's kinematics; or the actions played again from the
    recorded initial state, which only this package's recorders keep."""
    targets: str = "action"
    """Of `TARGETS`."""
    quaternion: str = "wxyz"
    """Order in features whose elements have no names, a key of `frame_columns.ORDERS`."""
    eef_pose: FeatureNames = "observation.eef_pose"
    object_pose: FeatureNames = "observation.environment_state"
    joints: str = "observation.state"
    gripper_width: str = "observation.state"
    action: str = "action"
    gripper: str = "action"
    """Feature of the grippers' commands, where targets=next_pose."""
    gripper_threshold: float | None = None
    """Commands of at least this open and others close; None takes them as they are."""
    signals: Mapping[str, str] = field(default_factory=dict)
    """{signal: its feature}; others are worked out by the task."""


class LeRobotReader:
    """Reads the episodes of datasets for one env.

    Args:
        env: what the demos are for; with poses=replay it is stepped.
        needs: names of objects and signals that a demo must have.
        options: where they are.

    Raises:
        SourceDemoError: an option that is not valid.
    """

    def __init__(self, env: MimicEnv, needs: Needs, options: LeRobotOptions) -> None:
        for key, value, valid in (
            ("poses", options.poses, POSES),
            ("targets", options.targets, TARGETS),
            ("quaternion", options.quaternion, tuple(ORDERS)),
        ):
            if value not in valid:
                raise SourceDemoError(f"pool.{key}={value}: valid: {', '.join(valid)}")
        self.env, self.needs, self.options = env, needs, options
        several = len(env.eef_names) > 1
        self._prefixes = [f"{eef}_" if several else "" for eef in env.eef_names]
        self._task: Task | None = getattr(env, "task", None)
        self._control: str | None = getattr(env, "control", None)

    def list_episodes(self, root: Path) -> list[str]:
        """Names of a dataset's episodes, in order."""
        return [f"episode_{row['episode_index']}" for row in open_dataset(root).episodes]

    def read_usable(
        self, root: Path, demo_keys: Sequence[str] | None, max_demos: int | None, on_error: OnError
    ) -> ReadResult:
        """Read and check episodes, as `hdf5_file.read_usable` does demos."""
        files = open_dataset(root)
        if files.fps != self.env.fps:
            raise SourceDemoError(
                f"{root}: recorded at {files.fps:g} frames per second, this env steps at {self.env.fps}; "
                "record or convert it at the env's rate"
            )
        names = [f"episode_{row['episode_index']}" for row in files.episodes]
        if demo_keys is not None and ((unknown := [k for k in demo_keys if k not in names]) or not demo_keys):
            what = f"unknown demo {listing(unknown)}" if unknown else "demo_keys is empty"
            raise SourceDemoError(f"{root}: {what}; the dataset has {listing(names)}")
        result = ReadResult()
        for index, name in enumerate(names):
            if demo_keys is not None and name not in demo_keys:
                continue
            try:
                result.demos.append(self._read(files, index, f"{root}: {name}"))
            except SourceDemoError as error:
                if on_error == "raise":
                    raise
                result.skipped.append((name, str(error)))
            if len(result.demos) == max_demos:
                break
        return result

    def _read(self, files: LeRobotFiles, index: int, where: str) -> SourceDemo:
        row = files.episodes[index]
        success = row.get("mimicpipe/success") is not False
        if not success and not self.needs.failed:
            raise SourceDemoError(f"{where}: success: the episode is recorded as a failure; choose others in demo_keys")
        state = row.get("mimicpipe/initial_state")
        initial_state = torch.tensor(state, dtype=torch.float64) if state else None
        episode = _Episode(files, index, where)
        if self.options.poses == "replay":
            demo = self._replayed(episode, initial_state)
        else:
            info, actions = self._recorded(episode)
            demo = SourceDemo(f"episode_{index}", info, actions, initial_state, origin=where)
        demo.success = success
        require_finite(demo.actions, f"{where}: actions")
        check_info(demo.info, where, demo.actions.shape[0])
        return demo

    def _replayed(self, episode: "_Episode", initial_state: Tensor | None) -> SourceDemo:
        actions = torch.from_numpy(episode.column(self.options.action).values.astype("float32"))
        name, where = f"episode_{episode.index}", episode.where
        (traced,) = trace(self.env, [Recording(name, actions, initial_state, origin=where)])
        _keep(traced.demo.info, self.needs)
        return traced.demo

    def _recorded(self, episode: "_Episode") -> tuple[DatagenInfo, Tensor]:
        """What generation needs of an episode, and its actions in the env's own control."""
        eefs = self._eef_poses(episode)
        bodies = self._bodies(episode)
        if missing := [name for name in self.needs.object_names or () if name not in bodies]:
            raise SourceDemoError(
                f"{episode.where}: object_pose: no pose of {listing(missing)} in {self.options.object_pose}; name the "
                "feature in pool.object_pose, e.g. {cube: observation.cube_pose}, or use pool.poses=replay"
            )
        targets, grippers, actions = self._commands(episode, eefs)
        info = DatagenInfo(
            eef_pose=eefs,
            object_poses={name: bodies[name] for name in self.needs.object_names or bodies},
            subtask_term_signals={},
            target_eef_pose=targets,
            gripper_action=grippers,
        )
        self._add_signals(episode, info, bodies)
        return info, actions

    # -- poses

    def _eef_poses(self, episode: "_Episode") -> dict[str, Tensor]:
        if self.options.poses == "fk":
            return self._forward(episode)
        found = self._poses_of(episode, self.options.eef_pose, self.env.eef_names)
        if missing := [eef for eef in self.env.eef_names if eef not in found]:
            raise SourceDemoError(
                f"{episode.where}: eef_pose: no pose of {listing(missing)} (x, y, z, qw, qx, qy, qz) in "
                f"{self.options.eef_pose}; name the feature in pool.eef_pose, or use pool.poses=fk or replay"
            )
        return found

    def _poses_of(self, episode: "_Episode", features: FeatureNames, bodies: Sequence[str]) -> dict[str, Tensor]:
        if isinstance(features, str):
            return named_poses(episode.column(features), bodies, self.options.quaternion, episode.where)
        found = {}
        for body, feature in features.items():
            found |= named_poses(episode.column(feature), [body], self.options.quaternion, episode.where)
        return found

    def _bodies(self, episode: "_Episode") -> dict[str, Tensor]:
        names = self._task.body_names if self._task is not None else self.env.object_names
        return self._poses_of(episode, self.options.object_pose, names)

    def _forward(self, episode: "_Episode") -> dict[str, Tensor]:
        """Poses from joint positions, by the kinematics of the env's own arms."""
        arms = getattr(self.env, "arms", None)
        if arms is None:
            raise SourceDemoError(
                f"{episode.where}: pool.poses=fk: this env has no joints; use env=mujoco or pool.poses=features"
            )
        from mimicpipe.envs.mujoco.panda import ARM_JOINTS

        column = episode.column(self.options.joints)
        found = {}
        for arm in arms:
            names = [arm.prefix + name for name in ARM_JOINTS]
            joints = elements(column, names)
            if joints is None and column.names is None and column.values.shape[1] == len(ARM_JOINTS) * len(arms):
                first = len(names) * arms.index(arm)
                joints = torch.from_numpy(column.values[:, first : first + len(names)].astype("float32"))
            if joints is None:
                raise SourceDemoError(
                    f"{episode.where}: {self.options.joints}: has no {listing(names)}; name the feature of joint "
                    "positions (radians) in pool.joints"
                )
            pose = arm.pose(joints.double().numpy().T.copy())
            matrix = torch.eye(4, dtype=torch.float64).repeat(len(joints), 1, 1)
            matrix[:, :3, :3] = torch.from_numpy(pose.rot.transpose(2, 0, 1).copy())
            matrix[:, :3, 3] = torch.from_numpy(pose.pos.T.copy())
            found[arm.name] = matrix.float()
        return found

    # -- actions

    def _commands(
        self, episode: "_Episode", eefs: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor], Tensor]:
        """Target poses, gripper actions, and actions (T, A) in the env's own control."""
        column = episode.column(self.options.action)
        if self.options.targets == "next_pose":
            targets = {eef: torch.cat((pose[1:], pose[-1:])) for eef, pose in eefs.items()}
            grippers = self._grippers(episode)
            return targets, grippers, self._encoded(episode, column, eefs, targets, grippers)
        found = control_of(column, self._prefixes, self._control)
        if found is None:
            raise SourceDemoError(
                f"{episode.where}: {self.options.action}: {listing(column.names or ())} are no target poses of an eef, "
                "nor changes of its pose (joint actions?); use pool.targets=next_pose"
            )
        control, parts = found
        require_finite(torch.cat(parts, dim=1), f"{episode.where}: {self.options.action}")
        targets, grippers = {}, {}
        for eef, part in zip(self.env.eef_names, parts, strict=True):
            targets[eef] = actions_to_poses(control, eefs[eef], part)
            grippers[eef] = self._clean(gripper_part(part).contiguous())
        if control == self._control and self.options.gripper_threshold is None:
            return targets, grippers, torch.cat(parts, dim=1)
        return targets, grippers, self._encoded(episode, column, eefs, targets, grippers)

    def _grippers(self, episode: "_Episode") -> dict[str, Tensor]:
        found = ending_with(episode.column(self.options.gripper), "gripper", self._prefixes)
        if found is None:
            raise SourceDemoError(
                f"{episode.where}: {self.options.gripper}: no element ...gripper for each arm; name the feature of the "
                "grippers' commands in pool.gripper"
            )
        return {eef: self._clean(part[:, None]) for eef, part in zip(self.env.eef_names, found, strict=True)}

    def _clean(self, commands: Tensor) -> Tensor:
        if self.options.gripper_threshold is None:
            return commands
        return torch.where(commands >= self.options.gripper_threshold, GRIPPER_OPEN, GRIPPER_CLOSE)

    def _encoded(
        self,
        episode: "_Episode",
        column: Column,
        eefs: Mapping[str, Tensor],
        targets: Mapping[str, Tensor],
        grippers: Mapping[str, Tensor],
    ) -> Tensor:
        """Actions that the env would be given to get there; of an env of another kind the recorded ones."""
        if self._control is not None:
            parts = [poses_to_actions(self._control, eefs[e], targets[e], grippers[e]) for e in self.env.eef_names]
            return torch.cat(parts, dim=1)
        actions = torch.from_numpy(column.values.astype("float32"))
        if actions.shape[1] != self.env.action_dim:
            raise SourceDemoError(
                f"{episode.where}: {column.feature}: {actions.shape[1]} columns, this env's actions have "
                f"{self.env.action_dim}; use a dataset of this env"
            )
        return actions

    # -- signals

    def _add_signals(self, episode: "_Episode", info: DatagenInfo, bodies: Mapping[str, Tensor]) -> None:
        wanted = list(self.needs.signal_names or ())
        for name, feature in self.options.signals.items():
            values = episode.column(feature).values
            if values.shape[1] != 1:
                raise SourceDemoError(f"{episode.where}: {feature}: {values.shape[1]} elements, a signal has 1")
            into = info.subtask_term_signals if name in wanted else info.subtask_start_signals
            into[name] = torch.from_numpy(values[:, 0].astype("float32")) > 0.5
        missing = [name for name in wanted if name not in info.subtask_term_signals]
        if self._task is None:
            if missing:
                raise SourceDemoError(
                    f"{episode.where}: no signal {listing(missing)}, and the env does not say what its task is; name "
                    "their features in pool.signals, or annotate the demos (python -m mimicpipe.tools.annotate)"
                )
            return
        if not missing and info.subtask_start_signals:
            return
        view = self._view(self._task, episode, info, bodies)
        signals = self._task.subtask_term_signals(view)
        if unknown := [name for name in missing if name not in signals]:
            raise SourceDemoError(f"{episode.where}: task {self._task.name} has no signal {listing(unknown)}")
        info.subtask_term_signals |= {name: signals[name] for name in missing}
        starts = self._task.subtask_start_signals(view)
        info.subtask_start_signals = {**starts, **info.subtask_start_signals}

    def _view(self, task: Task, episode: "_Episode", info: DatagenInfo, bodies: Mapping[str, Tensor]) -> TaskView:
        """The episode's T frames as the task would see T slots."""
        if lacking := [name for name in task.body_names if name not in bodies]:
            raise SourceDemoError(
                f"{episode.where}: object_pose: no pose of {listing(lacking)}, which task {task.name} looks at for its "
                "signals; name their features in pool.object_pose, or use pool.poses=replay"
            )
        widths = ending_with(episode.column(self.options.gripper_width), "gripper_width", self._prefixes)
        if widths is None:
            raise SourceDemoError(
                f"{episode.where}: {self.options.gripper_width}: no element ...gripper_width for each arm, which the "
                "task's signals look at; name the feature in pool.gripper_width, or that of signals in pool.signals"
            )
        joints = {}
        for part in task.parts:
            feature = self.options.object_pose
            place = feature if isinstance(feature, str) else feature[part.name]
            found = elements(episode.column(place), [f"{part.name}_joint"])
            if found is None:
                raise SourceDemoError(f"{episode.where}: {place}: has no {part.name}_joint; use pool.poses=replay")
            joints[part.name] = found[:, 0]
        return TaskView(
            object_poses=dict(bodies),
            object_speeds={name: _speeds(pose, self.env.fps) for name, pose in bodies.items()},
            eef_poses=dict(info.eef_pose),
            gripper_widths=dict(zip(self.env.eef_names, widths, strict=True)),
            joint_positions=joints,
        )


@dataclass
class _Episode:
    """One episode's features, each read once."""

    files: LeRobotFiles
    index: int
    where: str
    _read: dict[str, Any] = field(default_factory=dict)

    def column(self, feature: str) -> Column:
        if feature not in self._read:
            self._read |= self.files.columns(self.index, [feature])
        return self._read[feature]


def _speeds(pose: Tensor, fps: int) -> Tensor:
    """(T,) mean speed over the step before, m/s; 0 at first."""
    moved = (pose[1:, :3, 3] - pose[:-1, :3, 3]).norm(dim=1) * fps
    return torch.cat((torch.zeros(1), moved))


def _keep(info: DatagenInfo, needs: Needs) -> None:
    """Leave out signals that no subtask ends with: they need not occur."""
    if needs.signal_names is not None:
        kept = {name: s for name, s in info.subtask_term_signals.items() if name in needs.signal_names}
        info.subtask_term_signals = kept
