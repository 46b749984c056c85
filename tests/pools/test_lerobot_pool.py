"""Source demos from datasets that this package's recorders have written, in real runs."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from mimicpipe import build
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.segments import find_boundaries
from mimicpipe.datagen.subtask import SubTaskConfig
from mimicpipe.envs.kinematic import KinematicEnv
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.tasks.pick import PickTask
from mimicpipe.envs.tasks.stack import StackTask
from mimicpipe.errors import SourceDemoError
from mimicpipe.pools.hdf5 import Hdf5Pool
from mimicpipe.pools.lerobot import LeRobotPool
from mimicpipe.preflight import BUNDLED_DEMOS
from mimicpipe.tools.saved_run import saved_config

sys.path.insert(0, str(Path(__file__).parents[1]))

from in_process import run_main

FAST = ["tracker=none", "preview=false", "env.num_envs=2"]
STACK = {
    "panda": [
        SubTaskConfig(object_ref="cubeA", subtask_term_signal="grasp", subtask_start_signal="reach"),
        SubTaskConfig(object_ref="cubeB", subtask_start_signal="carry"),
    ]
}
PICK = {"panda": [SubTaskConfig(object_ref="cube", subtask_term_signal="grasp"), SubTaskConfig(object_ref="cube")]}


@pytest.fixture(scope="module")
def stack_run(tmp_path_factory):
    """Three stacks of env=kinematic."""
    folder = tmp_path_factory.mktemp("stack") / "run"
    arguments = ["env=kinematic", "task=stack", "num_demos=3", f"hydra.run.dir={folder}", *FAST]
    assert run_main(arguments, folder.parent) == 0
    return folder


@pytest.fixture(scope="module")
def pick_run(tmp_path_factory):
    """Two picks of env=mujoco."""
    folder = tmp_path_factory.mktemp("pick") / "run"
    assert run_main(["num_demos=2", f"hydra.run.dir={folder}", *FAST], folder.parent) == 0
    return folder


@pytest.fixture
def root(stack_run, tmp_path):
    """A copy of the dataset of stacks, to be changed."""
    return shutil.copytree(stack_run / "dataset", tmp_path / "dataset")


@pytest.fixture(scope="module")
def env():
    return KinematicEnv(StackTask("D0"), num_envs=2)


def load(root, env, **options: Any):
    return LeRobotPool(root, **options).load(env, STACK).demos


def change_info(root, **features: dict[str, Any]):
    path = root / "meta" / "info.json"
    info = json.loads(path.read_text())
    for name, change in features.items():
        info["features"][name.replace("__", ".")] |= change
    path.write_text(json.dumps(info))


def change_frames(root, change):
    path = next((root / "data").glob("*/*.parquet"))
    pq.write_table(change(pq.read_table(path)), path)


def with_column(table, name, rows):
    index = table.column_names.index(name)
    return table.set_column(index, name, pa.array(np.asarray(rows, np.float32).tolist(), table.schema.field(name).type))


# -- what is read


def test_features_give_what_playing_the_actions_gives(stack_run, env):
    """Poses, targets and signals that are worked out from columns are those of the simulator itself."""
    read, played = (load(stack_run / "dataset", env, poses=poses) for poses in ("features", "replay"))
    assert [demo.name for demo in read] == [demo.name for demo in played] == ["episode_0", "episode_1", "episode_2"]
    for a, b in zip(read, played, strict=True):
        assert torch.equal(a.actions, b.actions)
        assert torch.equal(a.initial_state, b.initial_state)
        for field in ("eef_pose", "object_poses", "target_eef_pose", "gripper_action"):
            ours, theirs = getattr(a.info, field), getattr(b.info, field)
            assert set(ours) <= set(theirs)
            for name, value in ours.items():
                torch.testing.assert_close(value, theirs[name], atol=2e-6, rtol=0.0)
        for field in ("subtask_term_signals", "subtask_start_signals"):
            ours, theirs = getattr(a.info, field), getattr(b.info, field)
            assert set(ours) == set(theirs)
            assert all(torch.equal(value, theirs[name]) for name, value in ours.items())
        assert b.states is not None
        assert b.states.shape[0] == a.actions.shape[0]


def test_joint_positions_give_poses(pick_run):
    env = MujocoEnv(PickTask("D0"), num_envs=1)
    try:
        read, fk = (
            LeRobotPool(pick_run / "dataset", poses=poses).load(env, PICK).demos for poses in ("features", "fk")
        )
        for a, b in zip(read, fk, strict=True):
            torch.testing.assert_close(a.info.eef_pose["panda"], b.info.eef_pose["panda"], atol=1e-6, rtol=0.0)
            assert torch.equal(a.info.subtask_term_signals["grasp"], b.info.subtask_term_signals["grasp"])
    finally:
        env.close()


@pytest.mark.parametrize("task", ["drawer_cleanup", "bimanual_lift"])
def test_parts_and_two_arms(task, tmp_path):
    """Joints of parts among the objects' elements, and elements of two arms with their names in front."""
    out = tmp_path / "run"
    arguments = [f"task={task}", "num_demos=1", "max_attempts=6", f"hydra.run.dir={out}", *FAST]
    assert run_main(arguments, tmp_path) == 0
    config = saved_config(out)
    env, subtasks = build.build_env(config), build.build_subtasks(config)
    try:
        ((played,), *others) = (
            LeRobotPool(out / "dataset", poses=poses).load(env, subtasks).demos
            for poses in ("replay", "features", "fk")
        )
    finally:
        env.close()
    for (demo,) in others:
        assert torch.equal(demo.actions, played.actions)
        for field in ("eef_pose", "object_poses", "target_eef_pose", "gripper_action"):
            for name, value in getattr(demo.info, field).items():
                torch.testing.assert_close(value, getattr(played.info, field)[name], atol=2e-6, rtol=0.0)
        for name, signal in demo.info.subtask_term_signals.items():
            assert torch.equal(signal, played.info.subtask_term_signals[name])


