"""Collecting without a page: what becomes of motions and commands, step by step."""

import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from pick_by_hand import Picker

from mimicpipe import build
from mimicpipe.collect.controls import COMMAND_KEYS, View, motion_of
from mimicpipe.collect.demo_file import DemoFile
from mimicpipe.collect.hub import Hub, PageInput
from mimicpipe.collect.loop import directions, serve
from mimicpipe.collect.session import Rules, Session
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.tasks.catalog import task_classes
from mimicpipe.errors import ConfigError, SourceDemoError
from mimicpipe.pools.hdf5 import read_demos
from mimicpipe.tools.collect import checked_config, env_args, longest_demo

sys.path.insert(0, str(Path(__file__).parents[1]))

from in_process import run_main

VIEW = View(180.0, -34.0)
REST = (0.0,) * 6


@pytest.fixture(scope="module")
def pick_env():
    env = MujocoEnv(task_classes()["pick"](), 1, threads=1)
    yield env
    env.close()


def session_of(env, path, task="pick", **rules):
    config = checked_config([f"task={task}"])
    file = DemoFile(path, env_args(config))
    rules = {"hold_steps": config.task["hold_steps"], "max_steps": longest_demo(config)} | rules
    return Session(env, build.build_subtasks(config), file, Rules(**rules), seed=0)


def look(session):
    return session.state() | directions(VIEW)


