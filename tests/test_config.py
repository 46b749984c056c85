"""The groups of conf/ against their schemas and classes, and what a wrong config is answered with."""

import dataclasses
import importlib
from pathlib import Path
from typing import Any

import hydra.version
import pytest
import yaml
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from mimicpipe import config as schemas
from mimicpipe.build import parameters_of
from mimicpipe.cli import check_command_line
from mimicpipe.config import GROUPS, RECORDER_RUN_KEYS, TASK_RUN_KEYS, RunConfig, schema_of
from mimicpipe.errors import ConfigError
from mimicpipe.generator_config import GENERATOR_RUN_KEYS

CONF = Path(__file__).parents[1] / "conf"
LIGHT = ("pool=scripted", "tracker=none")
"""So that no source demos are needed."""

OPTIONS = sorted((path.parent.name, path.stem) for path in CONF.glob("*/*.yaml"))
COMPONENTS = [(group, name) for group, name in OPTIONS if group in GROUPS]


@pytest.fixture(autouse=True)
def _hydra_1_3():
    hydra.version.setbase("1.3")


def checked(*argv: str) -> RunConfig:
    (job,) = check_command_line([*LIGHT, *argv], CONF)
    return job.config


def fault(*argv: str) -> str:
    with pytest.raises(ConfigError) as raised:
        check_command_line([*LIGHT, *argv], CONF)
    message = str(raised.value)
    assert "\n" not in message
    return message


def node(group: str, name: str) -> dict:
    content = yaml.safe_load((CONF / group / f"{name}.yaml").read_text())
    return {key: value for key, value in content.items() if key != "defaults"}  # which is for Hydra


def target_class(group: str, name: str) -> Any:
    module, _, attribute = node(group, name)["_target_"].rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def test_the_defaults_are_the_contract():
    config = checked()
    assert (config.num_demos, config.max_attempts, config.max_failures, config.seed) == (100, None, None, 0)
    assert config.env["num_envs"] == 16
    assert config.env["cameras"] == []
    assert config.recorder["_target_"].endswith("AsyncLeRobotRecorder")
    assert config.dataset.repo_id == "local/pick"
    assert Path(config.dataset.root).name == "dataset"
    assert config.task["hold_steps"] == 10
    assert checked("task=stack").dataset.repo_id == "local/stack"
    defaults = yaml.safe_load((CONF / "config.yaml").read_text())["defaults"]
    chosen = {group: option for entry in defaults if isinstance(entry, dict) for group, option in entry.items()}
    assert chosen == {
        "task": "pick",
        "env": "mujoco",
        "generator": "mimicgen",
        "planner": "rrt",
        "pool": "hdf5",
        "recorder": "async",
        "tracker": "wandb",
        "cluster": "none",
        "experiment": None,
    }


@pytest.mark.parametrize(("group", "name"), COMPONENTS)
def test_every_option_has_a_closed_schema_and_names_every_key(group, name):
    yaml_keys = set(node(group, name))
    schema: Any = schema_of(group, node(group, name)["_target_"])
    assert issubclass(schema, GROUPS[group])
    assert yaml_keys == {field.name for field in dataclasses.fields(schema)}


@pytest.mark.parametrize(("group", "name"), [(g, n) for g, n in COMPONENTS if node(g, n)["_target_"]])
def test_every_key_is_a_parameter_of_its_class(group, name):
    if name == "mujoco_warp":
        pytest.importorskip("warp")  # its class is made of Warp's kernels
    run_keys = {"task": TASK_RUN_KEYS, "recorder": RECORDER_RUN_KEYS, "generator": GENERATOR_RUN_KEYS}.get(group, ())
    keys = set(node(group, name)) - {"_target_", "_convert_"} - set(run_keys)
    parameters, _ = parameters_of(target_class(group, name))
    assert keys <= set(parameters)


@pytest.mark.parametrize("name", [name for group, name in OPTIONS if group == "task" and name != "isaaclab"])
def test_a_tasks_yaml_agrees_with_its_class(name):
    task = target_class("task", name)
    config = node("task", name)
    assert config["name"] == name == task.name
    assert tuple(config["variants"]) == tuple(task.variants)
    assert set(config["subtasks"]) == set(task.eef_names)
    frames = set(task().body_names)
    assert {subtask["object_ref"] for eef in config["subtasks"].values() for subtask in eef} - {None} <= frames


@pytest.mark.parametrize(
    ("schema", "name"), [(schemas.SubtaskConfig, "SubTaskConfig"), (schemas.DatagenConfig, "DataGenConfig")]
)
def test_the_schema_of_subtasks_is_that_of_datagen(schema, name):
    from mimicpipe.datagen import subtask

    ours = {field.name: field for field in dataclasses.fields(schema)}
    theirs = {field.name: field for field in dataclasses.fields(getattr(subtask, name))}
    assert list(ours) == list(theirs)
    built, default = getattr(subtask, name)(**schemas.conform(schema, {})), getattr(subtask, name)()
    assert built == default