def test_targets_may_be_where_the_eef_is_next(stack_run, env):
    for demo in load(stack_run / "dataset", env, targets="next_pose"):
        pose, target = demo.info.eef_pose["panda"], demo.info.target_eef_pose["panda"]
        assert torch.equal(target[:-1], pose[1:])
        assert torch.equal(target[-1], pose[-1])
        # The actions lead there.
        assert demo.actions.shape == (len(pose), env.action_dim)
        torch.testing.assert_close(demo.actions[:, :3] * 0.05, target[:, :3, 3] - pose[:, :3, 3], atol=1e-6, rtol=0.0)


def test_actions_of_another_control_are_converted(stack_run):
    absolute = KinematicEnv(StackTask("D0"), num_envs=1, control="ik_abs")
    relative = KinematicEnv(StackTask("D0"), num_envs=1)
    for a, b in zip(load(stack_run / "dataset", absolute), load(stack_run / "dataset", relative), strict=True):
        assert torch.equal(a.info.target_eef_pose["panda"], b.info.target_eef_pose["panda"])
        assert a.actions.shape[1] == absolute.action_dim
        assert torch.equal(a.actions[:, :3], a.info.target_eef_pose["panda"][:, :3, 3])


def test_elements_are_found_by_name_in_any_order(root, env):
    """A dataset with xyzw quaternions is read right, because its elements are named."""
    before = load(root, env)
    order = [0, 1, 2, 4, 5, 6, 3]
    names = ["x", "y", "z", "qx", "qy", "qz", "qw"]
    rows = np.array(pq.read_table(next((root / "data").glob("*/*.parquet")))["observation.eef_pose"].to_pylist())
    change_frames(root, lambda table: with_column(table, "observation.eef_pose", rows[:, order]))
    change_info(root, observation__eef_pose={"names": names})
    after = load(root, env)
    assert torch.equal(before[0].info.eef_pose["panda"], after[0].info.eef_pose["panda"])
    # Without names the order must be said, and a wrong one gives another pose.
    change_info(root, observation__eef_pose={"names": None})
    assert torch.equal(load(root, env, quaternion="xyzw")[1].info.eef_pose["panda"], before[1].info.eef_pose["panda"])
    wrong = load(root, env, targets="next_pose")[1].info.eef_pose["panda"]
    assert (wrong[:, :3, :3] - before[1].info.eef_pose["panda"][:, :3, :3]).abs().max() > 0.5