def perform(session, ticks=1500):
    """Pick the cube and hold it up; a look every three steps, as a page has it."""
    picker = Picker()
    for _ in range(ticks // 3):
        state = look(session)
        if state["held"] >= state["hold_steps"]:
            return
        keys, tap = picker.next(state)
        if tap:
            assert session.command(COMMAND_KEYS[tap][2]).ok
        for _ in range(3):
            session.tick(motion_of(keys), VIEW)
    raise AssertionError(f"no success: {look(session)}")


def wait_for_rest(session, ticks=200):
    for count in range(ticks):
        if not session.tick(REST, VIEW):
            return count
    raise AssertionError("the clock does not stop")


@pytest.fixture(scope="module")
def collected(pick_env, tmp_path_factory):
    """A file with one demo, its answer, and the state before it was saved."""
    path = tmp_path_factory.mktemp("collected") / "demos" / "pick.hdf5"
    session = session_of(pick_env, path)
    assert session.start().ok
    perform(session)
    state = look(session)
    return path, session.save(), state, session


def test_a_pick_is_saved_with_all_that_generation_needs(collected):
    path, answer, state, session = collected
    assert answer.ok
    assert answer.text == f"Saved demo_0, {state['steps']} steps."
    assert session.recording is None
    (demo,) = read_demos(
        path, eef_names=["panda"], object_names=["cube"], signal_names=["grasp"], gripper_from_actions=None,
        start_signal_names=["reach"], action_dim=7, observations=True,
    ).demos  # fmt: skip
    grasp, reach = demo.info.subtask_term_signals["grasp"], demo.info.subtask_start_signals["reach"]
    assert not grasp[0]
    assert grasp[-1]
    assert 0 < int(reach.nonzero()[0, 0]) < int(grasp.nonzero()[0, 0])
    assert demo.info.length == state["steps"]
    assert set(demo.observations) == set(session._env.observation_features)
    assert session.state()["scene"]["number"] == 1


def test_the_saved_actions_lead_to_the_saved_states_and_to_success(collected, pick_env):
    path = collected[0]
    (demo,) = read_demos(
        path, eef_names=None, object_names=None, signal_names=None, gripper_from_actions=None, observations=True
    ).demos
    assert demo.initial_state is not None
    assert demo.states is not None
    pick_env.set_state(demo.initial_state[None])
    for step in range(demo.info.length):
        assert torch.equal(pick_env.get_state()[0], demo.states[step])
        assert torch.equal(pick_env.get_robot_eef_pose("panda")[0], demo.info.eef_pose["panda"][step])
        pick_env.step(demo.actions[step][None])
    assert bool(pick_env.success()[0])


@pytest.mark.parametrize("env", ["kinematic", "mujoco"])
def test_the_demo_seeds_a_generation_run(collected, tmp_path, env):
    arguments = [f"env={env}", "env.num_envs=2", "recorder=none", "tracker=none", "preview=false", "num_demos=2",
                 "max_attempts=12", f"pool.path={collected[0]}", f"hydra.run.dir={tmp_path / 'run'}"]  # fmt: skip
    assert run_main(arguments, tmp_path) == 0
    rows = (tmp_path / "run" / "attempts.jsonl").read_text()
    assert rows.count('"reason": "success"') == 2


def test_a_second_demo_is_appended_and_its_scene_is_another(collected, pick_env):
    path = collected[0]
    before = path.read_bytes()
    session = session_of(pick_env, path)
    first = session.state()
    assert first["scene"]["number"] == 1, "the scene of demo_0 is done"
    session.start()
    perform(session)
    assert session.save().ok
    assert [demo["name"] for demo in session.state()["saved"]] == ["demo_0", "demo_1"]
    demos = read_demos(path, eef_names=None, object_names=None, signal_names=None, gripper_from_actions=None).demos
    first_cube, second_cube = (demo.info.object_poses["cube"][0] for demo in demos)
    assert not torch.equal(first_cube, second_cube)
    path.write_bytes(before)


def test_what_is_not_done_is_not_saved_and_says_why(pick_env, tmp_path):
    path = tmp_path / "pick.hdf5"
    session = session_of(pick_env, path)
    assert session.save().text == "Not saved: nothing is being recorded."
    session.start()
    session.tick(motion_of({"KeyE"}), VIEW)
    assert session.save().text == "Not saved: the task is not done yet."
    perform(session)
    session.command("gripper")
    wait_for_rest(session)
    assert session.save().text == "Not saved: success was lost again."
    assert not path.exists()
    assert session.recording is not None, "one can go on"


def test_a_demo_that_generation_cannot_use_is_refused(pick_env, tmp_path):
    config = checked_config(["task=pick", "task.subtasks.panda.0.subtask_term_signal=grip"])
    file = DemoFile(tmp_path / "pick.hdf5", env_args(config))
    session = Session(pick_env, build.build_subtasks(config), file, Rules(10, 590), seed=0)
    session.start()
    perform(session)
    answer = session.save()
    assert not answer.ok
    assert answer.text.startswith("Not saved: the recording")
    assert "grip" in answer.text
    assert not (tmp_path / "pick.hdf5").exists()


def test_the_clock_stands_still_while_nobody_steers(pick_env, tmp_path):
    session = session_of(pick_env, tmp_path / "pick.hdf5")
    session.start()
    assert not session.tick(REST, VIEW)
    assert session.state()["steps"] == 0
    assert session.tick(motion_of({"KeyE"}), VIEW)
    assert 5 <= wait_for_rest(session) <= 40
    steps = session.state()["steps"]
    for _ in range(30):
        assert not session.tick(REST, VIEW)
    assert session.state()["steps"] == steps
    session.command("gripper")
    assert session.tick(REST, VIEW)


def test_discard_shows_the_same_scene_and_next_another(pick_env, tmp_path):
    session = session_of(pick_env, tmp_path / "pick.hdf5")
    start = pick_env.get_state()
    session.start()
    for _ in range(20):
        session.tick(motion_of({"KeyW", "KeyE"}), VIEW)
    assert not torch.equal(pick_env.get_state(), start)
    assert session.next_scene().text == "Still recording; save or discard it first."
    assert session.discard().text == "Discarded 20 steps; this is the same scene again."
    assert torch.equal(pick_env.get_state(), start)
    assert session.next_scene().ok
    assert not torch.equal(pick_env.get_state(), start)


def test_a_demo_too_long_for_the_runs_limit_ends(pick_env, tmp_path):
    session = session_of(pick_env, tmp_path / "pick.hdf5", max_steps=15)
    session.start()
    for _ in range(30):
        session.tick(motion_of({"KeyE"}), VIEW)
    state = session.state()
    assert (state["phase"], state["steps"]) == ("ended", 15)
    assert "task.max_episode_steps" in session.save().text
    assert session.discard().ok
    assert session.state()["phase"] == "practice"


def test_the_limit_leaves_room_for_interpolation():
    config = checked_config(["task=pick", "task.max_episode_steps=100"])
    assert longest_demo(config) == 100 - 2 * 5


def test_a_motion_goes_where_the_picture_says(pick_env, tmp_path):
    session = session_of(pick_env, tmp_path / "pick.hdf5")
    for azimuth, expected in ((180.0, [0.0, 1.0]), (90.0, [1.0, 0.0]), (0.0, [0.0, -1.0])):
        session.discard()
        before = pick_env.get_robot_eef_pose("panda")[0, :2, 3]
        for _ in range(15):
            session.tick(motion_of({"KeyD"}), View(azimuth, -34.0))
        moved = pick_env.get_robot_eef_pose("panda")[0, :2, 3] - before
        assert 0.09 < float(moved.norm()) < 0.16
        assert torch.allclose(moved / moved.norm(), torch.tensor(expected), atol=0.06)


def test_a_hand_that_nobody_steers_stays_and_one_that_is_blocked_does_not_wind_up(pick_env, tmp_path):
    session = session_of(pick_env, tmp_path / "pick.hdf5")
    before = pick_env.get_robot_eef_pose("panda")
    session.command("gripper")
    wait_for_rest(session)
    assert float((pick_env.get_robot_eef_pose("panda") - before).abs().max()) < 2e-3
    for _ in range(60):
        session.tick(motion_of({"KeyQ"}), VIEW)  # 60 cm down, through the table
    low = float(pick_env.get_robot_eef_pose("panda")[0, 2, 3])
    for _ in range(8):
        session.tick(motion_of({"KeyE"}), VIEW)
    assert float(pick_env.get_robot_eef_pose("panda")[0, 2, 3]) > low + 0.02


def test_both_arms_of_a_task_are_steered_one_by_one_and_together(tmp_path):
    env = MujocoEnv(task_classes()["bimanual_lift"](), 1, threads=1)
    try:
        session = session_of(env, tmp_path / "lift.hdf5", task="bimanual_lift")
        for active in (("left",), ("right",), ("left", "right"), ("left",)):
            assert session.active == active
            before = {name: env.get_robot_eef_pose(name)[0, 2, 3].clone() for name in env.eef_names}
            for _ in range(8):
                session.tick(motion_of({"KeyE"}), VIEW)
            for name in env.eef_names:
                rise = float(env.get_robot_eef_pose(name)[0, 2, 3] - before[name])
                assert (rise > 0.02) == (name in active), (active, name, rise)
            session.discard()
            assert session.command("arm").ok
        session.command("gripper")
        assert [arm["closed"] for arm in session.state()["arms"].values()] == [False, True]
    finally:
        env.close()


def test_another_tasks_file_or_no_file_of_demos_is_refused(collected, tmp_path):
    config = checked_config(["task=stack"])
    with pytest.raises(ConfigError, match=r"--out: .*holds demos of mimicpipe-pick .*these are of mimicpipe-stack"):
        DemoFile(collected[0], env_args(config))
    text = tmp_path / "text.hdf5"
    text.write_text("no demos")
    with pytest.raises(ConfigError, match="not an HDF5 file"):
        DemoFile(text, env_args(config))
    with pytest.raises(ConfigError, match="no file can be made there"):
        DemoFile(text / "below.hdf5", env_args(config))


def test_a_full_disk_keeps_the_file_and_the_recording(collected, pick_env, tmp_path, monkeypatch):
    path = tmp_path / "pick.hdf5"
    path.write_bytes(collected[0].read_bytes())
    session = session_of(pick_env, path)
    session.start()
    perform(session)

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert session.save().text == "Not saved: [Errno 28] No space left on device"
    monkeypatch.undo()
    assert path.read_bytes() == collected[0].read_bytes()
    assert [entry.name for entry in tmp_path.iterdir()] == ["pick.hdf5"]
    assert session.save().ok


def test_two_who_add_to_one_file_lose_nothing(collected, tmp_path):
    path = tmp_path / "pick.hdf5"
    path.write_bytes(collected[0].read_bytes())
    args = env_args(checked_config(["task=pick"]))
    one, other = DemoFile(path, args), DemoFile(path, args)
    (demo,) = read_demos(path, eef_names=None, object_names=None, signal_names=None, gripper_from_actions=None).demos
    assert one.append(demo, 7).name == "demo_1"
    assert other.append(demo, 8).name == "demo_2"
    assert [saved.seed for saved in DemoFile(path, args).saved][1:] == [7, 8]


def test_a_file_that_was_replaced_meanwhile_is_not_overwritten(collected, tmp_path):
    path = tmp_path / "pick.hdf5"
    path.write_bytes(collected[0].read_bytes())
    file = DemoFile(path, env_args(checked_config(["task=pick"])))
    (demo,) = read_demos(path, eef_names=None, object_names=None, signal_names=None, gripper_from_actions=None).demos
    path.write_text("something else")
    with pytest.raises(SourceDemoError, match="not an HDF5 file"):
        file.append(demo, 7)
    assert path.read_text() == "something else"


@pytest.mark.parametrize(("command", "moves"), [("next", False), ("discard", False), ("gripper", True)])
def test_a_key_that_was_let_go_before_a_scene_was_put_back_does_not_move_the_next_one(
    pick_env, tmp_path, command, moves
):
    hub, session = Hub(VIEW), session_of(pick_env, tmp_path / "demos.hdf5")
    for order, keys in enumerate([{"KeyE"}, set()]):  # both come between two steps
        hub.put_input(PageInput(order, frozenset(keys), (), VIEW))
    asking = threading.Thread(target=hub.ask, args=(command,))
    asking.start()
    while asking.is_alive():
        serve(session, hub, time.monotonic() + 0.05, lambda: None)
    asking.join()
    assert any(hub.controls()[0]) == moves