def test_selection_strategies_are_those_of_datagen():
    from mimicpipe.datagen.selection import STRATEGIES

    assert set(schemas.Selection.__members__) == set(STRATEGIES)


@pytest.mark.parametrize("name", [name for group, name in OPTIONS if group == "experiment"])
def test_every_experiment_composes(name):
    jobs = check_command_line(["-m", LIGHT[0], f"experiment={name}"], CONF)
    assert jobs
    assert len({job.output_dir for job in jobs}) == len(jobs)


def test_groups_arrive_as_plain_values():
    config = checked("env.num_envs='4'", "env.cameras=[front]", "env.control=ik_abs")
    assert config.env["num_envs"] == 4
    assert type(config.env["cameras"]) is list
    assert type(config.env["control"]) is str
    assert config.env["control"] == "ik_abs"
    assert not OmegaConf.is_config(config.task["subtasks"]["panda"][0])


def test_the_hash_is_that_of_what_is_computed(tmp_path):
    same = {checked("num_demos=3", f"dataset.root={tmp_path / name}").hash() for name in "ab"}
    assert len(same) == 1
    assert checked("num_demos=4").hash() not in same


FAULTS = [
    ("task=pikc", ["task=pikc", "did you mean pick?", "stack"]),
    ("tracker=off", ["tracker=off", "none, tensorboard, wandb"]),
    ("experiment=nope", ["experiment=nope", "determinism"]),
    ("env.num_env=4", ["env.num_env=4", "did you mean num_envs?", "device"]),
    ("tsak=pick", ["tsak=pick", "did you mean task?"]),
    ("++env.foo=3", ["env.foo", "no such key", "num_envs"]),
    ("+dataset.rot=x", ["dataset.rot", "no such key", "did you mean root?"]),
    ("env.num_envs=-1", ["env.num_envs=-1", "an integer >= 1"]),
    ("env.num_envs=1.5", ["env.num_envs=1.5", "an integer >= 1"]),
    ("env.num_envs=null", ["env.num_envs=null", "an integer >= 1"]),
    ("env.num_envs=[1]", ["env.num_envs=[1]", "an integer >= 1"]),
    ("env.num_envs=true", ["env.num_envs=true", "an integer >= 1"]),
    ("recorder.async_queue_maxsize=x", ["recorder.async_queue_maxsize=x", "an integer >= 0"]),
    ("recorder.save_failed=perhaps", ["recorder.save_failed=perhaps", "true or false"]),
    ("env.cameras=[x]", ["env.cameras=[x]", "any of front, wrist"]),
    ("env.cameras=front", ["env.cameras=front", "any of front, wrist"]),
    ("env.image_size=[0,3]", ["env.image_size=[0,3]", "2 integers >= 1"]),
    ("env.control=joint", ["env.control=joint", "one of ik_rel, ik_abs"]),
    ("env.device=gpu", ["env.device=gpu", "cpu, cuda or cuda:N"]),
    ("task.variant=D7", ["task.variant=D7", "D0, D1"]),
    ("task.subtasks.panda.0.action_noise=-1", ["task.subtasks.panda[0].action_noise=-1", "a number >= 0"]),
    ("task.subtasks.panda.0.subtask_term_offset_range=[3,1]", ["[3,1]", "low <= high"]),
    ("task.subtasks.panda.0.selection_strategy=nearest", ["selection_strategy=nearest", "nearest_neighbor_object"]),
    ("+task.subtasks.panda.0.noise=1", ["task.subtasks.panda[0].noise", "action_noise"]),
    ("task.subtasks.panda=3", ["task.subtasks.panda=3", "a list of mappings"]),
    ("task.subtasks.panda.0.action_noise=1.5", ["action_noise=1.5", "a number >= 0 and <= 1"]),
    ("task.hold_steps=601", ["task.hold_steps=601", "task.max_episode_steps=600"]),
    ("task.datagen.settle_steps=700", ["task.datagen.settle_steps=700", "task.max_episode_steps=600"]),
    ("task.subtasks.panda.1.num_fixed_steps=700", ["task.subtasks.panda[1].num_fixed_steps=700", "=600"]),
    ("task.subtasks.panda.0.num_interpolation_steps=700", ["panda[0].num_interpolation_steps=700", "=600"]),
    ("env.num_envs=65537", ["env.num_envs=65537", ">= 1 and <= 65536"]),
    ("num_demos=9007199254740992", ["num_demos=9007199254740992", "<= 9007199254740991"]),
    ("stall_timeout_s=1e7", ["stall_timeout_s=", "a number > 0 and <= 1000000"]),
    ("~task", ["task=null", "task=<option>"]),
    ("num_demos=0", ["num_demos=0", "an integer >= 1"]),
    ("num_demos=???", ["num_demos=???", "a value is required"]),
    ("max_failures=0", ["max_failures=0", ">= 1 or null"]),
    ("seed=-1", ["seed=-1", ">= 0"]),
    ("stall_timeout_s=0", ["stall_timeout_s=0", "a number > 0"]),
    ("stall_timeout_s=.nan", ["stall_timeout_s=", "a number > 0"]),
    ("env.num_envs=${foo}", ["env.num_envs=${foo}", "foo"]),
    ("env.num_envs", ["env.num_envs", "key=value"]),
    ("env.num_envs=[1", ["env.num_envs=[1", "key=value"]),
    ("env.num_envs=1,2", ["env.num_envs=1,2", "-m"]),
    ("env=null", ["env=null", "kinematic, mujoco"]),
    ("~env", ["env=null", "env=<option>"]),
    ("~env.foo", ["~env.foo", "does not exist"]),
    ("dataset=3", ["dataset=3", "a mapping"]),
    ("env@x=mujoco", ["env@x=mujoco"]),
    ("--nope", ["--nope", "--help"]),
    ("--config-name=nope", ["config=nope", "valid: config"]),
    ("--config-dir=/nowhere", ["--config-dir=/nowhere"]),
    ("pool._target_=os.system", ["pool._target_=os.system", "allowed_targets"]),
    ("+task.helper._target_=os.system", ["task.helper._target_=os.system", "allowed_targets"]),
    ("allowed_targets=mine", ["allowed_targets=mine", "a list of strings"]),
]


