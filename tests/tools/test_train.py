"""tools.train and tools.eval on a real run's dataset: from demos to a policy that is played."""

import json

import hydra.version
import pytest

from mimicpipe.tools import eval as eval_tool
from mimicpipe.tools import train as train_tool

SMALL = ["--steps=20", "--batch=16", "--hidden=16"]


@pytest.fixture(scope="module")
def policy(recorded_run, tmp_path_factory):
    hydra.version.setbase("1.3")
    folder = tmp_path_factory.mktemp("trained") / "policy"
    command = [str(recorded_run / "dataset"), "--episodes=4", "--seed=3", f"--out={folder}", *SMALL]
    assert train_tool.main(command) == 0
    return folder


def test_a_checkpoint_knows_its_data_and_its_run(policy, recorded_run):
    notes = json.loads((policy / "policy.json").read_text())
    assert (notes["policy"], notes["dataset"]["episodes"], notes["training"]["seed"]) == ("bc", 4, 3)
    assert notes["config"]["env"]["_target_"] == "mimicpipe.envs.kinematic.KinematicEnv"
    rows = [json.loads(line) for line in (recorded_run / "attempts.jsonl").read_text().splitlines()]
    assert notes["dataset"]["attempt_seeds"] == [row["seed"] for row in rows if row["success"]][:4]
    assert notes["names"]["observation.eef_pose"] == ["x", "y", "z", "qw", "qx", "qy", "qz"]


def test_the_same_seed_gives_the_same_bytes(policy, recorded_run, tmp_path):
    again, other = tmp_path / "again", tmp_path / "other"
    for folder, seed in ((again, 3), (other, 4)):
        command = [str(recorded_run / "dataset"), "--episodes=4", f"--seed={seed}", f"--out={folder}", *SMALL]
        assert train_tool.main(command) == 0
    weights = [(folder / "weights.safetensors").read_bytes() for folder in (policy, again, other)]
    assert weights[0] == weights[1] != weights[2]


def test_it_is_played_and_the_episodes_are_the_same_at_every_num_envs(policy, tmp_path, capsys):
    reports = []
    for num_envs in (1, 4):
        out = tmp_path / f"{num_envs}.json"
        command = [str(policy), f"env.num_envs={num_envs}", "--episodes=5", "--max-steps=12", f"--out={out}"]
        assert eval_tool.main(command) == 0
        reports.append(json.loads(out.read_text()))
    assert [report.pop("num_envs") for report in reports] == [1, 4]
    assert reports[0] == reports[1]
    assert (reports[0]["episodes"], reports[0]["trained_on"], reports[0]["task"]) == (5, 4, "pick")
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith(f"| pick D0 | bc | 4 demos | {reports[0]['successes']} of 5 |")


def test_the_report_lies_beside_the_policy(policy):
    assert eval_tool.main([str(policy), "--episodes=2", "--max-steps=3", "env.num_envs=2"]) == 0
    assert json.loads((policy / "eval.json").read_text())["reasons"] == {"not_successful": 2}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seed=0"], "the dataset was generated with this seed"),
        (["env.num_envs=0"], "env.num_envs"),
        (["task.variant=D7"], "task.variant=D7"),
    ],
)
def test_what_cannot_be_played_is_a_line(policy, arguments, said, capsys):
    assert eval_tool.main([str(policy), "--episodes=2", "--max-steps=2", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert said in error
    assert len(error.splitlines()) == 1


def test_other_keys_are_refused(policy):
    with pytest.raises(SystemExit, match="2"):
        eval_tool.main([str(policy), "task.name=stack"])


def test_no_checkpoint_is_a_line(tmp_path, capsys):
    assert eval_tool.main([str(tmp_path / "none")]) == 2
    assert "no such folder" in capsys.readouterr().err
    assert eval_tool.main([str(tmp_path)]) == 2
    assert "no checkpoint (no policy.json" in capsys.readouterr().err
    (tmp_path / "config.json").write_text('{"type": "act"}')  # LeRobot's alone
    assert eval_tool.main([str(tmp_path)]) == 2
    assert "--run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--episodes=9"], "--episodes 9"),
        (["--chunk=3", "--executed=4"], "executed=4"),
        (["--out={policy}"], "is there already"),
        (["--run={tmp}"], "no output folder of a run"),
    ],
)
def test_what_cannot_be_trained_is_a_line(recorded_run, policy, tmp_path, arguments, said, capsys):
    words = [word.format(policy=policy, tmp=tmp_path) for word in arguments]
    if not any("--out" in word for word in words):
        words.append(f"--out={tmp_path / 'new'}")
    assert train_tool.main([str(recorded_run / "dataset"), *words, *SMALL]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_dataset_outside_of_a_run_needs_one(tmp_path, capsys):
    assert train_tool.main([str(tmp_path / "dataset")]) == 2
    assert "--run" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--steps=0"], ["--", "--policy.chunk_size=5"], ["--policy=gpt"]])
def test_wrong_arguments_are_refused(recorded_run, words):
    with pytest.raises(SystemExit, match="2"):
        train_tool.main([str(recorded_run / "dataset"), *words])
