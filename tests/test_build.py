"""The parts of a run, built from its config."""

import json
from pathlib import Path
from types import SimpleNamespace

import h5py
import hydra.version
import numpy as np
import pytest

from mimicpipe import build
from mimicpipe.cli import check_command_line
from mimicpipe.config import RunConfig
from mimicpipe.datagen.generator import DataGenerator
from mimicpipe.errors import ConfigError, SourceDemoError
from mimicpipe.preflight import BUNDLED_DEMOS
from mimicpipe.recorders.async_lerobot import AsyncLeRobotRecorder
from mimicpipe.recorders.lerobot import LeRobotRecorder

CONF = Path(__file__).parents[1] / "conf"
EXPERIMENTS = sorted(path.stem for path in (CONF / "experiment").glob("*.yaml"))


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    hydra.version.setbase("1.3")
    monkeypatch.chdir(tmp_path)


def config_of(*argv: str) -> RunConfig:
    return check_command_line(argv, CONF)[0].config


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_built(name):
    config = config_of("-m", f"experiment={name}")
    env = build.build_env(config)
    try:
        pool = build.build_pool(config, env, build.build_subtasks(config))
        generator = build.build_generator(config, env, pool)
        recorders = build.build_recorders(config, env)
    finally:
        env.close()
    assert callable(getattr(generator, "generate", None))
    assert all(callable(recorder.commit) for recorder in recorders.all())


@pytest.mark.parametrize("task", ["pick", "stack"])
def test_the_bundled_demos_fit_every_task(task):
    config = config_of(f"task={task}", "env=kinematic")
    env = build.build_env(config)
    pool = build.build_pool(config, env, build.build_subtasks(config))
    assert pool.num_datagen_infos == 10
    assert pool.skipped == []


STRATEGY = "task.subtasks.panda.0.selection_strategy"


def write_strategies(folder: Path, name: str) -> None:
    (folder / f"{name}.py").write_text(
        "import numpy as np\n"
        "def last(context, back=1):\n"
        "    return context.num_demos - back\n"
        "class Always:\n"
        "    def __init__(self, demo):\n"
        "        self.demo = demo\n"
        "    def __call__(self, context):\n"
        "        return np.full(len(context.num_demos), self.demo)\n"
        "number = 3\n"
    )


def test_any_function_or_class_is_a_selection_strategy(tmp_path, monkeypatch):
    write_strategies(tmp_path, "own_strategies")
    monkeypatch.syspath_prepend(tmp_path)
    own = ("env=kinematic", "allowed_targets=[own_strategies]")
    kwargs = "task.subtasks.panda.0.selection_strategy_kwargs"

    def strategy(node: str, *more: str):
        config = config_of(*own, f"{STRATEGY}={node}", f"{kwargs}={{nn_k:null}}", *more)
        config.task["subtasks"]["panda"][0]["selection_strategy_kwargs"] = {}
        return build.build_subtasks(config)["panda"][0].selection_strategy

    context = SimpleNamespace(num_demos=np.asarray([4, 9]))
    assert strategy("{_target_:own_strategies.last}")(context).tolist() == [3, 8]
    assert strategy("{_target_:own_strategies.last,back:2}")(context).tolist() == [2, 7]
    assert strategy("{_target_:own_strategies.Always,demo:1}")(context).tolist() == [1, 1]
    named = strategy("{_target_:mimicpipe.datagen.selection.random_strategy}")
    assert named is build.get_object("mimicpipe.datagen.selection.random_strategy")
    for node, message in (
        ("{_target_:own_strategies.missing}", r"selection_strategy\._target_=own_strategies\.missing: no such class"),
        ("{_target_:own_strategies.number}", "own_strategies.number: is from , which is not in allowed_targets"),
        ("{_target_:own_strategies.Always}", "own_strategies.Always: Error in call to target"),
    ):
        with pytest.raises(ConfigError, match=message):
            strategy(node)


def test_a_selection_strategy_is_under_the_list_of_allowed_targets():
    with pytest.raises(ConfigError, match=r"selection_strategy\._target_=os\.getcwd: only classes of mimicpipe"):
        config_of(f"{STRATEGY}={{_target_:os.getcwd}}")
    with pytest.raises(ConfigError, match=r"a mapping needs a _target_"):
        config_of(f"{STRATEGY}={{nn_k:3}}")


