"""One demo while it is made: everything the HDF5 layout has of a step, taken before the step's action."""

from collections.abc import Callable

import torch
from torch import Tensor

from mimicpipe.datagen.datagen_info import SourceDemo
from mimicpipe.envs.base import MimicEnv
from mimicpipe.pools.steps import StepLog, shown, stacked


class Recording:
    """The steps of an env of one slot, from its current state on.

    Attributes:
        held: steps for which success has held without a gap, up to now.
        reached: success was there at some step.
    """

    def __init__(self, env: MimicEnv) -> None:
        self._env = env
        self._initial_state = env.get_state()[0].cpu().clone()
        self._log = StepLog()
        self._observations: list[dict[str, Tensor]] = []
        self._actions: list[Tensor] = []
        self._states: list[Tensor] = []
        self.held = 0
        self.reached = False

    @property
    def length(self) -> int:
        """Control steps so far."""
        return len(self._actions)

    def before_step(self, action: Tensor) -> None:
        """Take what is there before an action (1, A)."""
        env = self._env
        self._log.add(shown(env, None, action), 0)
        self._observations.append({name: value[0].cpu().clone() for name, value in env.observe().items()})
        self._states.append(env.get_state()[0].cpu().clone())
        self._actions.append(action[0].cpu().clone())

    def after_step(self, success: bool) -> None:
        """Take whether the task's condition holds after the action."""
        self.held = self.held + 1 if success else 0
        self.reached |= success

    def demo(self, name: str) -> SourceDemo:
        """The steps so far, as a successful demo."""
        return SourceDemo(
            name=name,
            info=self._log.info(),
            actions=torch.stack(self._actions),
            initial_state=self._initial_state.clone(),
            observations=stacked(self._observations),
            success=True,
            states=torch.stack(self._states),
            origin="the recording",
        )


class Stillness:
    """Whether an env of one slot has come to rest, by the poses of hands and objects.

    A gripper's fingers are not among them, so rest is believed only after some steps.
    """

    _SHIFT = 2e-4
    """Motion in one step that counts as none, metres, and per element of a rotation matrix."""

    def __init__(self, env: MimicEnv, steps: int) -> None:
        self._look: Callable[[], Tensor] = lambda: torch.stack(
            [*(env.get_robot_eef_pose(name) for name in env.eef_names), *env.get_object_poses().values()]
        )
        self._needed = steps
        self._seen = self._look()
        self._still = 0

    def after_step(self) -> bool:
        """Look at the new state; true once nothing has moved for so many steps."""
        now = self._look()
        moved = float((now - self._seen).abs().max()) > self._SHIFT
        self._seen = now
        self._still = 0 if moved else self._still + 1
        return self._still >= self._needed
