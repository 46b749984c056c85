"""Waypoints of one slot: the readable form of what the planner computes for all slots, and for generators of your own.

The classes are Isaac Lab Mimic's. A waypoint is a target eef pose, a gripper action and the standard deviation of the
noise on its action; a trajectory is built from sequences, joined by interpolation, and played one `MultiWaypoint` at a
time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, overload

import torch
from torch import Tensor

from mimicpipe import poses as pose_math
from mimicpipe.datagen.datagen_info import DatagenInfo
from mimicpipe.datagen.noise import ActionNoise
from mimicpipe.datagen.settling import gripper_changes
from mimicpipe.datagen.sim import MimicSim
from mimicpipe.datagen.subtask import SubTaskConfig


class RequestPort(Protocol):
    """The producer's side of a request queue."""

    async def put(self, item: Any) -> None:
        """Submit a request."""
        ...

    async def join(self) -> None:
        """Wait until the caller's request is served."""
        ...


@dataclass(slots=True)
class Waypoint:
    """One target of one eef."""

    pose: Tensor
    """(4, 4) target eef pose."""
    gripper_action: Tensor
    """(G,)."""
    noise: float = 0.0
    """Standard deviation of the action noise."""


class WaypointSequence:
    """Waypoints in order."""

    def __init__(self, sequence: Sequence[Waypoint] = ()) -> None:
        self.sequence = list(sequence)

    @classmethod
    def from_poses(
        cls, poses: Tensor, gripper_actions: Tensor, action_noise: float | Sequence[float] = 0.0
    ) -> "WaypointSequence":
        """A sequence of T waypoints: poses (T, 4, 4), gripper_actions (T, G), action_noise one for all or T of them."""
        steps = poses.shape[0]
        noise = [action_noise] * steps if isinstance(action_noise, int | float) else list(action_noise)
        if gripper_actions.shape[0] != steps or len(noise) != steps:
            raise ValueError(f"{steps} poses, {gripper_actions.shape[0]} gripper actions and {len(noise)} noise values")
        return cls([Waypoint(p, g, float(n)) for p, g, n in zip(poses, gripper_actions, noise, strict=True)])

    def __len__(self) -> int:
        return len(self.sequence)

    def __iter__(self) -> Iterator[Waypoint]:
        return iter(self.sequence)

    @overload
    def __getitem__(self, index: int) -> Waypoint: ...
    @overload
    def __getitem__(self, index: slice) -> "WaypointSequence": ...
    def __getitem__(self, index: int | slice) -> "Waypoint | WaypointSequence":
        return WaypointSequence(self.sequence[index]) if isinstance(index, slice) else self.sequence[index]

    def __add__(self, other: "WaypointSequence") -> "WaypointSequence":
        return WaypointSequence(self.sequence + other.sequence)

    @property
    def last_waypoint(self) -> Waypoint:
        """A copy of the last waypoint."""
        return replace(self.sequence[-1])

    def split(self, index: int) -> tuple["WaypointSequence", "WaypointSequence"]:
        """The waypoints before `index`, and the rest."""
        return self[:index], self[index:]


