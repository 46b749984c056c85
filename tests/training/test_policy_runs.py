"""`generator=policy`: a checkpoint's own successful rollouts as a dataset, and what is told of one that cannot play."""

import json
import sys
from pathlib import Path

import hydra.version
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from in_process import ROOT, run_main
from same_files import different_files

from mimicpipe.cli import check_command_line
from mimicpipe.errors import ConfigError
from mimicpipe.tools import train
from mimicpipe.training import kinds

pytestmark = pytest.mark.timeout(180)  # imports, and a policy that is trained
KINEMATIC = ("env=kinematic", "tracker=none", "preview=false")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("taught")
    taught = [*KINEMATIC, "recorder=async", "num_demos=40", "seed=1", f"hydra.run.dir={folder / 'run'}"]
    assert run_main(taught, folder) == 0
    settings = ["--steps=600", "--hidden=64", f"--out={folder / 'bc'}"]
    assert train.main([str(folder / "run" / "dataset"), *settings]) == 0
    return folder / "bc"


def play(folder: Path, checkpoint: Path, *overrides: str) -> int:
    arguments = [*KINEMATIC, "generator=policy", f"generator.checkpoint={checkpoint}", "task.max_episode_steps=120"]
    return run_main(
        [*arguments, "num_demos=2", "max_attempts=12", *overrides, f"hydra.run.dir={folder}"], folder.parent
    )


def test_what_a_policy_does_well_is_a_dataset_the_same_at_every_num_envs(checkpoint, tmp_path):
    rows = {}
    for num_envs in (1, 4):
        folder = tmp_path / str(num_envs)
        assert play(folder, checkpoint, f"env.num_envs={num_envs}") == 0
        rows[num_envs] = [json.loads(line) for line in (folder / "attempts.jsonl").read_text().splitlines()]
    assert sum(row["success"] for row in rows[1]) == 2
    assert all(row["source_demos"] == [] for row in rows[1])
    assert [{**row, "slot": 0} for row in rows[1]] == [{**row, "slot": 0} for row in rows[4]]
    assert different_files(tmp_path / "1" / "dataset", tmp_path / "4" / "dataset") == []
    run = json.loads((tmp_path / "4" / "run.json").read_text())
    assert run["choices"]["generator"] == "policy"
    assert not {"pool", "planner"} & set(run["choices"])  # neither is used
    assert (tmp_path / "4" / "report.html").stat().st_size > 10_000


def test_one_of_another_simulator_is_a_line_and_nothing_is_written(checkpoint, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        play(tmp_path / "run", checkpoint, "task=stack")
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert "the policy was trained with observation.environment_state = " in line
    assert "play it in the task, env and env.control that its dataset came from" in line
    assert not (tmp_path / "run" / "dataset").exists()
    assert not (tmp_path / "run" / "attempts.jsonl").exists()


def fault(monkeypatch, tmp_path: Path, *overrides: str) -> str:
    hydra.version.setbase("1.3")
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ConfigError) as raised:
        check_command_line([*KINEMATIC, "generator=policy", *overrides], ROOT / "conf")
    assert sorted(tmp_path.rglob("*")) == before
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (None, "no such folder; make a checkpoint with python -m mimicpipe.tools.train"),
        ({}, "no checkpoint (no policy.json, and none of LeRobot's"),
        ({"policy.json": "{"}, "policy.json: cannot be read (JSONDecodeError"),
        ({"policy.json": "{}"}, "policy.json: cannot be read (KeyError: 'policy')"),
        ({"policy.json": '{"policy": "vla"}'}, "a policy of type vla; bc, act, diffusion can be played"),
        ({"config.json": '{"type": "pi0"}'}, "a policy of type pi0; bc, act, diffusion can be played"),
        ({"config.json": '{"type": "diffusion"}'}, "needs diffusers; install the extra: pip install -e '.[train]'"),
    ],
)
def test_what_cannot_be_played_is_told_before_anything_is_made(files, said, tmp_path, monkeypatch):
    monkeypatch.setattr(kinds, "find_spec", lambda name: None if name == "diffusers" else True)
    if files is not None:
        (tmp_path / "bc").mkdir()
        for name, text in files.items():
            (tmp_path / "bc" / name).write_text(text)
    message = fault(monkeypatch, tmp_path, "generator.checkpoint=bc")
    assert message.startswith("generator.checkpoint=bc: bc")
    assert said in message


def test_a_checkpoint_must_be_named(tmp_path, monkeypatch):
    message = fault(monkeypatch, tmp_path)
    assert message == "generator.checkpoint=???: a value is required; give it with generator.checkpoint=..."


def test_the_network_s_device_is_checked(checkpoint, tmp_path, monkeypatch):
    message = fault(monkeypatch, tmp_path, f"generator.checkpoint={checkpoint}", "generator.device=gpu")
    assert message == "generator.device=gpu: expected cpu, cuda or cuda:N"
