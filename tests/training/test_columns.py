"""What is read of a dataset, and what is known of the runs that it comes from."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from mimicpipe.errors import ConfigError, SourceDemoError
from mimicpipe.recorders.joining import merge
from mimicpipe.training.columns import load_demos

sys.path.insert(0, str(Path(__file__).parents[1]))

from in_process import run_main


@pytest.fixture(scope="module")
def datasets(tmp_path_factory) -> list[Path]:
    """Of two runs, with seeds 3 and 4."""
    folder = tmp_path_factory.mktemp("runs")
    made = []
    for seed in (3, 4):
        arguments = ["env=kinematic", "env.num_envs=3", "tracker=none", "num_demos=3", "preview=false", f"seed={seed}"]
        assert run_main([*arguments, f"hydra.run.dir={folder / str(seed)}"], folder) == 0
        made.append(folder / str(seed) / "dataset")
    return made


def test_the_first_episodes(datasets):
    every, two = load_demos(datasets[0]), load_demos(datasets[0], 2)
    assert len(every.lengths) == 3
    assert two.lengths.tolist() == every.lengths[:2].tolist()
    frames = int(two.lengths.sum())
    assert np.array_equal(two.actions, every.actions[:frames])
    assert set(two.observations) == {"observation.state", "observation.eef_pose", "observation.environment_state"}
    assert all(len(values) == frames and values.dtype == np.float32 for values in two.observations.values())
    assert two.names["observation.eef_pose"] == ("x", "y", "z", "qw", "qx", "qy", "qz")
    rows = [json.loads(line) for line in (datasets[0].parent / "attempts.jsonl").read_text().splitlines()]
    assert two.seeds == tuple(row["seed"] for row in rows if row["success"])[:2]
    assert (two.run_seeds, two.fps) == ((3,), 20.0)


def test_a_merged_dataset_knows_the_seeds_of_all_its_runs(datasets, tmp_path):
    merge(tmp_path / "both", datasets)
    merge(tmp_path / "more", [tmp_path / "both", datasets[0]])
    demos = load_demos(tmp_path / "more")
    assert demos.run_seeds == (3, 4, 3)
    assert len(demos.seeds) == 9


def test_what_cannot_be_learned_from_is_a_line(datasets, tmp_path):
    with pytest.raises(ConfigError, match="--episodes 4"):
        load_demos(datasets[0], 4)
    with pytest.raises(SourceDemoError):
        load_demos(tmp_path)