class WaypointTrajectory:
    """Waypoint sequences, one after the other."""

    def __init__(self, sequences: Sequence[WaypointSequence] = ()) -> None:
        self.waypoint_sequences = [sequence for sequence in sequences if len(sequence)]

    def __len__(self) -> int:
        return sum(len(sequence) for sequence in self.waypoint_sequences)

    def __iter__(self) -> Iterator[Waypoint]:
        return (waypoint for sequence in self.waypoint_sequences for waypoint in sequence)

    def __getitem__(self, index: int) -> Waypoint:
        return self.get_full_sequence()[index]

    @property
    def last_waypoint(self) -> Waypoint:
        """A copy of the last waypoint."""
        return self.waypoint_sequences[-1].last_waypoint

    def get_full_sequence(self) -> WaypointSequence:
        """Every waypoint in one sequence."""
        return WaypointSequence(list(self))

    def poses(self) -> Tensor:
        """(T, 4, 4) target poses."""
        return torch.stack([waypoint.pose for waypoint in self])

    def gripper_actions(self) -> Tensor:
        """(T, G) gripper actions."""
        return torch.stack([waypoint.gripper_action for waypoint in self])

    def noise(self) -> Tensor:
        """(T,) float32 standard deviations of the action noise, on the CPU."""
        return torch.tensor([waypoint.noise for waypoint in self], dtype=torch.float32)

    def add_waypoint_sequence(self, sequence: WaypointSequence) -> None:
        """Append waypoints as they are."""
        if len(sequence):
            self.waypoint_sequences.append(sequence)

    def add_waypoint_sequence_for_target_pose(
        self,
        pose: Tensor,
        gripper_action: Tensor,
        num_steps: int,
        skip_interpolation: bool = False,
        action_noise: float = 0.0,
    ) -> None:
        """Append a way to a target pose.

        Args:
            pose: (4, 4).
            gripper_action: (G,), the same at every step.
            num_steps: waypoints between the last one and the target, which follows them; or, with
                `skip_interpolation`, how often the target is repeated.
            skip_interpolation: wait at the target instead of moving there evenly.
            action_noise: standard deviation of the noise at each of these steps.
        """
        if skip_interpolation:
            targets = pose.expand(num_steps, 4, 4)
        else:
            if not self.waypoint_sequences:
                raise ValueError("the trajectory is empty, so there is no pose to interpolate from")
            fractions = torch.arange(1, num_steps + 1, dtype=pose.dtype, device=pose.device) / (num_steps + 1)
            start = self.last_waypoint.pose.expand(num_steps, 4, 4)
            between = pose_math.interpolate(start, pose.expand(num_steps, 4, 4), fractions)
            targets = torch.cat((between, pose[None]))
        grippers = gripper_action.expand(targets.shape[0], -1)
        self.add_waypoint_sequence(WaypointSequence.from_poses(targets, grippers, action_noise))

    def pop_first(self) -> WaypointSequence:
        """Remove the first waypoint; returns it as a sequence of one."""
        first, rest = self.waypoint_sequences[0].split(1)
        self.waypoint_sequences[0:1] = [rest] if len(rest) else []
        return first

    def merge(
        self,
        other: "WaypointTrajectory",
        num_steps_interp: int = 0,
        num_steps_fixed: int = 0,
        action_noise: float = 0.0,
    ) -> None:
        """Append another trajectory, moving evenly to its first waypoint and waiting there.

        Args:
            other: is used up.
            num_steps_interp: waypoints between this trajectory's end and the other's first waypoint; 0 jumps.
            num_steps_fixed: extra steps at the other's first waypoint.
            action_noise: standard deviation of the noise at those steps; the other's waypoints keep theirs.
        """
        if num_steps_interp or num_steps_fixed:
            first = other.pop_first()[0]
            if num_steps_interp:
                self.add_waypoint_sequence_for_target_pose(
                    first.pose, first.gripper_action, num_steps_interp, action_noise=action_noise
                )
            if num_steps_fixed:
                # With an interpolation, the first waypoint is there once already.
                repeats = num_steps_fixed if num_steps_interp else num_steps_fixed + 1
                self.add_waypoint_sequence_for_target_pose(
                    first.pose, first.gripper_action, repeats, skip_interpolation=True, action_noise=action_noise
                )
            self.waypoint_sequences[-1].sequence[-1].noise = first.noise
        self.waypoint_sequences += other.waypoint_sequences


def subtask_trajectory(
    info: DatagenInfo,
    eef_name: str,
    segment: tuple[int, int],
    config: SubTaskConfig,
    *,
    object_pose: Tensor | None,
    start_pose: Tensor,
    from_measured_pose: bool,
    motion: Tensor | None = None,
    grip: Tensor | None = None,
) -> WaypointTrajectory:
    """The trajectory of one subtask of one eef, from where it is to the end of the transformed source segment.

    The segment is moved rigidly, so that its poses relative to the object, as it lay at the segment's start, are kept
    (MimicGen's object-centric transform).

    Args:
        info: the source demo.
        eef_name: whose segment.
        segment: its first step, and the one behind its last.
        config: the subtask.
        object_pose: (4, 4) where the subtask's object is now; None if it has none.
        start_pose: (4, 4) where interpolation starts.
        from_measured_pose: begin at the source eef's measured pose instead of its first target.
        motion: (4, 4) move the segment by this instead of with its object, as coordinated subtasks do.
        grip: (4, 4) in the eef's frame, behind each of the segment's poses; None changes nothing.
    """
    begin, end = segment
    targets = info.target_eef_pose[eef_name][begin:end]
    grippers = info.gripper_action[eef_name][begin:end]
    if from_measured_pose:
        targets = torch.cat((info.eef_pose[eef_name][begin : begin + 1], targets))
        grippers = torch.cat((grippers[:1], grippers))
    if motion is None and config.object_ref is not None:
        assert object_pose is not None
        motion = pose_math.compose(object_pose, pose_math.invert(info.object_poses[config.object_ref][begin]))
    if motion is not None:
        targets = pose_math.compose(motion, targets)
    if grip is not None:
        targets = pose_math.compose(targets, grip)
    segment_waypoints = WaypointSequence.from_poses(targets, grippers, config.action_noise)
    if config.num_settle_steps:
        changes = gripper_changes(info.gripper_action[eef_name])[begin + 1 : end].nonzero()[:, 0]
        segment_waypoints = _settled(segment_waypoints, (changes + 1 + from_measured_pose).tolist(), config)
    trajectory = WaypointTrajectory([WaypointSequence([Waypoint(start_pose, grippers[0])])])
    trajectory.merge(
        WaypointTrajectory([segment_waypoints]),
        config.num_interpolation_steps,
        config.num_fixed_steps,
        config.action_noise if config.apply_noise_during_interpolation else 0.0,
    )
    trajectory.pop_first()
    return trajectory


