"""LeRobot's own tools and a policy of its, on a dataset of ours with a camera as video."""

import importlib.util
import itertools
import json
import math
import subprocess
import sys

import pytest
import torch
from small_episodes import FEATURES, episode_of

from mimicpipe.envs.base import Feature
from mimicpipe.recorders.async_lerobot import AsyncLeRobotRecorder

# The first test of a process waits for the import of lerobot, which is slow on a busy machine.
pytestmark = pytest.mark.timeout(240)

FPS = 20
LENGTHS = (12, 1, 9, 15)
CAMERA = "observation.images.front"
COLUMNS = {
    "observation.state": FEATURES["observation.state"],
    CAMERA: Feature("video", (64, 64, 3)),
    "action": FEATURES["action"],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A dataset of four episodes."""
    root = tmp_path_factory.mktemp("tools") / "set"
    recorder = AsyncLeRobotRecorder(root, "local/set", FPS, COLUMNS, robot_type="arm")
    for k, length in enumerate(LENGTHS):
        recorder.commit(episode_of(k, length, f"task {k % 2}", COLUMNS))
    recorder.finalize()
    return root


def run_tool(name, *arguments):
    command = [sys.executable, "-m", f"lerobot.scripts.{name}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done


def totals(root):
    info = json.loads((root / "meta" / "info.json").read_text())
    return info["total_episodes"], info["total_frames"]


def assert_episodes(open_dataset, root, numbers):
    """The dataset at `root` has these of our episodes: their actions to the bit, and a video frame for each row."""
    dataset = open_dataset(root)
    expected = [episode_of(k, LENGTHS[k], f"task {k % 2}", COLUMNS) for k in numbers]
    assert torch.equal(
        torch.stack([row["action"] for row in dataset.hf_dataset]), torch.cat([e.columns["action"] for e in expected])
    )
    last = dataset[len(dataset) - 1]
    assert last["task"] == expected[-1].task
    assert last[CAMERA].shape == (3, 64, 64)


@pytest.mark.slow
def test_delete_from_the_command_line(root, tmp_path, open_dataset):
    run_tool(
        "lerobot_edit_dataset", "--repo_id=local/set", f"--root={root}", "--new_repo_id=local/fewer",
        f"--new_root={tmp_path / 'fewer'}", "--operation.type=delete_episodes", "--operation.episode_indices=[1]",
    )  # fmt: skip
    assert totals(tmp_path / "fewer") == (3, sum(LENGTHS) - 1)
    assert_episodes(open_dataset, tmp_path / "fewer", (0, 2, 3))


@pytest.mark.slow
def test_split_and_merge_from_the_command_line(root, tmp_path, open_dataset):
    splits = json.dumps({"train": [0, 2], "val": [1, 3]})
    run_tool(
        "lerobot_edit_dataset", "--repo_id=local/set", f"--root={root}", f"--new_root={tmp_path / 'split'}",
        "--operation.type=split", f"--operation.splits={splits}",
    )  # fmt: skip
    parts = {name: next(tmp_path.glob(f"split*/**/*{name}/meta")).parent for name in ("train", "val")}
    assert_episodes(open_dataset, parts["train"], (0, 2))
    assert_episodes(open_dataset, parts["val"], (1, 3))
    run_tool(
        "lerobot_edit_dataset", "--new_repo_id=local/again", f"--new_root={tmp_path / 'again'}",
        "--operation.type=merge", "--operation.repo_ids=['local/a', 'local/b']",
        f"--operation.roots=['{parts['train']}', '{parts['val']}']",
    )  # fmt: skip
    assert totals(tmp_path / "again") == (4, sum(LENGTHS))
    assert_episodes(open_dataset, tmp_path / "again", (0, 2, 1, 3))


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("rerun") is None, reason="needs rerun-sdk, no dependency of ours: pip install lerobot[viz]"
)
def test_the_viewer_writes_an_episode(root, tmp_path):
    run_tool(
        "lerobot_dataset_viz", "--repo-id=local/set", f"--root={root}", "--episode-index=3", "--save=1",
        f"--output-dir={tmp_path}", "--num-workers=0",
    )  # fmt: skip
    (file,) = tmp_path.glob("*.rrd")
    assert file.read_bytes()[:3] == b"RRF"
    assert file.stat().st_size > LENGTHS[3] * 64 * 64  # its frames are in it


def test_an_epoch_with_windows_in_time(root, open_dataset):
    windows = {"action": [i / FPS for i in range(4)], "observation.state": [-0.05, 0.0], CAMERA: [-0.05, 0.0]}
    dataset = open_dataset(root, delta_timestamps=windows, tolerance_s=1e-4)
    loader = torch.utils.data.DataLoader(dataset, batch_size=5, shuffle=True, num_workers=0)
    seen = []
    for batch in loader:
        count = len(batch["index"])
        assert batch["action"].shape == (count, 4, 7)
        assert batch[CAMERA].shape == (count, 2, 3, 64, 64)
        seen += batch["index"].tolist()
        for row in range(count):
            # A window that reaches over an episode's end holds its last frame, and says so.
            left = LENGTHS[batch["episode_index"][row]] - int(batch["frame_index"][row])
            assert batch["action_is_pad"][row].tolist() == [step >= left for step in range(4)]
            last = batch["action"][row, min(left, 4) - 1]
            assert all(torch.equal(batch["action"][row, step], last) for step in range(left, 4))
    assert sorted(seen) == list(range(sum(LENGTHS)))


def test_lerobots_act_policy_trains_on_it(root, open_dataset):
    from lerobot.configs import FeatureType
    from lerobot.datasets.dataset_metadata import LeRobotDatasetMetadata
    from lerobot.datasets.factory import resolve_delta_timestamps
    from lerobot.policies.act.configuration_act import ACTConfig
    from lerobot.policies.act.modeling_act import ACTPolicy
    from lerobot.policies.factory import make_pre_post_processors
    from lerobot.utils.feature_utils import dataset_to_policy_features

    meta = LeRobotDatasetMetadata("local/set", root=root)
    features = dataset_to_policy_features(meta.features)
    config = ACTConfig(
        input_features={name: ft for name, ft in features.items() if ft.type is not FeatureType.ACTION},
        output_features={name: ft for name, ft in features.items() if ft.type is FeatureType.ACTION},
        device="cpu",
        push_to_hub=False,
        pretrained_backbone_weights=None,
        chunk_size=4,
        n_action_steps=4,
        dim_model=32,
        n_heads=2,
        dim_feedforward=64,
        n_encoder_layers=1,
        n_vae_encoder_layers=1,
    )
    dataset = open_dataset(root, delta_timestamps=resolve_delta_timestamps(config, meta))
    torch.manual_seed(0)
    policy = ACTPolicy(config)
    policy.train()
    prepare, _ = make_pre_post_processors(config, dataset_stats=dataset.meta.stats)
    optimizer = torch.optim.AdamW(policy.get_optim_params(), lr=1e-4)
    before = [parameter.detach().clone() for parameter in policy.parameters()]
    loader = torch.utils.data.DataLoader(dataset, batch_size=4, shuffle=True)
    for batch in itertools.islice(loader, 3):
        ready = prepare(batch)
        assert ready["observation.state"].abs().max() < 10  # normalised by our statistics
        loss, _ = policy(ready)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert math.isfinite(loss.item())
    assert any(not torch.equal(a, b) for a, b in zip(before, policy.parameters(), strict=True))
