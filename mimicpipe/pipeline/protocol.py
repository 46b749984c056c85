"""What generators and the env loop say to each other through the queues.

An action request is `(env_id, payload)` with one of three payloads:

* a tensor (A,): one action, executed in the next step (the style of Isaac Lab Mimic);
* a `Plan`: waypoints that are already known;
* any other object with a `planner`: a request to plan. All requests that arrive before a step and share a planner are
  planned in ONE call of `planner.plan_batch`, so planning costs per batch, not per slot.

With a plan the coroutine sleeps until the plan's last step is done (`await queue.join()`), and the loop plays it. A
planner may ask to plan a request again after the steps that it has planned, so that an attempt of many segments, each
planned when the one before has been played, wakes its coroutine once.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mimicpipe.rng import Seeds


@dataclass(slots=True)
class Waypoints:
    """A waypoint for each of K rows: those of K slots, or of several steps of fewer slots."""

    targets: dict[str, Tensor]
    """{eef: (K, 4, 4)}."""
    grippers: dict[str, Tensor]
    """{eef: (K, G)}."""
    noise: dict[str, Tensor] | None
    """{eef: (K, noise_dim)}, None if no plan has noise."""


class Stretch(Protocol):
    """Several control steps that are over: what they would have shown. R rows, as `MimicEnv.start_stretch` has them."""

    @property
    def actions(self) -> Tensor:
        """(R, A) float32: what was done."""
        ...

    def observe(self) -> dict[str, Tensor]:
        """As `MimicEnv.observe`, {feature: (R, *shape)}, before the row's action."""
        ...

    def success(self) -> Tensor:
        """As `MimicEnv.success`, (R,), after the row's action."""
        ...