def _settled(sequence: WaypointSequence, changes: Sequence[int], config: SubTaskConfig) -> WaypointSequence:
    """Wait before each of the steps at which the gripper changes; see `settling`."""
    waypoints: list[Waypoint] = []
    for step, waypoint in enumerate(sequence):
        if step in changes:
            before = sequence[step - 1].gripper_action
            waypoints += [Waypoint(waypoint.pose, before) for _ in range(config.num_settle_steps)]
        waypoints.append(waypoint)
    return WaypointSequence(waypoints)


@dataclass(slots=True)
class MultiWaypoint:
    """One waypoint for each eef of a slot."""

    waypoints: Mapping[str, Waypoint]
    """{eef: waypoint}, for every eef of the env."""

    async def execute(
        self,
        env: MimicSim,
        success_term: Any,
        env_id: int,
        env_action_queue: RequestPort | None = None,
        *,
        noise: ActionNoise | None = None,
    ) -> dict[str, Any]:
        """Play the waypoint: one control step of one slot.

        Args:
            env: the simulator.
            success_term: `f(env) -> (N,) bool`, or Isaac Lab's term with `func` and `params`; None is `env.success`.
            env_id: the slot.
            env_action_queue: where the action is put and awaited; None steps the slot at once.
            noise: where the action noise comes from; needed if a waypoint has any.

        Returns:
            "states": [(S,) before the step], "observations": [{feature: (*shape)} after it], "actions": [(A,)],
            "success": whether the task's condition holds after it.
        """
        ids = torch.tensor([env_id], dtype=torch.int64, device=env.device)
        state = env.get_state(ids)[0].clone()
        action = self._action(env, ids, noise)
        if env_action_queue is not None:
            await env_action_queue.put((env_id, action))
            await env_action_queue.join()
        else:
            actions = torch.zeros(env.num_envs, env.action_dim, dtype=action.dtype, device=env.device)
            actions[env_id] = action
            env.step(actions, ids)
        observation = {name: value[0].clone() for name, value in env.observe(ids).items()}
        return {
            "states": [state],
            "observations": [observation],
            "actions": [action],
            "success": _holds(success_term, env, env_id),
        }

    def _action(self, env: MimicSim, ids: Tensor, noise: ActionNoise | None) -> Tensor:
        amplitudes = {eef: waypoint.noise for eef, waypoint in self.waypoints.items()}
        drawn = None
        if noise is not None:
            drawn = noise.draw(amplitudes)
        elif any(amplitudes.values()):
            raise ValueError("the waypoint has action noise; pass noise=ActionNoise(attempt.seed, ...) or set it to 0")
        return env.target_eef_pose_to_action(
            {eef: waypoint.pose[None] for eef, waypoint in self.waypoints.items()},
            {eef: waypoint.gripper_action[None] for eef, waypoint in self.waypoints.items()},
            drawn,
            ids,
        )[0]


def _holds(success_term: Any, env: MimicSim, env_id: int) -> bool:
    """Whether a slot satisfies the success term now."""
    if success_term is None:
        reached = env.success()
    elif hasattr(success_term, "func"):
        reached = success_term.func(env, **(success_term.params or {}))
    else:
        reached = success_term(env)
    return bool(reached[env_id])