def test_bodies_may_have_features_of_their_own(root, env):
    """As in datasets of others: one feature for each object."""
    before = load(root, env)

    def split(table):
        rows = np.array(table["observation.environment_state"].to_pylist(), np.float32)
        for i, name in enumerate(("cubeA", "cubeB")):
            table = table.append_column(f"observation.{name}", pa.array(rows[:, 7 * i : 7 * i + 7].tolist()))
        return table.drop_columns(["observation.environment_state"])

    change_frames(root, split)
    info = json.loads((root / "meta" / "info.json").read_text())
    del info["features"]["observation.environment_state"]
    own = {"dtype": "float32", "shape": [7], "names": None}
    info["features"] |= {"observation.cubeA": own, "observation.cubeB": own}
    (root / "meta" / "info.json").write_text(json.dumps(info))
    after = load(root, env, object_pose={"cubeA": "observation.cubeA", "cubeB": "observation.cubeB"})
    assert all(torch.equal(after[0].info.object_poses[n], before[0].info.object_poses[n]) for n in ("cubeA", "cubeB"))


def test_signals_may_be_features_and_grippers_any_numbers(root, env):
    def change(table):
        actions = np.array(table["action"].to_pylist(), np.float32)
        actions[:, -1] = np.where(actions[:, -1] >= 0, 80.0, 10.0)
        grasp = [[float(i >= 20)] for i in table["frame_index"].to_pylist()]
        return with_column(table, "action", actions).append_column("my.grasp", pa.array(grasp))

    change_frames(root, change)
    info = json.loads((root / "meta" / "info.json").read_text())
    info["features"]["my.grasp"] = {"dtype": "float32", "shape": [1], "names": None}
    (root / "meta" / "info.json").write_text(json.dumps(info))
    for demo in load(root, env, signals={"grasp": "my.grasp"}, gripper_threshold=50.0):
        assert int(demo.info.subtask_term_signals["grasp"].nonzero()[0]) == 20
        assert set(demo.info.gripper_action["panda"].flatten().tolist()) == {-1.0, 1.0}
        assert set(demo.actions[:, -1].tolist()) == {-1.0, 1.0}


def test_which_episodes(stack_run, env):
    root = stack_run / "dataset"
    assert [d.name for d in load(root, env, demo_keys=["episode_2", "episode_0"])] == ["episode_0", "episode_2"]
    assert [d.name for d in load(root, env, max_demos=1)] == ["episode_0"]
    with pytest.raises(SourceDemoError, match=r"unknown demo episode_7; the dataset has episode_0, episode_1"):
        load(root, env, demo_keys=["episode_7"])


def test_several_sources_at_once(stack_run, tmp_path, env):
    file = BUNDLED_DEMOS / "stack.hdf5"
    both = Hdf5Pool([file, stack_run / "dataset"], max_demos=12).load(env, STACK).demos
    assert [d.name for d in both][9:] == ["stack.hdf5/demo_9", "dataset/episode_0", "dataset/episode_1"]
    shutil.copy(file, tmp_path / "b.hdf5")
    shutil.copytree(stack_run / "dataset", tmp_path / "a_dataset")
    folder = LeRobotPool(tmp_path).load(env, STACK).demos
    assert [d.name for d in folder][:4] == ["a_dataset/episode_0", "a_dataset/episode_1", "a_dataset/episode_2",
                                            "b.hdf5/demo_0"]  # fmt: skip
    # A run's output folder holds its dataset, and demos of all fit into one pool.
    assert len(Hdf5Pool(stack_run).load(env, STACK).demos) == 3
    pool = DataGenInfoPool(env, STACK)
    assert pool.add_demos(folder) == 13
    for demo in folder:
        assert find_boundaries(demo.info, STACK["panda"], demo.name)[1] > 10


# -- what is wrong


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eef_pose": "nothing"}, r"episode_0: nothing: no such feature, the dataset has .*observation\.state"),
        ({"eef_pose": "observation.state"}, r"eef_pose: no pose of panda .* in observation\.state; name the feature"),
        ({"object_pose": "observation.eef_pose"}, r"object_pose: no pose of cubeA, cubeB in observation\.eef_pose"),
        ({"action": "observation.state"}, r"are no target poses of an eef, .*use pool\.targets=next_pose"),
        ({"targets": "next_pose", "gripper": "observation.eef_pose"}, r"no element \.\.\.gripper for each arm"),
        ({"gripper_width": "observation.eef_pose"}, r"no element \.\.\.gripper_width for each arm"),
        ({"signals": {"grasp": "action"}}, r"action: 7 elements, a signal has 1"),
        ({"poses": "fk"}, r"pool\.poses=fk: this env has no joints; use env=mujoco"),
        ({"poses": "guess"}, r"pool\.poses=guess: valid: features, fk, replay"),
    ],
)
def test_wrong_options_are_one_line(stack_run, env, options, message):
    with pytest.raises(SourceDemoError, match=message) as raised:
        load(stack_run / "dataset", env, **options)
    assert "\n" not in str(raised.value)


