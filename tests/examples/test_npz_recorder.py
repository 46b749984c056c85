import json

import numpy as np
import pytest
import torch
from example_runs import attempts, episodes

from examples.npz_recorder import NpzRecorder
from mimicpipe.envs.base import Feature
from mimicpipe.pipeline.episode import Episode, Outcome


def episode(attempt: int, frames: int = 5) -> Episode:
    outcome = Outcome(attempt, 0, 7, success=True, reason="success", length=frames)
    state = torch.arange(3, dtype=torch.float64)
    return Episode(outcome, {"action": torch.full((frames, 2), float(attempt))} if frames else {}, "do", state)


def recorder(root) -> NpzRecorder:
    return NpzRecorder(root, 20, {"action": Feature("float32", (2,), ("a", "b"))}, {"seed": 0})


def test_it_writes_what_it_is_given_and_says_so(tmp_path):
    durable = []
    own = recorder(tmp_path / "dataset")
    own.on_durable = lambda episode, index: durable.append((episode.outcome.attempt, index))
    for attempt, frames in ((3, 5), (4, 0), (8, 2)):
        own.commit(episode(attempt, frames))
    assert durable == [(3, 0), (8, 1)]
    assert own.finalize() == own.finalize() == tmp_path / "dataset"
    first, second = episodes(tmp_path)
    assert (int(first["attempt"]), first["action"].shape, int(second["attempt"])) == (3, (5, 2), 8)
    assert np.array_equal(first["initial_state"], [0.0, 1.0, 2.0])
    info = json.loads((tmp_path / "dataset" / "info.json").read_text())
    assert info == {"episodes": 2, "fps": 20, "names": {"action": ["a", "b"]}, "run": {"seed": 0}}
    with pytest.raises(RuntimeError, match="finalized"):
        own.commit(episode(9))


def test_no_episodes_no_folder(tmp_path):
    own = recorder(tmp_path / "dataset")
    assert own.finalize() is None
    assert list(tmp_path.iterdir()) == []


def test_a_run_and_its_failed_attempts(run):
    folder = run("recorder=npz", "recorder.save_failed=true", "env=kinematic", "num_demos=4", "env.num_envs=4")
    assert [row["episode_index"] for row in attempts(folder)] == [0, 1, 2, 3]
    assert len(episodes(folder)) == 4
    failed = run(
        "recorder=npz", "recorder.save_failed=true", "env=kinematic", "task.max_episode_steps=20", "max_attempts=2"
    )
    assert not (failed / "dataset").exists()
    assert len(list((failed / "dataset_failed").glob("*.npz"))) == 2
