"""`env=isaaclab`: any registered Isaac Lab Mimic environment behind `MimicEnv`.

At this border: Isaac Lab's xyzw quaternions and per-slot origins stay on its side (poses come out of its own methods as
matrices in the slot's frame); one step here is one of its control steps (`decimation` physics steps); its observation
buffer is that of the present state after a reset, a step and `set_state`, and so are sensors, which Isaac Lab leaves at
the state before a reset.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor

from mimicpipe.envs.base import Feature, MimicEnv
from mimicpipe.envs.isaaclab import extra
from mimicpipe.envs.isaaclab.conversions import Conversions
from mimicpipe.envs.isaaclab.cpu_graph import CpuGraph, can_capture
from mimicpipe.envs.isaaclab.features import ObservationMap
from mimicpipe.envs.isaaclab.resets import SlotResets
from mimicpipe.envs.isaaclab.seeding import seeded
from mimicpipe.envs.isaaclab.settings import settings_of
from mimicpipe.envs.isaaclab.state import physics_manager, slot_states
from mimicpipe.envs.tasks.base import Task
from mimicpipe.rng import Seeds

_log = logging.getLogger("mimicpipe")

_CHECK_STEPS = 8
"""Control steps over which the replayed physics must give the bits of the launched one."""
_CHECK_SEED = 0


class IsaacLabEnv(MimicEnv):
    """N slots of one Isaac Lab environment.

    A reset is one call for all its slots, but for events that draw: those run for one slot after another, each with the
    global generators seeded by its attempt, so that a scene is a function of its seed.

    Args:
        task: gym id of a `ManagerBasedRLMimicEnv`, perhaps `package:id`.
        num_envs: number of slots N >= 1.
        device: of simulation and tensors.
        presets: alternatives to choose in the environment's configuration, e.g. "newton_mjwarp".
        overrides: {dotted field of the configuration: value}.
        configure: a function that changes the configuration in place, before `overrides`.
        env_spacing: distance between slots, metres; None is the environment's own. At 0 a slot's numbers do not depend
            on where it stands; Newton's slots do not meet each other.
        cpu_graph: on a CPU, replay Newton's physics as a Warp graph, if that gives the same bits.
        description: language instruction; None is the environment's own, or its gym id.

    Raises:
        ConfigError: Isaac Lab is not installed, no such environment, or one that does not fit.
    """

    def __init__(
        self,
        task: str,
        num_envs: int,
        device: str = "cpu",
        presets: Sequence[str] = (),
        overrides: Mapping[str, Any] | None = None,
        configure: Callable[[Any], None] | None = None,
        env_spacing: float | None = None,
        cpu_graph: bool = True,
        description: str | None = None,
    ) -> None:
        extra.check_installed()
        from mimicpipe.envs.isaaclab import simulation

        self._stack = ExitStack()
        try:
            cfg = simulation.load_cfg(task, list(presets))
            if configure is not None:
                configure(cfg)
            simulation.override(cfg, overrides or {})
            success = simulation.for_generation(cfg, num_envs, device, env_spacing)
            self.env = simulation.make(task, cfg, self._stack)
            self._success = simulation.success_of(self.env, success)
            self._describe(task, cfg, description)
            self._start(cpu_graph)
        except BaseException:
            self._stack.close()
            raise

    def _describe(self, gym_id: str, cfg: Any, description: str | None) -> None:
        env = self.env
        self.num_envs = env.num_envs
        self.device = torch.device(env.device)
        self.fps = round(1.0 / env.step_dt)
        self.eef_names = tuple(cfg.subtask_configs)
        self.task_settings = settings_of(cfg)
        own = getattr(env, "mimicpipe_task", None)
        if isinstance(own, Task):
            self.task = own
        self.task_description = description or (own.description if isinstance(own, Task) else gym_id)

    def _start(self, cpu_graph: bool) -> None:
        """Reset once, and find out what the env shows, and how its actions are made."""
        env = self.env
        self._physics = physics_manager(env)
        with torch.no_grad():
            with seeded(_CHECK_SEED, self.device):
                env.reset()
                env.step(torch.zeros(self.num_envs, env.action_manager.total_action_dim, device=self.device))
                env.reset()
            self._refresh()
            self._states = slot_states(env)
            self._resets = SlotResets(env, self.device)
            self.object_names = tuple(env.get_object_poses())
            self._conversions = Conversions(env, self.eef_names)
            self._observations = ObservationMap(env.obs_buf)
        self.observation_features = self._observations.features
        self.action_dim = self._conversions.action_dim
        self.noise_dim = self._conversions.noise_dim
        self.gripper_dim = self._conversions.gripper_dim
        self.action_feature = Feature("float32", (self.action_dim,), _action_names(env, self.action_dim))
        self._graph: CpuGraph | None = None
        if cpu_graph and can_capture(self._physics, self.device):
            self._replay_physics()

    def _replay_physics(self) -> None:
        """Replay physics from now on, unless that is seen to change a bit."""
        graph = CpuGraph(self._physics)
        self._stack.callback(graph.remove)
        with torch.no_grad():
            start = self.get_state()
            generator = torch.Generator().manual_seed(_CHECK_SEED)
            pushes = 0.02 * torch.randn(_CHECK_STEPS, self.num_envs, self.noise_dim, generator=generator)
            ends = []
            for enabled in (False, True):
                graph.enabled = enabled
                self.set_state(start)
                for push in pushes.to(self.device):
                    still = {eef: self.get_robot_eef_pose(eef) for eef in self.eef_names}
                    closed = dict.fromkeys(self.eef_names, push.new_full((self.num_envs, self.gripper_dim), -1.0))
                    noise = dict.fromkeys(self.eef_names, push)
                    self.env.step(self.target_eef_pose_to_action(still, closed, noise))
                ends.append(self.get_state())
            self.set_state(start)
        if torch.equal(*ends):
            self._graph = graph
        else:
            graph.enabled = False
            _log.warning("env.cpu_graph: the replayed physics differs from the launched one here, so it is not used")

    # -- state -----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def reset(self, env_ids: Tensor, seeds: Seeds) -> None:
        """Isaac Lab's reset of slots `env_ids`, each drawn from its seed; see the class."""
        self._resets.reset(env_ids, seeds)
        self.env.scene.write_data_to_sim()
        self._refresh()

    def _refresh(self) -> None:
        """Bring kinematics, sensors and observations to the present state."""
        env = self.env
        env.sim.forward()
        update_sensors = getattr(self._physics, "_update_sensors", None)
        if update_sensors is not None:
            update_sensors(None)
        for sensor in env.scene.sensors.values():
            sensor.update(0.0, force_recompute=True)
        env.obs_buf = env.observation_manager.compute(update_history=True)

    @torch.no_grad()
    def get_state(self, env_ids: Tensor | None = None) -> Tensor:
        """(K, S) float64; exact on Newton's MuJoCo solver on a CPU, see `state`."""
        return self._states.read(env_ids)

    @torch.no_grad()
    def set_state(self, state: Tensor, env_ids: Tensor | None = None) -> None:
        """Restore states from `get_state`."""
        self._states.write(state, env_ids)
        self._refresh()

    # -- stepping --------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def step(self, actions: Tensor, env_ids: Tensor | None = None) -> None:
        """Advance one control step; slots outside `env_ids` are stepped, too, and put back.

        Raises:
            ValueError: the shape is wrong, or an action is not finite in a slot that has not diverged.
        """
        if actions.shape != (self.num_envs, self.action_dim):
            raise ValueError(f"actions must be {(self.num_envs, self.action_dim)}, got {tuple(actions.shape)}")
        if env_ids is None or env_ids.shape[0] == self.num_envs:
            self.env.step(self._finite_actions(actions, self.all_ids()))
            return
        others = torch.ones(self.num_envs, dtype=torch.bool, device=self.device)
        others[env_ids] = False
        rest = others.nonzero().flatten()
        before = self.get_state(rest)
        actions = self._finite_actions(actions, env_ids).index_copy(0, rest, self._hold(rest))
        self.env.step(actions)
        self.set_state(before, rest)

    def _finite_actions(self, actions: Tensor, acting: Tensor) -> Tensor:
        """Actions (N, A) with zeros where a slot has diverged, of which nothing finite can be asked."""
        wrong = ~torch.isfinite(actions.index_select(0, acting)).all(dim=1)
        if not bool(wrong.any()):
            return actions
        slots = acting[wrong]
        if bool(self.finite(slots).any()):
            raise ValueError(f"the action of slot {', '.join(map(str, slots.tolist()))} is not finite")
        return actions.index_fill(0, slots, 0.0)

    def _hold(self, ids: Tensor) -> Tensor:
        """Actions (K, A) that ask for the present poses."""
        still = self._conversions.current(ids)
        grippers = {eef: pose.new_ones(len(ids), self.gripper_dim) for eef, pose in still.items()}
        return self._conversions.actions(still, grippers, None, ids).nan_to_num()

    # -- poses and actions -----------------------------------------------------------------------------------------

    def get_robot_eef_pose(self, eef_name: str, env_ids: Tensor | None = None) -> Tensor:
        """Pose (K, 4, 4) of an end effector, as its controller sees it."""
        pose = self.env.get_robot_eef_pose(eef_name)
        return pose.clone() if env_ids is None else pose.index_select(0, env_ids)

    def get_object_poses(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """Poses {object: (K, 4, 4)}."""
        rows = self.all_ids() if env_ids is None else env_ids
        return {name: pose.index_select(0, rows) for name, pose in self.env.get_object_poses().items()}

    def target_eef_pose_to_action(
        self,
        target_eef_pose: Mapping[str, Tensor],
        gripper_action: Mapping[str, Tensor],
        action_noise: Mapping[str, Tensor] | None = None,
        env_ids: Tensor | None = None,
    ) -> Tensor:
        """Actions (K, A), see `conversions` and `MimicEnv`."""
        return self._conversions.actions(target_eef_pose, gripper_action, action_noise, env_ids)

    def action_to_target_eef_pose(self, actions: Tensor, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """Target poses {eef: (K, 4, 4)}."""
        return self._conversions.targets(actions, env_ids)

    def actions_to_gripper_actions(self, actions: Tensor) -> dict[str, Tensor]:
        """Gripper part {eef: (..., G)} of actions (..., A)."""
        return self._conversions.grippers(actions)

    # -- task and observations -------------------------------------------------------------------------------------

    def get_subtask_term_signals(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """{signal: (K,) bool}; empty where the environment has none."""
        return self._signals(self.env.get_subtask_term_signals, env_ids)

    def get_subtask_start_signals(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """{signal: (K,) bool}; empty where the environment has none."""
        return self._signals(self.env.get_subtask_start_signals, env_ids)

    @staticmethod
    def _signals(method: Callable[[], dict[str, Tensor]], ids: Tensor | None) -> dict[str, Tensor]:
        try:
            found = method()
        except NotImplementedError:  # Isaac Lab's mark of an optional method
            return {}
        return {name: (value if ids is None else value[ids]).bool().clone() for name, value in found.items()}

    @torch.no_grad()
    def success(self) -> Tensor:
        """(N,) bool: the environment's success term."""
        return self._success()

    def observe(self, env_ids: Tensor | None = None) -> dict[str, Tensor]:
        """Observations, see `features`."""
        return self._observations.observe(self.env.obs_buf, slice(None) if env_ids is None else env_ids)

    @property
    def layout(self) -> str:
        """How actions are made: ik_rel, ik_abs, or own (the environment's method, slot by slot)."""
        return self._conversions.layout

    @property
    def replays_physics(self) -> bool:
        """Whether physics is replayed as a Warp graph."""
        return self._graph is not None

    def close(self) -> None:
        """End the simulation; safe to call twice."""
        self._stack.close()


def _action_names(env: Any, width: int) -> tuple[str, ...]:
    """`<term>_<index>` for each element of each action term."""
    manager = env.action_manager
    names = []
    for term, size in zip(manager.active_terms, manager.action_term_dim, strict=True):
        names += [term] if size == 1 else [f"{term}_{index}" for index in range(size)]
    if len(names) != width:
        raise AssertionError(f"{len(names)} action names for {width} values")
    return tuple(names)
