"""What a command line with env=isaaclab must keep to; nothing here imports Isaac Lab."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from mimicpipe import build
from mimicpipe.cli import check_command_line
from mimicpipe.config import check
from mimicpipe.datagen.subtask import DataGenConfig
from mimicpipe.envs.base import TaskSettings
from mimicpipe.errors import ConfigError
from mimicpipe.isaaclab_config import ISAACLAB_TASK
from mimicpipe.preflight import BUNDLED_DEMOS, source_demo_paths

CONF = Path(__file__).parents[3] / "conf"


def composed(*overrides: str):
    from hydra import compose, initialize_config_dir

    with initialize_config_dir(config_dir=str(CONF), version_base="1.3"):
        return compose("config", ["dataset.root=x", "tracker=none", *overrides])


def fault(*overrides: str) -> str:
    with pytest.raises(ConfigError) as raised:
        check(composed(*overrides))
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_the_env_brings_its_task_and_the_bundled_demos_serve_it():
    config = check(composed("env=isaaclab"))
    assert config.task["_target_"] == ISAACLAB_TASK
    assert config.task["subtasks"] == {}
    assert config.dataset.repo_id == "local/Mimicpipe-Pick-Panda-IK-Rel-Mimic-v0"
    assert source_demo_paths(config) == [BUNDLED_DEMOS / "pick.hdf5"]
    with pytest.raises(ConfigError, match="no source demos come with task Isaac-Stack"):
        source_demo_paths(check(composed("env=isaaclab_stack")))


def test_a_task_of_another_simulator_is_refused():
    assert fault("env=isaaclab", "task=stack") == (
        "env=isaaclab: its task is env.task=Mimicpipe-Pick-Panda-IK-Rel-Mimic-v0; use task=isaaclab, not stack"
    )
    assert "use it with env=isaaclab" in fault("task=isaaclab")
    assert "use it with env=isaaclab" in fault("task=isaaclab", "env=kinematic")


def test_a_package_that_would_be_imported_must_be_allowed():
    assert "mine would be imported; add it to allowed_targets first" in fault("env=isaaclab", "env.task=mine:Id-v0")
    assert check(composed("env=isaaclab", "env.task=mine:Id-v0", "allowed_targets=[mine]", "task.name=id"))


def test_wrong_values_are_one_line():
    assert "env.configure=function: expected a mapping" in fault("env=isaaclab", "env.configure=function")
    assert "only classes of mimicpipe are built" in fault("env=isaaclab", "env.configure={_target_: os.system}")
    assert "env.env_spacing=-1" in fault("env=isaaclab", "env.env_spacing=-1")


@pytest.mark.skipif(find_spec("isaaclab") is not None, reason="isaaclab is installed, so nothing is missing")
def test_a_missing_extra_is_named_with_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"env=isaaclab: needs the extra isaaclab .* `make isaaclab` makes"):
        check_command_line(["env=isaaclab"], CONF)
    assert list(tmp_path.iterdir()) == []


def test_where_the_task_names_no_subtasks_those_of_the_env_count():
    config = check(composed("env=kinematic", "task=pick", "task.datagen.settle_steps=7", "env.num_envs=1", "pool=hdf5"))
    subtasks = build.build_subtasks(config)
    config.task["subtasks"] = {}
    env = build.build_env(config)
    env.task_settings = TaskSettings(subtasks, [], DataGenConfig(generation_select_src_per_arm=True))
    pool = build.build_pool(config, env, build.build_subtasks(config))
    assert {eef: list(configs) for eef, configs in pool.subtask_configs.items()} == subtasks
    generator: Any = build.build_generator(config, env, pool)
    assert generator.datagen_cfg == DataGenConfig(generation_select_src_per_arm=True, settle_steps=7)
