"""`pool=scripted`: source demos that a scripted expert performs in the run's own env.

The expert works in many slots at once and closed loop, through the public calls of `MimicEnv` only, so it serves every
simulator. Which demos come out depends on the seed alone: not on num_envs, and not on the run's own attempts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from mimicpipe import rng
from mimicpipe.datagen.datagen_info import DatagenInfo, SourceDemo
from mimicpipe.datagen.subtask import SubtaskConfigs
from mimicpipe.envs.base import MimicEnv
from mimicpipe.envs.tasks.base import Task
from mimicpipe.errors import ConfigError, SourceDemoError
from mimicpipe.pools.base import OnError, ReadResult
from mimicpipe.pools.experts import Move
from mimicpipe.pools.script_player import ScriptEnsemble
from mimicpipe.pools.scripts import expert_named, expert_names
from mimicpipe.pools.steps import Shown, shown

HOLD_STEPS = 10
"""Control steps for which success must hold up to a demo's end."""
MAX_STEPS = 800
"""Control steps after which a performance counts as failed."""
FIRST_ATTEMPT = 2**32
"""Attempt index of the first performance: beyond every run's own, so that no generated episode has a demo's scene."""
_TRIES_PER_DEMO = 5
"""Performances per wanted demo after which the expert is given up."""


@dataclass(slots=True)
class _Recording:
    """Batched steps of K slots, each entry (K, ...)."""

    shown: list[Shown] = field(default_factory=list)
    actions: list[Tensor] = field(default_factory=list)
    states: list[Tensor] = field(default_factory=list)
    observations: list[dict[str, Tensor]] = field(default_factory=list)
    success: list[Tensor] = field(default_factory=list)
    """After the step."""
    done: list[Tensor] = field(default_factory=list)
    """The script was over before the step."""


class ScriptedPool:
    """Source demos performed at the start of the run.

    Args:
        num_demos: successful demos to perform.
        seed: what scenes and habits are drawn from.
        max_demos: take at most this many of them; None is all.
        on_error: a failed performance is repeated with another scene in any case; kept for the pools' common keys.
    """

    def __init__(
        self, num_demos: int = 10, seed: int = 0, max_demos: int | None = None, on_error: OnError = "raise"
    ) -> None:
        self.num_demos = num_demos if max_demos is None else min(num_demos, max_demos)
        self.seed = seed
        self.on_error: OnError = on_error

    def load(self, env: MimicEnv, subtask_configs: SubtaskConfigs) -> ReadResult:
        """Perform the demos in `env`, which is reset; see `pools.base.DemoSource`."""
        wanted = {s.subtask_term_signal for subtasks in subtask_configs.values() for s in subtasks} - {None}
        demos = load_scripted(env, self.num_demos, self.seed)
        missing = sorted(str(signal) for signal in wanted if signal not in demos[0].info.subtask_term_signals)
        if missing:
            raise SourceDemoError(
                f"pool=scripted: the env has no signal {', '.join(missing)}, which the task's subtasks name; "
                f"it has {', '.join(demos[0].info.subtask_term_signals) or 'none'}"
            )
        return ReadResult(demos)


def load_scripted(env: MimicEnv, num_demos: int, seed: int) -> list[SourceDemo]:
    """`num_demos` successful demos of the env's task, with states and without observations; resets the env."""
    return collect_scripted_demos(env, num_demos, seed, states=True).demos


@dataclass(slots=True)
class Collection:
    """Successful demos, in the order of their attempts."""

    demos: list[SourceDemo]
    seeds: list[int]
    """Seed of each demo's scene and habits."""
    tried: int
    """Performances it took up to the last demo."""


def collect_scripted_demos(
    env: MimicEnv,
    num_demos: int,
    seed: int,
    hold_steps: int = HOLD_STEPS,
    observations: bool = False,
    states: bool = False,
) -> Collection:
    """Perform in all slots, scene after scene, until there are `num_demos` successful demos.

    Args:
        env: any simulator with a `task` that has an expert; it is reset.
        num_demos: demos to keep: the first successes by attempt.
        seed: seed of the collection.
        hold_steps: steps for which success must hold up to the end.
        observations: also record `observe()`.
        states: also record `get_state()`.

    Raises:
        ConfigError: no expert knows the env's task.
        SourceDemoError: the expert fails far too often.
    """
    scripts = expert_for(env)
    found = Collection([], [], 0)
    limit = _TRIES_PER_DEMO * num_demos
    performed = 0
    while len(found.demos) < num_demos:
        count = min(env.num_envs, num_demos - len(found.demos), limit - performed)
        if count == 0:
            raise SourceDemoError(
                f"pool=scripted: the expert for {env.task_description!r} succeeded in {len(found.demos)} of "
                f"{performed} scenes; {num_demos} demos were asked for"
            )
        seeds = rng.attempt_seeds(seed, FIRST_ATTEMPT + np.arange(performed, performed + count))
        demos = perform(env, scripts, seeds, hold_steps, observations, states)
        for index, demo in enumerate(demos):
            if demo.success:
                demo.name = f"demo_{len(found.demos)}"
                found.demos.append(demo)
                found.seeds.append(int(seeds[index]))
                found.tried = performed + index + 1
        performed += count
    return found


