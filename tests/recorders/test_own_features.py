"""A run of an env with features of every dtype: what is read from the dataset is what the env observed."""

import h5py
import numpy as np
import pytest
import torch
from in_process import run_main

from mimicpipe.recorders.digest import digest

pytestmark = pytest.mark.timeout(240)
COMMAND = [
    "env=kinematic", "env._target_=own_features_env.OwnFeaturesEnv", "allowed_targets=[own_features_env]",
    "task=pick", "num_demos=3", "tracker=none", "preview=false",
]  # fmt: skip


@pytest.fixture
def run(tmp_path, capfd):
    def call(name, *overrides):
        folder = tmp_path / name
        assert run_main([*COMMAND, *overrides, f"hydra.run.dir={folder}"], tmp_path) == 0, capfd.readouterr().err
        return folder / "dataset"

    return call


def test_every_recorder_keeps_what_was_observed(run, open_dataset):
    roots = [
        run("sync", "recorder=sync", "env.num_envs=1"),
        run("async", "recorder=async", "env.num_envs=4"),
        run("sharded", "recorder=sharded", "recorder.worker_timeout_s=120", "env.num_envs=3"),
    ]
    assert len({digest(root) for root in roots}) == 1
    dataset = open_dataset(roots[1], depth_output_unit="mm")
    phases = set()
    for index in range(0, len(dataset), 7):
        item = dataset[index]
        place = item["observation.pose"][:3, 3]
        assert torch.equal(item["observation.eef_pose"][:3], place)
        assert item["observation.height"].item() == place[2].item()
        assert torch.equal(item["observation.grid"], place.expand(5, 4, 3))
        assert item["observation.low"].item() == (place[2] < 0.15).item()
        assert item["observation.phase"] == ("tief — 低" if item["observation.low"] else "high")
        phases.add(item["observation.phase"])
        assert torch.equal(item["observation.millimetres"], (place * 1000).round().long())
        assert item["observation.images.depth"].shape == (1, 16, 16)
        assert item["observation.images.depth"][0, 3, 5].item() == item["observation.millimetres"][2] + 3 * 16 + 5
    assert phases == {"tief — 低", "high"}


def test_hdf5_keeps_numbers_and_depth_and_refuses_text(run, tmp_path, capfd):
    with pytest.raises(SystemExit, match="2"):
        run_main([*COMMAND, "recorder=hdf5", f"hydra.run.dir={tmp_path / 'no'}"], tmp_path)
    assert "feature 'observation.phase': dtype 'string'; recorder=hdf5 takes float32" in capfd.readouterr().err
    code = ["env._target_=own_features_env.NoTextEnv"]
    root = run("hdf5", *code, "recorder=hdf5", "env.num_envs=2")
    with h5py.File(root / "demos.hdf5") as file:
        demo = file["data/demo_0/obs"]
        assert demo["depth"].dtype == np.uint16
        assert np.array_equal(demo["depth"][:, 0, 0, 0], demo["millimetres"][:, 2])
        assert np.array_equal(demo["pose"], demo["datagen_info/eef_pose/panda"])