class SimEnv(Protocol):
    """What the pipeline needs of a batched simulator; `mimicpipe.envs.base.MimicEnv` says what each member means."""

    num_envs: int
    device: torch.device
    fps: int
    eef_names: tuple[str, ...]
    action_dim: int
    noise_dim: int
    gripper_dim: int
    task_description: str
    steps_in_background: bool
    longest_stretch: int

    def reset(self, env_ids: Tensor, seeds: Seeds) -> None:
        """Put slots (K,) into initial states drawn from seeds (K,)."""
        ...

    def step(self, actions: Tensor, env_ids: Tensor | None = None) -> None:
        """Advance slots (None: all) one control step; actions (N, A)."""
        ...

    def start_step(self, actions: Tensor, env_ids: Tensor | None = None) -> Callable[[], None]:
        """Begin such a step; the function that ends it. Until then the state before the step is shown."""
        ...

    def start_stretch(
        self,
        slots: npt.NDArray[np.int64],
        sizes: Sequence[int],
        waypoints: Callable[[], Waypoints],
    ) -> Callable[[], Stretch]:
        """Begin several control steps; the function that ends them."""
        ...

    def observe(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """Current observations {feature: (K, *shape)}."""
        ...

    def target_eef_pose_to_action(
        self,
        target_eef_pose: Mapping[str, Tensor],
        gripper_action: Mapping[str, Tensor],
        action_noise: Mapping[str, Tensor] | None = None,
        env_ids: Tensor | None = None,
    ) -> Tensor:
        """Actions (K, A) that lead to target poses {eef: (K, 4, 4)}."""
        ...

    def action_to_target_eef_pose(self, actions: Tensor, env_ids: Tensor | None = None) -> Mapping[str, Tensor]:
        """Target poses {eef: (K, 4, 4)} that actions (K, A) ask for."""
        ...

    def faults_of_actions(self, actions: Tensor) -> Mapping[int, str]:
        """{row: what is wrong with it} of actions (K, A) that cannot be executed."""
        ...

    def actions_to_gripper_actions(self, actions: Tensor) -> Mapping[str, Tensor]:
        """Gripper part {eef: (..., G)} of actions (..., A)."""
        ...

    def success(self) -> Tensor:
        """(N,) bool: the success condition at this instant."""
        ...

    def finite(self, env_ids: Tensor | None = None) -> Tensor:
        """(K,) bool: the state has no NaN or infinity."""
        ...

    def set_state(self, state: Tensor, env_ids: Tensor | None = None) -> None:
        """Put slots into states (K, S) from `get_state`."""
        ...

    def get_state(self, env_ids: Tensor | None = None) -> Tensor:
        """Complete state (K, S) float64."""
        ...


@dataclass(slots=True)
class Plan:
    """The waypoints of one action request: T steps for each eef of the slot."""

    targets: Mapping[str, Tensor]
    """{eef: (T, 4, 4)} target eef poses."""
    grippers: Mapping[str, Tensor]
    """{eef: (T, G)} gripper actions."""
    noise: Mapping[str, Tensor] = field(default_factory=dict)
    """{eef: (T, noise_dim)} action noise, already drawn and scaled; a missing eef has none."""


WriteWaypoints = Callable[[npt.NDArray[np.int64], npt.NDArray[np.float32]], None]
"""(rows (M,), out (N, S, W)): writes the waypoints of M plans, as `EefPlans` has them, to out[rows]."""


def written(write: WriteWaypoints, lengths: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.float32]:
    """The waypoints (M, L, width) of M plans of `lengths` (M,), in an array of their own."""
    out = np.empty((len(lengths), int(lengths.max()), width), dtype=np.float32)
    write(np.arange(len(lengths)), out)
    return out


@dataclass(slots=True)
class EefPlans:
    """New waypoints for one eef in some of the slots of a batch of requests."""

    rows: Tensor
    """(M,) int64 indices into the batch of requests; on the host, as they are needed there."""
    lengths: Tensor
    """(M,) int64 valid steps of each row, on the host; after its last waypoint an eef holds that waypoint."""
    given: Tensor | WriteWaypoints
    """`waypoints`; or, for an env on the host, what writes them, which is called once, before the slots are planned for
    again, and maybe in another thread."""
    has_noise: bool
    """Whether any of the noise is not zero."""
    width: int = 0
    """16 + G + P, where they are yet to be written."""

    @property
    def waypoints(self) -> Tensor:
        """(M, L, 16 + G + P): target pose, row by row, gripper action and action noise; padded behind `lengths`.

        On the env's device.
        """
        if not isinstance(self.given, Tensor):
            self.given = torch.from_numpy(written(self.given, self.lengths.numpy(), self.width))
        return self.given

    @property
    def targets(self) -> Tensor:
        """(M, L, 4, 4)."""
        return self.waypoints[..., :16].unflatten(-1, (4, 4))


@dataclass(slots=True)
class PlanBatch:
    """The answer to K plan requests."""

    steps: Tensor
    """(K,) int64 > 0: steps to play before the slot's coroutine is woken."""
    eefs: dict[str, EefPlans]
    """New waypoints; an eef or row that is not mentioned goes on with the waypoints it has."""
    errors: dict[int, Exception] = field(default_factory=dict)
    """Row -> exception raised in the coroutine that asked; such a row plays nothing."""
    again: Collection[int] = ()
    """Rows whose request is planned once more after these steps; only then, or later, is the coroutine woken."""
    actions: Tensor | None = None
    """(K, A) executed in the next step instead of waypoints; every row then plays that one step. None: waypoints."""


class Planner(Protocol):
    """Plans many slots at once."""

    def plan_batch(self, env_ids: Tensor, requests: Any) -> PlanBatch:
        """Plan for slots `env_ids` (K,) int64, whose requests stand in the same order, or in one `PlanRequests`."""
        ...


class PlanRequests(Protocol):
    """The plan requests of many slots, kept by slot: what `plan_batch` is then given in place of a sequence."""

    planner: Planner


@runtime_checkable
class PlanRequest(Protocol):
    """An action request that names who plans it."""

    planner: Planner


class PlanFailedError(Exception):
    """No plan exists for a request; the attempt ends with reason "plan_failed"."""


class StateMismatchError(Exception):
    """A replay is not what was recorded; the attempt ends with reason "state_mismatch"."""


class EpisodeTimeoutError(Exception):
    """The episode has reached `max_episode_steps`; the attempt ends with reason "timeout"."""


class RunOverError(Exception):
    """A request after the end of the run."""


class NonFiniteError(Exception):
    """The slot's state is not finite (the physics diverged); the attempt ends with reason "nonfinite"."""
