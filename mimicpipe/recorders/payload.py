"""From somebody's own environment to episodes: the rollout buffer's slice, copied in the caller's thread.

The environment needs no base class, only these attributes:

* `rollout_buffer["obs"]`: tensors (N, T, *shape), nested in mappings as deep as it likes, and
  `rollout_buffer["actions"]`, the same or one tensor; of the other keys, annotations (`subtask_index`, `annotation.*`)
  are recorded;
* `episode_length(env_id) -> int`, or the same as something to index: frames of the slot's episode;
* `num_envs`, where env_ids may be None;
* optionally `episode_context.filter_recordable(env_ids)`: which of them may be recorded;
* optionally `get_demo_episode_metadata(env_id) -> dict`. Of its keys `attempt`, `seed`, `success`, `reason`,
  `source_demos`, `initial_state` and `task` fill in the episode's own fields.

With `output_mode="segment_fragments"` in the metadata, an episode becomes one episode for each of its `segments`, a
list of dicts with `start` and `end` (frames, the end excluded) and optionally `eligible` (default true), `fragment_id`
and `task`.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mimicpipe.pipeline.episode import Episode, Outcome
from mimicpipe.recorders.features import is_annotation

EEF_FEATURE = "observation.eef_pose"
EefPoseFn = Callable[[Any, int, Mapping[str, Tensor]], Tensor]
"""(env, env_id, observation columns of the episode) -> (T, D): `observation.eef_pose` of each frame."""
UNKNOWN_SEED = -1
"""Seed of an episode whose environment does not tell it."""


def recordable_ids(env: Any, env_ids: Tensor | Sequence[int] | None) -> list[int]:
    """The slots to record: those asked for, or all, that the environment lets through."""
    context = getattr(env, "episode_context", None)
    if context is not None:
        env_ids = context.filter_recordable(env_ids)
    if env_ids is None:
        return list(range(env.num_envs))
    return env_ids.tolist() if isinstance(env_ids, Tensor) else [int(env_id) for env_id in env_ids]


def episodes_of_slot(
    env: Any, env_id: int, attempt: int, instruction: str | None, eef_pose_fn: EefPoseFn | None
) -> list[Episode]:
    """What a slot has to record: nothing for an empty episode, one episode, or its fragments.

    Args:
        env: the environment, see above.
        env_id: the slot.
        attempt: attempt index, where the environment's metadata has none.
        instruction: task text, where the metadata has none; then the environment's `task_description` is used.
        eef_pose_fn: computes `observation.eef_pose`, here and now, as the simulator stands at this episode's end.

    Raises:
        RuntimeError: fragments are asked for and no segment is eligible.
        ValueError: no task text, or a segment beyond the episode.
    """
    length = _episode_length(env, env_id)
    if length <= 0:
        return []
    getter = getattr(env, "get_demo_episode_metadata", None)
    metadata = dict(copy.deepcopy(getter(env_id)) or {}) if getter is not None else {}
    columns = _columns(env, env_id, length)
    if eef_pose_fn is not None:
        columns[EEF_FEATURE] = eef_pose_fn(env, env_id, columns).detach().to("cpu", copy=True)
    episode = _episode(env, env_id, columns, metadata, attempt, instruction)
    if metadata.get("output_mode") != "segment_fragments":
        return [episode]
    fragments = list(_fragments(episode))
    if not fragments:
        raise RuntimeError(f"slot {env_id}: fragments of its segments are to be recorded, but no segment is eligible")
    return fragments


def _episode_length(env: Any, env_id: int) -> int:
    length = env.episode_length
    return int(length(env_id) if callable(length) else length[env_id])


def _columns(env: Any, env_id: int, length: int) -> dict[str, Tensor]:
    buffer = env.rollout_buffer
    columns = dict(_flat("observation", buffer["obs"]))
    columns.update(_flat("action", buffer["actions"]))
    columns.update((key, buffer[key]) for key in buffer.keys() if is_annotation(key))  # noqa: SIM118 - a TensorDict
    # One copy even from a GPU; the buffer is written by the next episode while this one waits for the disk.
    return {
        name: value[env_id, :length].detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, value in columns.items()
    }


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """(LeRobot name, tensor) of everything below `value`; keys that are LeRobot names already stay as they are."""
    if isinstance(value, Tensor):
        yield prefix, value
        return
    for key, item in value.items():
        named = key.split(".", 1)[0] == prefix.split(".", 1)[0]
        yield from _flat(key if named else f"{prefix}.{key}", item)


def _episode(
    env: Any, env_id: int, columns: dict[str, Tensor], metadata: dict[str, Any], attempt: int, instruction: str | None
) -> Episode:
    task = metadata.pop("task", None) or instruction or getattr(env, "task_description", None)
    if task is None:
        raise ValueError(f"slot {env_id}: no task text; give the recorder an instruction or the env a task_description")
    success = bool(metadata.pop("success", True))
    outcome = Outcome(
        attempt=int(metadata.pop("attempt", attempt)),
        slot=env_id,
        seed=int(metadata.pop("seed", UNKNOWN_SEED)),
        success=success,
        reason=metadata.pop("reason", "success" if success else "not_successful"),
        length=next(iter(columns.values())).shape[0],
        source_demos=list(metadata.pop("source_demos", ())),
    )
    initial_state = torch.as_tensor(metadata.pop("initial_state", ()), dtype=torch.float64, device="cpu").clone()
    return Episode(outcome, columns, task, initial_state, metadata)


def _fragments(episode: Episode) -> Iterator[Episode]:
    metadata = {key: value for key, value in episode.metadata.items() if key != "segments"}
    for number, segment in enumerate(episode.metadata.get("segments", ())):
        start, end = int(segment["start"]), int(segment["end"])
        if not 0 <= start <= end <= episode.length:
            raise ValueError(f"segment {number}: frames {start} to {end} of an episode of {episode.length}")
        if start == end or not segment.get("eligible", True):
            continue
        outcome = copy.copy(episode.outcome)
        outcome.length = end - start
        own = {"fragment": True, "fragment_id": segment.get("fragment_id", number), "segment": dict(segment)}
        columns = {name: column[start:end].clone() for name, column in episode.columns.items()}
        # The recorded state is the episode's, from which only a fragment that begins with it can be replayed.
        state = episode.initial_state if start == 0 else episode.initial_state[:0]
        yield Episode(outcome, columns, segment.get("task", episode.task), state, metadata | own)