def test_the_generator_gets_the_task_s_constraints():
    config = config_of("env=kinematic")
    config.task["constraints"] = [
        {"eef_subtask_constraint_tuple": [["panda", 0], ["other", 0]], "constraint_type": "sequential"}
    ]
    env = build.build_env(config)
    pool = build.build_pool(config, env, build.build_subtasks(config))
    with pytest.raises(ConfigError, match=r"task\.constraints\[0\].*no such end effector other; valid: panda"):
        build.build_generator(config, env, pool)


def test_skillgen_s_pool_wants_demos_that_show_where_skills_begin(tmp_path):
    path = tmp_path / "demos.hdf5"
    path.write_bytes((BUNDLED_DEMOS / "pick.hdf5").read_bytes())
    with h5py.File(path, "a") as file:
        del file["data/demo_3/obs/datagen_info/subtask_start_signals"]

    def pool_of(*more: str):
        config = config_of("env=kinematic", "planner=linear", f"pool.path={path}", *more)
        env = build.build_env(config)
        return build.build_pool(config, env, build.build_subtasks(config))

    assert pool_of().num_datagen_infos == 10
    with pytest.raises(SourceDemoError, match=r"demos\.hdf5: demo_3: subtask_start_signals/reach: no such signal"):
        pool_of("generator=skillgen")
    for pool in ("hdf5", "growing"):
        made = pool_of("generator=skillgen", f"pool={pool}", "pool.on_error=skip")
        assert made.num_datagen_infos == 9
        assert len(made.skipped) == 1
        assert "demo_3: subtask_start_signals/reach" in made.skipped[0]
        only = ("generator=skillgen", f"pool={pool}", "pool.on_error=skip", "pool.demo_keys=[demo_3]")
        with pytest.raises(SourceDemoError, match=r"pool: no usable demo, 1 skipped; the first: .*demo_3: subtask_st"):
            pool_of(*only)


def test_source_demos_from_a_folder(tmp_path):
    folder = tmp_path / "demos"
    folder.mkdir()
    for name in ("a.hdf5", "b.hdf5"):
        (folder / name).write_bytes((BUNDLED_DEMOS / "pick.hdf5").read_bytes())
    config = config_of("env=kinematic", f"pool.path={folder}")
    env = build.build_env(config)
    pool = build.build_pool(config, env, build.build_subtasks(config))
    assert pool.num_datagen_infos == 20
    assert {name.split("/")[0] for name in pool.demo_names} == {"a.hdf5", "b.hdf5"}


def test_shared_parts_are_shared():
    config = config_of("env=kinematic", "env.num_envs=3", "pool.max_demos=2", "task.variant=D1")
    env = build.build_env(config)
    pool = build.build_pool(config, env, build.build_subtasks(config))
    generator = build.build_generator(config, env, pool)
    assert isinstance(generator, DataGenerator)
    assert generator.env is env
    assert generator.src_demo_datagen_info_pool is pool
    assert (env.num_envs, pool.num_datagen_infos) == (3, 2)
    assert vars(env)["task"].variant == "D1"


@pytest.mark.parametrize(("option", "kind"), [("sync", LeRobotRecorder), ("async", AsyncLeRobotRecorder)])
def test_recorders(option, kind):
    config = config_of("env=kinematic", f"recorder={option}", "recorder.save_failed=true")
    env = build.build_env(config)
    recorders = build.build_recorders(config, env)
    assert [type(recorder) for recorder in recorders.all()] == [kind, kind]
    assert not Path(config.dataset.root).exists()
    assert build.build_recorders(config_of("env=kinematic", "recorder=none"), env).all() == []


def test_trackers(tmp_path):
    trackers = build.build_trackers(config_of("env=kinematic", "tracker=none"), tmp_path)
    trackers.log({"a": 1.0}, 1, 0.5)
    trackers.close({}, 0)
    assert json.loads((tmp_path / "metrics.jsonl").read_text())["a"] == 1.0


class Base:
    def __init__(self, size: int, color: str = "red"):
        self.size, self.color = size, color


class Derived(Base):
    def __init__(self, shape: str, *rest: int, **others):
        super().__init__(**others)


def test_parameters_go_through_to_the_base_class():
    parameters, takes_all = build.parameters_of(Derived)
    assert (list(parameters), takes_all) == (["shape", "size", "color"], False)
    parameters, takes_all = build.parameters_of(lambda a, *, b=1, **others: None)
    assert (list(parameters), takes_all) == (["a", "b"], True)
