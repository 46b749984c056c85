import pytest
import torch
from rollout_env import RolloutEnv, planar_eef_position

from mimicpipe.recorders.payload import UNKNOWN_SEED, episodes_of_slot, recordable_ids


def episodes(env, env_id=0, attempt=0, instruction=None, eef_pose_fn=None):
    return episodes_of_slot(env, env_id, attempt, instruction, eef_pose_fn)


def test_a_slot_becomes_an_episode_with_lerobot_names():
    (episode,) = episodes(RolloutEnv(), env_id=1)
    assert {name: tuple(column.shape) for name, column in episode.columns.items()} == {
        "observation.state": (4, 2),
        "observation.scene.lamp": (4, 1),
        "action": (4, 2),
        "subtask_index": (4,),
        "annotation.effort": (4, 2),
    }
    assert episode.columns["observation.state"][3].tolist() == pytest.approx([1.3, -0.3])
    assert episode.columns["action"].tolist() == [[t, 1] for t in range(4)]
    assert episode.columns["subtask_index"].tolist() == [0, 0, 1, 1]
    assert episode.task == "wave"
    outcome = episode.outcome
    assert (outcome.attempt, outcome.slot, outcome.seed, outcome.length) == (11, 1, 101, 4)
    assert (outcome.success, outcome.reason) == (True, "success")
    assert episode.metadata == {"layout": [1]}


def test_names_that_are_lerobots_stay_and_nested_actions_are_flattened():
    env = RolloutEnv()
    joints = env.rollout_buffer["obs"]["state"]
    env.rollout_buffer["obs"] = {
        "observation.state": joints,
        "observation.images": {"observation.images.front": joints},
    }
    env.rollout_buffer["actions"] = {"arm": joints, "gripper": {"left": joints}}
    names = list(episodes(env)[0].columns)
    assert names[:2] == ["observation.state", "observation.images.front"]
    assert names[2:4] == ["action.arm", "action.gripper.left"]


def test_an_episode_shares_no_memory_with_the_buffer_nor_with_the_metadata():
    env = RolloutEnv()
    (episode,) = episodes(env)
    before = {name: column.clone() for name, column in episode.columns.items()}
    env.overwrite_buffers()
    env.metadata[0]["layout"].append(99)
    for name, column in before.items():
        assert torch.equal(episode.columns[name], column)
        assert episode.columns[name].is_contiguous()
    assert episode.metadata == {"layout": [0]}
    assert env.metadata[0]["attempt"] == 10  # popped from the copy only


def test_an_empty_episode_is_none():
    env = RolloutEnv()
    env.lengths[0] = 0
    assert episodes(env) == []


def test_metadata_fills_in_the_outcome():
    env = RolloutEnv()
    env.metadata[0] = {
        "success": False,
        "source_demos": [{"demo": 4}],
        "initial_state": [1.5, 2.5],
        "task": "look",
    }
    (episode,) = episodes(env, attempt=42, instruction="ignored, as the metadata has a task")
    assert episode.outcome.attempt == 42
    assert episode.outcome.seed == UNKNOWN_SEED
    assert (episode.outcome.success, episode.outcome.reason) == (False, "not_successful")
    assert episode.outcome.source_demos == [{"demo": 4}]
    assert episode.initial_state.tolist() == [1.5, 2.5]
    assert episode.initial_state.dtype == torch.float64
    assert (episode.task, episode.metadata) == ("look", {})


def test_an_env_needs_no_metadata_but_a_task():
    class Plain:
        num_envs = 1
        episode_length = (2,)
        rollout_buffer = {"obs": {"state": torch.zeros(1, 3, 2)}, "actions": torch.zeros(1, 3, 1)}  # noqa: RUF012

    (episode,) = episodes(Plain(), instruction="wait")
    assert (episode.task, episode.length, episode.metadata) == ("wait", 2, {})
    assert episode.initial_state.shape == (0,)
    with pytest.raises(ValueError, match="no task text"):
        episodes(Plain())


def test_the_eef_position_is_computed_from_the_episode():
    (episode,) = episodes(RolloutEnv(), env_id=2, eef_pose_fn=planar_eef_position)
    angles = episode.columns["observation.state"]
    expected = torch.stack((angles[:, 0].cos() + angles.sum(-1).cos(), angles[:, 0].sin() + angles.sum(-1).sin()), -1)
    assert torch.equal(episode.columns["observation.eef_pose"], expected)


def fragment_env(segments):
    env = RolloutEnv()
    env.metadata[0] |= {"output_mode": "segment_fragments", "segments": segments, "initial_state": [1.0]}
    return env


def test_fragments_are_the_eligible_segments():
    segments = [
        {"start": 0, "end": 2, "fragment_id": "reach", "task": "reach the cup"},
        {"start": 2, "end": 3, "eligible": False},
        {"start": 3, "end": 3},
        {"start": 3, "end": 5},
    ]
    whole = episodes(RolloutEnv())[0]
    first, last = episodes(fragment_env(segments))
    assert [fragment.metadata["fragment_id"] for fragment in (first, last)] == ["reach", 3]
    assert first.metadata["segment"] == segments[0]
    assert first.metadata["fragment"] is True
    assert "segments" not in first.metadata
    assert (first.task, last.task) == ("reach the cup", "wave")
    assert (first.outcome.length, last.outcome.length) == (2, 2)
    assert (first.outcome.attempt, last.outcome.attempt) == (10, 10)
    for name, column in whole.columns.items():
        assert torch.equal(first.columns[name], column[:2])
        assert torch.equal(last.columns[name], column[3:5])
    # Only the first begins in the recorded state.
    assert (first.initial_state.tolist(), last.initial_state.tolist()) == ([1.0], [])


@pytest.mark.parametrize("segments", [[], [{"start": 1, "end": 1}], [{"start": 0, "end": 5, "eligible": False}]])
def test_no_eligible_segment_is_an_error(segments):
    with pytest.raises(RuntimeError, match=r"slot 0: .* no segment is eligible"):
        episodes(fragment_env(segments))


@pytest.mark.parametrize("span", [(-1, 2), (3, 2), (0, 6)])
def test_a_segment_beyond_the_episode_is_an_error(span):
    with pytest.raises(ValueError, match=r"segment 0: frames .* of an episode of 5"):
        episodes(fragment_env([{"start": span[0], "end": span[1]}]))


def test_slots_may_be_named_in_any_way_and_filtered_by_the_env():
    env = RolloutEnv()
    assert recordable_ids(env, None) == [0, 1, 2]
    for ids in ([2, 0], (2, 0), range(2, -1, -2), torch.tensor([2, 0])):
        assert recordable_ids(env, ids) == [2, 0]
    assert recordable_ids(env, []) == []

    class Context:
        def filter_recordable(self, env_ids):
            return [1] if env_ids is None else [i for i in env_ids if i != 0]

    env.episode_context = Context()
    assert recordable_ids(env, None) == [1]
    assert recordable_ids(env, [2, 0]) == [2]
    assert recordable_ids(env, [0]) == []
