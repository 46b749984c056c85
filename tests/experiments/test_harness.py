"""The parts that experiments share."""

import hydra.version
import pytest
import torch

from experiments import harness
from mimicpipe.errors import ConfigError

QUICK = ("env=kinematic", "pool=scripted", "pool.num_demos=2", "recorder=none")


@pytest.fixture(autouse=True)
def _hydra_1_3():
    hydra.version.setbase("1.3")


def test_compose_gives_the_config_of_the_command_line():
    config = harness.compose("task=stack", "env.num_envs=7", "pool=scripted")
    assert (config.task["name"], config.env["num_envs"]) == ("stack", 7)
    with pytest.raises(ConfigError, match="task=pikc"):
        harness.compose("task=pikc")


def test_the_same_parts_generate_the_same_run_again():
    with harness.built(*QUICK, "env.num_envs=3", "num_demos=5", "max_attempts=5") as parts:
        first, second = harness.run_pipeline(parts), harness.run_pipeline(parts)
    assert first.state.budget.attempts == second.state.budget.attempts == 5
    assert first.until_generated.env_steps == second.until_generated.env_steps > 0
    assert first.until_generated.wall_s <= first.until_written.wall_s
    assert first.recorder == {}


def test_torch_threads_are_put_back():
    before = torch.get_num_threads()
    with harness.torch_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def test_the_machine_is_described_in_one_line():
    described = harness.describe_machine()
    line = harness.machine_line(described)
    assert described["cpu"] in line
    assert f"torch {torch.__version__.split('+')[0]}" in line
    assert "\n" not in line


def test_a_table_is_as_wide_as_its_header():
    lines = harness.markdown_table(("a", "b"), [("1", "2"), ("3", "4")]).splitlines()
    assert lines == ["| a | b |", "| --- | ---: |", "| 1 | 2 |", "| 3 | 4 |"]


def test_the_source_hash_is_of_the_sources(monkeypatch, tmp_path):
    for name in ("mimicpipe", "conf"):
        (tmp_path / name).mkdir()
    source = tmp_path / "mimicpipe" / "a.py"
    source.write_text("x = 1\n")
    monkeypatch.setattr(harness, "ROOT", tmp_path)
    monkeypatch.setattr(harness, "CONF", tmp_path / "conf")
    before = harness.source_hash()
    (tmp_path / "mimicpipe" / "a.pyc").write_text("ignored")
    assert harness.source_hash() == before
    source.write_text("x = 2\n")
    assert harness.source_hash() != before
