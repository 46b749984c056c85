"""Complete states of an Isaac Lab env's slots, to keep and to put back.

On Newton's MuJoCo solver a state is exact: with it, the future is a function of the actions, bit for bit, because it is
what the solver itself starts from (joint coordinates, body poses and their speeds, the solver's warm start), and the
joint targets and last actions that Isaac Lab's managers remember. Elsewhere it is what `scene.get_state` knows, which a
simulator may round on the way in. Neither holds what a manager term keeps for itself (an observation history, a filter
of actions, a command).
"""

from typing import Any, Protocol

import torch
from torch import Tensor

_NEWTON_PARTS = (
    ("joint_q", "joint_coord_world_start"),
    ("joint_qd", "joint_dof_world_start"),
    ("body_q", "body_world_start"),
    ("body_qd", "body_world_start"),
)
"""Arrays of Newton's state, with the array of the model that says where each world's rows begin."""


class SlotStates(Protocol):
    """Reads and writes rows of states."""

    def read(self, ids: Tensor | None) -> Tensor:
        """(K, S) float64."""
        ...

    def write(self, state: Tensor, ids: Tensor | None) -> None:
        """Put (K, S) back; observations are the caller's business."""
        ...


def physics_manager(env: Any) -> type:
    """The class that runs the env's physics; Isaac Lab may hold its name only."""
    from isaaclab.utils.string import string_to_callable

    manager = env.sim.physics_manager
    return manager if isinstance(manager, type) else string_to_callable(str(manager))


def slot_states(env: Any) -> SlotStates:
    """The most exact way that the env's physics allows."""
    manager = physics_manager(env)
    if manager.__name__ == "NewtonMJWarpManager" and env.device.startswith("cpu"):
        found = _NewtonStates.of(env, manager)
        if found is not None:
            return found
    return SceneStates(env)


class _NewtonStates:
    """Views (N, width) of Newton's arrays, in the order of a state's columns."""

    def __init__(self, env: Any, manager: Any, views: list[Tensor]) -> None:
        self._env = env
        self._manager = manager
        self._views = views

    @classmethod
    def of(cls, env: Any, manager: Any) -> "_NewtonStates | None":
        """None where the arrays are not N equal blocks, e.g. with bodies that all slots share."""
        import warp

        model, state = manager.backend.model, manager.backend.state_0
        views = []
        for name, starts in _NEWTON_PARTS:
            array = warp.to_torch(getattr(state, name))
            rows = getattr(model, starts).numpy()
            if (rows[: env.num_envs + 1] * env.num_envs != len(array) * torch.arange(env.num_envs + 1).numpy()).any():
                return None
            views.append(array.view(env.num_envs, -1))
        solver = manager._solver.mjw_data
        views += [warp.to_torch(array) for array in (solver.qacc_warmstart, solver.act) if array.shape[1]]
        return cls(env, manager, views)

    def _all(self) -> list[Tensor]:
        """The action manager's tensors are others after each step."""
        return [*self._views, *_targets(self._env), *_last_actions(self._env)]

    def read(self, ids: Tensor | None) -> Tensor:
        """(K, S) float64, exact."""
        self._env.sim.forward()  # body poses of joints that were just written
        return torch.cat([view if ids is None else view.index_select(0, ids) for view in self._all()], dim=1).double()

    def write(self, state: Tensor, ids: Tensor | None) -> None:
        """Put states back, after anything that would still change them."""
        self._env.sim.forward()
        _write_columns(self._all(), state, ids)
        self._manager._mark_transforms_changed()
        # What assets have derived from the state before is out of date.
        for assets in (self._env.scene.articulations, self._env.scene.rigid_objects):
            for asset in assets.values():
                asset.update(self._env.physics_dt)


class SceneStates:
    """States by way of `scene.get_state` and `scene.reset_to`, for any physics; not exact."""

    def __init__(self, env: Any) -> None:
        self._env = env

    def _leaves(self) -> list[tuple[dict[str, Tensor], str]]:
        scene = self._env.scene.get_state(is_relative=True)
        self._scene = scene
        return [(asset, key) for kind in scene.values() for asset in kind.values() for key in asset]

    def read(self, ids: Tensor | None) -> Tensor:
        """(K, S) float64."""
        parts = [asset[key].flatten(1) for asset, key in self._leaves()]
        parts += [*_targets(self._env), *_last_actions(self._env)]
        return torch.cat([part if ids is None else part.index_select(0, ids) for part in parts], dim=1).double()

    def write(self, state: Tensor, ids: Tensor | None) -> None:
        """Put states back through the scene."""
        env, first = self._env, 0
        ids = torch.arange(env.num_envs, device=env.device) if ids is None else ids
        for asset, key in self._leaves():
            shape = asset[key].shape[1:]
            width = asset[key][0].numel()
            asset[key] = state[:, first : first + width].to(asset[key].dtype).view(-1, *shape)
            first += width
        env.scene.reset_to(self._scene, ids, is_relative=True)
        _write_columns([*_targets(env), *_last_actions(env)], state[:, first:], ids)
        env.scene.write_data_to_sim()
        env.sim.forward()


def _targets(env: Any) -> list[Tensor]:
    """Joint targets (N, J) that articulations hand to the simulator at each physics step."""
    data = [articulation.data for articulation in env.scene.articulations.values()]
    return [view.torch for each in data for view in (each.joint_pos_target, each.joint_vel_target)]


def _last_actions(env: Any) -> list[Tensor]:
    """(N, A) each; observations of many tasks show them."""
    return [env.action_manager.action, env.action_manager.prev_action]


def _write_columns(views: list[Tensor], state: Tensor, ids: Tensor | None) -> None:
    first = 0
    for view in views:
        values = state[:, first : first + view.shape[1]].to(view.dtype)
        view[slice(None) if ids is None else ids] = values
        first += view.shape[1]