def _truncate(root):
    path = next((root / "data").glob("*/*.parquet"))
    path.write_bytes(path.read_bytes()[:-100])


def _outside(root):
    path = root / "meta" / "info.json"
    path.write_text(path.read_text().replace("data/chunk", "../data/chunk"))


def _of_version_2(root):
    path = root / "meta" / "info.json"
    path.write_text(path.read_text().replace("v3.0", "v2.1"))


def _other_rate(root):
    path = root / "meta" / "info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"fps": 30}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_truncate, r"file-000\.parquet: cannot be read"),
        (_outside, r"frames lie outside of the dataset"),
        (_of_version_2, r"version v2\.1, expected v3\.0; convert it"),
        (_other_rate, r"recorded at 30 frames per second, this env steps at 20"),
        (lambda root: next((root / "data").glob("*/*.parquet")).unlink(), r"cannot be read .*No such file"),
        (lambda root: shutil.rmtree(root / "meta" / "episodes"), r"holds no episodes"),
        (lambda root: (root / "meta" / "info.json").write_text("{"), r"info\.json: cannot be read"),
        (lambda root: change_frames(root, lambda t: t.slice(0, len(t) - 3)), r"episode_2: \d+ frames .* expected"),
    ],
)
def test_damaged_datasets_are_one_line(root, env, damage, message):
    damage(root)
    with pytest.raises(SourceDemoError, match=message) as raised:
        load(root, env)
    assert "\n" not in str(raised.value)


def test_bad_episodes_are_skipped(root, env):
    """One has NaN, one is recorded as a failure."""
    rows = np.array(pq.read_table(next((root / "data").glob("*/*.parquet")))["observation.eef_pose"].to_pylist())
    rows[3, 0] = np.nan
    change_frames(root, lambda table: with_column(table, "observation.eef_pose", rows))
    episodes = next((root / "meta" / "episodes").glob("*/*.parquet"))
    table = pq.read_table(episodes)
    index = table.column_names.index("mimicpipe/success")
    pq.write_table(table.set_column(index, "mimicpipe/success", pa.array([True, True, False])), episodes)
    read = LeRobotPool(root, on_error="skip").load(env, STACK)
    assert [demo.name for demo in read.demos] == ["episode_1"]
    (first, why), (third, failed) = read.skipped
    assert (first, third) == ("episode_0", "episode_2")
    assert "eef_pose/panda: NaN or infinity at step 3" in why
    assert "recorded as a failure" in failed
    with pytest.raises(SourceDemoError, match="no usable demo, 1 skipped"):
        LeRobotPool(root, demo_keys=["episode_2"], on_error="skip").load(env, STACK)


# -- whole runs


def summary(folder):
    return json.loads((folder / "run.json").read_text())


def sources(folder):
    rows = [json.loads(line) for line in (folder / "attempts.jsonl").read_text().splitlines()]
    return {source["demo"] for row in rows for source in row["source_demos"]}


@pytest.mark.parametrize("poses", ["features", "replay"])
def test_a_dataset_seeds_a_run_without_physics(stack_run, tmp_path, poses):
    out = tmp_path / "out"
    arguments = ["env=kinematic", "task=stack", "pool=lerobot", f"pool.path={stack_run}/dataset", f"pool.poses={poses}"]
    assert run_main([*arguments, "num_demos=6", "max_attempts=12", f"hydra.run.dir={out}", *FAST], tmp_path) == 0
    assert summary(out)["exit_reason"] == "num_demos"
    assert sources(out) <= {"episode_0", "episode_1", "episode_2"}


def test_a_dataset_and_a_file_seed_a_run_with_physics(pick_run, tmp_path):
    out, file = tmp_path / "out", BUNDLED_DEMOS / "pick.hdf5"
    arguments = ["pool=lerobot", f"pool.path=[{pick_run}/dataset,{file}]", "pool.poses=fk", "pool.max_demos=3"]
    assert run_main([*arguments, "num_demos=4", "max_attempts=6", f"hydra.run.dir={out}", *FAST], tmp_path) == 0
    assert summary(out)["exit_reason"] == "num_demos"
    assert sources(out) <= {"dataset/episode_0", "dataset/episode_1", "pick.hdf5/demo_0"}
