"""LeRobot's policies: the command line that trains them, and their checkpoints in many slots."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch

from mimicpipe.errors import ConfigError
from mimicpipe.training import lerobot_training
from mimicpipe.training.kinds import last_checkpoint
from mimicpipe.training.lerobot_training import LeRobotJob, check_installed

sys.path.insert(0, str(Path(__file__).parents[1]))

from in_process import run_main


def job(policy: str = "act", *, has_cameras: bool = False) -> LeRobotJob:
    return LeRobotJob(
        policy, Path("/data/pick"), episodes=3, out=Path("out"), steps=7, batch=8, seed=1, device="cpu",
        has_cameras=has_cameras,
    )  # fmt: skip


def test_the_command_line():
    words = dict(word.split("=", 1) for word in job().arguments())
    assert words["--dataset.root"] == "/data/pick"
    assert words["--dataset.episodes"] == "[0,1,2]"
    assert (words["--policy.type"], words["--policy.push_to_hub"], words["--save_freq"]) == ("act", "false", "7")
    assert words["--policy.dim_model"] == "128"
    assert "--policy.dim_model" not in dict(word.split("=", 1) for word in job(has_cameras=True).arguments())
    assert dict(word.split("=", 1) for word in job("diffusion").arguments())["--policy.noise_scheduler_type"] == "DDIM"


def test_what_is_given_wins():
    words = job().arguments(["--batch_size=2", "--policy.dim_model=64"])
    assert [word for word in words if word.startswith(("--batch_size", "--policy.dim_model"))] == [
        "--batch_size=2", "--policy.dim_model=64",
    ]  # fmt: skip


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr(lerobot_training, "find_spec", lambda name: None if name == "diffusers" else True)
    check_installed("act")
    with pytest.raises(ConfigError, match=r"--policy diffusion: needs diffusers; install the extra"):
        check_installed("diffusion")


def test_the_last_checkpoint_is_the_one_with_the_most_steps(tmp_path):
    with pytest.raises(ConfigError, match="no checkpoint"):
        last_checkpoint(tmp_path)
    for step in ("000200", "001000", "last"):
        (tmp_path / "checkpoints" / step / "pretrained_model").mkdir(parents=True)
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoints" / "001000" / "pretrained_model"


needs_extra = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("accelerate", "diffusers")), reason="needs the extra train"
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded") / "run"
    arguments = ["env=kinematic", "env.num_envs=3", "tracker=none", "num_demos=3", "preview=false"]
    assert run_main([*arguments, f"hydra.run.dir={folder}"], folder.parent) == 0
    return folder / "dataset"


@pytest.fixture(scope="module", params=["act", "diffusion"])
def trained(request, dataset):
    from mimicpipe.tools import train

    out = dataset.with_name(request.param)
    assert train.main([str(dataset), f"--policy={request.param}", "--steps=2", "--batch=4", f"--out={out}"]) == 0
    return out


@needs_extra
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_lerobots_policies_are_trained_and_played(trained, tmp_path):
    from mimicpipe.tools import eval as eval_tool

    assert json.loads((trained / "policy.json").read_text())["policy"] == trained.name
    out = tmp_path / "eval.json"
    command = [str(trained), "--episodes=3", "--max-steps=20", "env.num_envs=2", f"--out={out}"]
    assert eval_tool.main(command) == 0
    report = json.loads(out.read_text())
    assert (report["policy"], report["reasons"]) == (trained.name, {"not_successful": 3})


# Not diffusion, whose first noise is drawn from the attempt's seed here, and from torch's generator there.
@pytest.mark.parametrize("trained", ["act"], indirect=True)
@needs_extra
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_slot_acts_as_lerobots_policy_alone_would(trained, dataset):
    """Two slots out of step give what LeRobot's own queue gives for each of them."""
    import numpy as np

    from mimicpipe.tools.replaying import read_columns
    from mimicpipe.training.lerobot_policy import LeRobotPolicy

    ours = LeRobotPolicy(last_checkpoint(trained))
    alone = LeRobotPolicy(last_checkpoint(trained))
    columns = read_columns(dataset, 0, 40)
    frames = [{name: torch.from_numpy(columns[name][i : i + 1]) for name in ours._features} for i in range(40)]
    expected = []
    alone._policy.reset()
    for frame in frames:
        expected.append(alone._after(alone._policy.select_action(alone._before(dict(frame)))))
    for step in range(35):
        slots = np.array([2, 5]) if step >= 5 else np.array([2])
        at = [step, step - 5][: len(slots)]
        both = {name: torch.cat([frames[i][name] for i in at]) for name in ours._features}
        actions = ours.act(slots, np.array([1, 2])[: len(slots)], np.array(at), both)
        for row, i in enumerate(at):
            torch.testing.assert_close(actions[row], expected[i][0].float(), atol=1e-4, rtol=1e-4)


@needs_extra
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_rollout_is_a_function_of_the_attempts_seed(trained, dataset):
    import numpy as np

    from mimicpipe.tools.replaying import read_columns
    from mimicpipe.training.lerobot_policy import LeRobotPolicy

    policy = LeRobotPolicy(last_checkpoint(trained))
    columns = read_columns(dataset, 0, 1)
    seen = {name: torch.from_numpy(columns[name]).repeat(3, 1) for name in policy._features}
    together = policy.act(np.array([0, 1, 2]), np.array([7, 8, 7]), np.array([0, 0, 0]), seen)
    one = {name: values[:1] for name, values in seen.items()}
    alone = policy.act(np.array([4]), np.array([7]), np.array([0]), one)
    torch.testing.assert_close(together[0], alone[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(together[2], alone[0], atol=1e-5, rtol=1e-5)
    assert trained.name == "act" or not torch.allclose(together[1], alone[0])