def expert_for(env: MimicEnv) -> dict[str, tuple[Move, ...]]:
    """Moves {eef: in order} of the expert that knows the env's task.

    Raises:
        ConfigError: there is none, or it has other arms than the env.
    """
    task = getattr(env, "task", None)
    if not isinstance(task, Task):
        raise ConfigError("pool=scripted: this env does not say what its task is; use pool=hdf5")
    expert = expert_named(task.name)
    if expert is None:
        raise ConfigError(f"pool=scripted: no expert for task {task.name}; there are {', '.join(expert_names())}")
    script = expert(task)
    scripts = {env.eef_names[0]: script} if isinstance(script, tuple) else dict(script)
    if set(scripts) != set(env.eef_names):
        raise ConfigError(
            f"pool=scripted: the expert for task {task.name} moves {', '.join(scripts)}; this env has "
            f"{', '.join(env.eef_names)}"
        )
    return scripts


def perform(
    env: MimicEnv,
    scripts: Mapping[str, tuple[Move, ...]],
    seeds: rng.Seeds,
    hold_steps: int = HOLD_STEPS,
    observations: bool = False,
    states: bool = False,
) -> list[SourceDemo]:
    """One demo for each of `seeds` (K,), K <= num_envs, in slots 0 .. K - 1; `success` tells which are good."""
    count = len(seeds)
    ids = torch.arange(count, device=env.device)
    env.reset(ids, seeds)
    initial_state = env.get_state(ids).cpu()
    poses = {eef: env.get_robot_eef_pose(eef, ids) for eef in env.eef_names}
    player = ScriptEnsemble({eef: scripts[eef] for eef in env.eef_names}, seeds, hold_steps, env.fps, poses)
    recording = _Recording()
    actions = torch.zeros(env.num_envs, env.action_dim, device=env.device)
    for _ in range(MAX_STEPS):
        poses = {eef: env.get_robot_eef_pose(eef, ids) for eef in env.eef_names}
        commands = player.act(poses, env.get_object_poses(ids))
        if bool(player.done.all()):
            break
        targets = {eef: command.target for eef, command in commands.items()}
        grippers = {eef: command.gripper for eef, command in commands.items()}
        action = env.target_eef_pose_to_action(targets, grippers, None, ids)
        recording.done.append(player.done.clone())
        recording.shown.append(shown(env, ids, action))
        recording.observations.append(env.observe(ids) if observations else {})
        if states:
            recording.states.append(env.get_state(ids))
        recording.actions.append(action)
        actions[:count] = action
        env.step(actions, ids)
        recording.success.append(env.success()[:count])
    return _cut(recording, initial_state, hold_steps, player.done)


def _cut(recording: _Recording, initial_state: Tensor, hold_steps: int, finished: Tensor) -> list[SourceDemo]:
    """The demos of all slots, each up to the end of its script."""
    groups = {key: _stack_dicts([step[key] for step in recording.shown]) for key in recording.shown[0]}
    actions, observations = _stack(recording.actions), _stack_dicts(recording.observations)
    success = _stack(recording.success)
    states = _stack(recording.states) if recording.states else None
    lengths = (~_stack(recording.done)).sum(dim=1).tolist()
    demos = []
    for slot, length in enumerate(lengths):
        cut = _cutter(slot, length)
        held = length >= hold_steps and bool(success[slot, length - hold_steps : length].all())
        info = DatagenInfo(
            **{key: {name: cut(values) for name, values in group.items()} for key, group in groups.items()}
        )
        demos.append(
            SourceDemo(
                name=f"performance_{slot}",
                info=info,
                actions=cut(actions),
                initial_state=initial_state[slot].clone(),
                observations={name: cut(values) for name, values in observations.items()},
                success=held and bool(finished[slot]),
                states=None if states is None else cut(states),
            )
        )
    return demos


def _cutter(slot: int, length: int) -> Callable[[Tensor], Tensor]:
    return lambda values: values[slot, :length].clone()


def _stack(steps: Sequence[Tensor]) -> Tensor:
    """(K, T, ...) on the host from T entries (K, ...)."""
    return torch.stack(list(steps), dim=1).cpu()


def _stack_dicts(steps: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: _stack([step[name] for step in steps]) for name in steps[0]}