def test_the_fault_is_named_among_keys_that_exist_only_with_another_option():
    wrong = "task.subtasks.panda.0.selection_strategy_kwargs={nn_kk:1}"
    message = fault("pool=scripted", "pool.seed=1", wrong)
    assert "nn_kk" in message
    assert "did you mean nn_k?" in message
    assert "pool.seed" not in message


@pytest.mark.parametrize(("argument", "words"), FAULTS, ids=[argument for argument, _ in FAULTS])
def test_a_fault_names_key_value_and_choices(argument, words):
    message = fault(argument)
    for word in words:
        assert word in message


def test_a_task_that_needs_contact_is_refused_without_physics():
    assert "task=square needs; use env=mujoco" in fault("env=kinematic", "task=square")
    assert checked("env=kinematic", "task=stack_three").task["name"] == "stack_three"


def test_an_env_that_cannot_render_says_which_can():
    message = fault("env=kinematic", "env.cameras=[front]")
    assert "env.cameras=[front]" in message
    assert "cannot render" in message
    assert "env=mujoco" in message
    assert checked("env=kinematic", "env.cameras=[]").env["cameras"] == []


def test_own_classes_get_their_own_keys():
    config = checked("env._target_=mine.envs.Env", "allowed_targets=[mine.envs]", "+env.wind=3")
    assert config.env["wind"] == 3
    assert "allowed_targets" in fault("env._target_=mineral.Env", "allowed_targets=[mine]")
    assert "env.num_envs=0" in fault("env._target_=mine.Env", "allowed_targets=[mine]", "env.num_envs=0")


def test_checking_leaves_hydra_as_it_was():
    before = HydraConfig.instance().cfg
    checked()
    assert not GlobalHydra.instance().is_initialized()
    assert HydraConfig.instance().cfg is before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pool=lerobot"], "pool.path=???: a value is required"),
        (["pool=lerobot", "pool.path=[]"], "pool.path=[]: expected a path, or a list of paths"),
        (["pool=hdf5", "pool.path=[3]"], "pool.path=[3]: expected a path, or a list of paths"),
        (["planner.timeout_s=1e-9"], "planner.timeout_s=1e-09: expected a number >= 1 and <= 1000000"),
        (["planner.max_speed=1e-9"], "planner.max_speed=1e-09: expected a number >= 0.001 and <= 10"),
        (["pool=scripted", "pool.path=x"], "pool.path=x: no such key; valid: max_demos"),
        (["pool=hdf5", "pool.gripper_scale=0"], "pool.gripper_scale=0: every gripper would stay open"),
        (["pool=hdf5", "pool.frame=[1,2]"], "pool.frame=[1.0,2.0]: expected 3 numbers, or 7 with a wxyz quaternion"),
        (["pool=lerobot", "pool.path=x", "pool.poses=guess"], "pool.poses=guess: expected one of features, fk, replay"),
        (["pool=lerobot", "pool.path=x", "pool.object_pose={}"], "pool.object_pose={}: expected a feature, or"),
        (["pool=lerobot", "pool.path=x", "pool.poses=fk", "env=kinematic"], "pool.poses=fk: env=kinematic has no"),
        (["pool=lerobot", "pool.path=[x,nope.hdf5]"], "pool.path=x: no such file or folder"),
    ],
)
def test_where_source_demos_are(arguments, message):
    assert message in fault(*arguments)


def test_runs_of_an_experiment_are_one_group_of_wandb():
    (job,) = check_command_line(["tracker=wandb", "task=stack", "task.variant=D1"], CONF)
    assert job.config.tracker["group"] == "stack-D1"
    jobs = check_command_line(
        ["-m", "experiment=determinism", "tracker=wandb", "env.num_envs=1,2", "recorder=none"], CONF
    )
    assert [job.config.tracker["group"] for job in jobs] == ["determinism"] * 2
    (job,) = check_command_line(["experiment=determinism", "tracker=wandb", "tracker.group=mine"], CONF)
    assert job.config.tracker["group"] == "mine"
