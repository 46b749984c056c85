"""Replays source demos action by action and compares what happens with what was recorded: is a dataset what it says?

A demo that was recorded in the same simulator takes it through the same states again. Where it does not, the first step
that differs tells why: another simulator or control mode, actions and states that do not belong together, a scene that
was not restored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mimicpipe import poses
from mimicpipe.datagen.datagen_info import SourceDemo
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.sim import MimicSim
from mimicpipe.datagen.waypoint import RequestPort
from mimicpipe.errors import ConfigError, SourceDemoError
from mimicpipe.pipeline.episode import Attempt
from mimicpipe.pipeline.protocol import StateMismatchError
from mimicpipe.pipeline.run_state import RunState


@dataclass(frozen=True)
class Tolerances:
    """How far a replay may be from the recording."""

    state: float
    """Any number of the state, in its own unit."""
    position: float
    """Metres."""
    rotation: float
    """Radians."""


class ReplayGenerator:
    """Attempt k replays the recorded actions of demo k mod D from its initial state; all slots share the generator.

    Before each action the slot's state is compared with the recorded one (`SourceDemo.states`); where a demo has none,
    the poses of eefs and objects are. The first deviation beyond a tolerance ends the attempt with `state_mismatch`.

    Args:
        env: the simulator.
        src_demo_datagen_info_pool: the demos.
        state_tolerance: largest deviation of any number of the state.
        position_tolerance: of a position, metres, where a demo has no states.
        rotation_tolerance: of a rotation, radians, likewise.

    Raises:
        SourceDemoError: a demo without an initial state, or with one of another simulator.
    """

    def __init__(
        self,
        env: MimicSim,
        src_demo_datagen_info_pool: DataGenInfoPool,
        state_tolerance: float = 1e-3,
        position_tolerance: float = 1e-3,
        rotation_tolerance: float = 1e-2,
    ) -> None:
        self.env = env
        self.demos: Sequence[SourceDemo] = tuple(src_demo_datagen_info_pool.demos)
        self.tolerances = Tolerances(state_tolerance, position_tolerance, rotation_tolerance)
        if not self.demos:
            raise ConfigError("generator=replay: the pool has no demos to replay")
        size = env.get_state(torch.zeros(1, dtype=torch.int64, device=env.device)).shape[1]
        for demo in self.demos:
            _check(demo, env, size)

    async def generate(
        self,
        env_id: int,
        env_reset_queue: RequestPort,
        env_action_queue: RequestPort,
        *,
        attempt: Attempt,
        run: RunState | None = None,
    ) -> dict[str, Any]:
        """Replay one demo.

        Args:
            env_id: the slot.
            env_reset_queue: where the demo's initial state is asked for.
            env_action_queue: where its actions are put.
            attempt: its index chooses the demo.
            run: is told the demo, so that also a replay that fails names it.

        Returns:
            "source_demos": [{"eef", "subtask", "demo"}]; the demo has no subtasks here, so `subtask` is None.
        """
        demo = self.demos[attempt.index % len(self.demos)]
        sources = [{"eef": eef, "subtask": None, "demo": demo.name} for eef in self.env.eef_names]
        if run is not None:
            run.used_demos[env_id] = sources
        await env_reset_queue.put((env_id, demo.initial_state))
        await env_reset_queue.join()
        ids = torch.tensor([env_id], dtype=torch.int64, device=self.env.device)
        for step, action in enumerate(demo.actions.to(self.env.device, torch.float32)):
            self._compare(demo, step, ids)
            await env_action_queue.put((env_id, action))
            await env_action_queue.join()
        return {"source_demos": sources}

    def _compare(self, demo: SourceDemo, step: int, ids: Tensor) -> None:
        if demo.states is not None:
            now = self.env.get_state(ids)[0].cpu()
            apart = (now.double() - demo.states[step].double()).abs()
            number = int(apart.argmax())
            _require(float(apart[number]), self.tolerances.state, step, f"number {number} of the state", "")
            return
        info = demo.info
        now_at = {eef: self.env.get_robot_eef_pose(eef, ids)[0] for eef in self.env.eef_names}
        objects = self.env.get_object_poses(ids)
        recorded = {eef: info.eef_pose[eef][step] for eef in now_at}
        for name in info.object_poses.keys() & objects.keys():
            now_at[name], recorded[name] = objects[name][0], info.object_poses[name][step]
        names = sorted(now_at)
        distance, angle = _apart(torch.stack([now_at[n] for n in names]), torch.stack([recorded[n] for n in names]))
        for found, tolerance, unit in (
            (distance, self.tolerances.position, " m"),
            (angle, self.tolerances.rotation, " rad"),
        ):
            worst = int(found.argmax())
            _require(float(found[worst]), tolerance, step, f"the pose of {names[worst]}", unit)


def _apart(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Distances (K,), metres, and angles (K,), radians, between poses (K, 4, 4)."""
    a, b = a.double().cpu(), b.double().cpu()
    turn = poses.compose(poses.invert(a), b)[:, :3, :3]
    return (a[:, :3, 3] - b[:, :3, 3]).norm(dim=1), poses.axis_angle_from_matrix(turn).norm(dim=1)


def _require(found: float, tolerance: float, step: int, what: str, unit: str) -> None:
    if not found <= tolerance:  # also where it is not a number
        raise StateMismatchError(
            f"step {step}: {what} deviates by {found:.3g}{unit} from the recording; "
            f"the tolerance is {tolerance:g}{unit}"
        )


def _check(demo: SourceDemo, env: MimicSim, size: int) -> None:
    where = demo.origin or demo.name
    if demo.initial_state is None:
        raise SourceDemoError(
            f"{where}: initial_state: none recorded, so the demo cannot be replayed; record it with its state"
        )
    if demo.initial_state.shape[0] != size:
        raise SourceDemoError(
            f"{where}: initial_state: {demo.initial_state.shape[0]} numbers, the state of this env has {size}; replay "
            "the demo in the env, with the task and variant, that it was recorded in"
        )
    if demo.actions.shape[1] != env.action_dim:
        raise SourceDemoError(
            f"{where}: actions: {demo.actions.shape[1]} columns, this env's actions have {env.action_dim}"
        )
    if demo.states is not None and tuple(demo.states.shape) != (demo.actions.shape[0], size):
        raise SourceDemoError(
            f"{where}: states: shape {tuple(demo.states.shape)}, expected ({demo.actions.shape[0]}, {size}), a row "
            "before each action"
        )
