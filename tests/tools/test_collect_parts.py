"""What collecting is made of, part by part: motions, targets, the hub between the threads, pictures."""

import json
import math
import threading
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mimicpipe import poses
from mimicpipe.collect import hub as hub_module
from mimicpipe.collect.controls import MOTION_KEYS, View, bindings, motion_of
from mimicpipe.collect.hub import Closed, Hub, PageInput
from mimicpipe.collect.loop import Rate
from mimicpipe.collect.scene_view import FRAME, picture_of
from mimicpipe.collect.session import Answer
from mimicpipe.collect.steering import MAX_LEAD, MAX_LEAD_TURN, leashed, moved
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.envs.tasks.catalog import task_classes

VIEW = View(180.0, -34.0)
numbers = st.floats(-1.0, 1.0)
vectors = st.tuples(numbers, numbers, numbers)


# -- motions and targets


def test_opposite_keys_cancel_and_unknown_ones_do_nothing():
    for key in MOTION_KEYS:
        assert motion_of({key.code})[key.axis] == key.sign
        opposite = next(k for k in MOTION_KEYS if k.axis == key.axis and k.sign == -key.sign)
        assert not any(motion_of({key.code, opposite.code, "KeyZ"}))
    assert motion_of({"KeyW"}, (0.0, 0.7, 0, 0, 0, 0)) == (0, 1, 0, 0, 0, 0)


def test_each_key_has_one_meaning():
    tables = json.loads(json.dumps(bindings()))
    codes = [row[0] for row in tables["motion_keys"] + tables["command_keys"]]
    assert len(codes) == len(set(codes))


@given(st.floats(-720, 720), st.floats(-200, 200), st.floats(-9, 9))
@settings(deadline=None)
def test_a_view_stays_above_the_table_and_its_directions_are_orthonormal(azimuth, elevation, zoom):
    view = View(azimuth, elevation, zoom).clipped()
    assert -180 <= view.azimuth <= 180
    assert -85 <= view.elevation <= -5
    assert 0.4 <= view.zoom <= 3
    right, away = np.array(view.right()), np.array(view.away())
    assert abs(right @ away) < 1e-12
    assert np.cross(right, away) == pytest.approx([0, 0, 1])
    assert view.away() == pytest.approx(View(azimuth, 0).away(), abs=1e-9)


@given(vectors, vectors, vectors, vectors)
@settings(deadline=None, max_examples=60)
def test_a_target_is_never_further_ahead_than_allowed_and_else_untouched(at, turned, shift, turn):
    rot = poses.matrix_from_axis_angle(torch.tensor([turned], dtype=torch.float64))
    measured = poses.make_pose(torch.tensor([at], dtype=torch.float64), rot)
    target = moved(measured, torch.tensor(shift, dtype=torch.float64), torch.tensor(turn, dtype=torch.float64))
    found = leashed(target, measured)
    way = found[0, :3, 3] - measured[0, :3, 3]
    back = poses.compose_rotations(found[:, :3, :3], measured[:, :3, :3].transpose(1, 2))
    angle = float(poses.vector_norm(poses.axis_angle_from_matrix(back)))
    assert float(way.norm()) <= MAX_LEAD + 1e-9
    assert angle <= MAX_LEAD_TURN + 1e-6
    assert float(poses.rotation_defect(found).max()) < 1e-9
    if math.hypot(*shift) <= MAX_LEAD and math.hypot(*turn) <= MAX_LEAD_TURN - 1e-9:
        assert torch.equal(found, target)
    elif math.hypot(*shift) > MAX_LEAD:
        assert float(way @ torch.tensor(shift, dtype=torch.float64)) == pytest.approx(MAX_LEAD * math.hypot(*shift))


# -- the hub


def given_input(order, *keys, axes=()):
    return PageInput(order, frozenset(keys), axes, VIEW)


def test_a_key_is_held_until_it_is_let_go_and_a_tap_counts_for_one_look():
    hub = Hub(VIEW)
    hub.put_input(given_input(1, "KeyW"))
    assert hub.controls()[0] == hub.controls()[0] == motion_of({"KeyW"})
    hub.put_input(given_input(2))
    assert not any(hub.controls()[0])
    hub.put_input(given_input(3, "KeyE"))
    hub.put_input(given_input(4))
    assert hub.controls()[0] == motion_of({"KeyE"})
    assert not any(hub.controls()[0])


def test_input_that_was_overtaken_on_its_way_is_dropped():
    hub = Hub(VIEW)
    hub.put_input(given_input(2))
    hub.put_input(given_input(1, "KeyW"))
    assert not any(hub.controls()[0])


def test_input_of_a_page_that_is_gone_runs_out(monkeypatch):
    monkeypatch.setattr(hub_module, "INPUT_LIFETIME_S", 0.0)
    hub = Hub(VIEW)
    hub.put_input(given_input(1, "KeyW"))
    hub.controls()  # the tap
    assert not any(hub.controls()[0])


def test_a_state_is_new_only_if_it_differs_and_whoever_waits_is_woken():
    hub = Hub(VIEW)
    hub.publish({"a": 1}, b"one")
    hub.publish({"a": 1}, None)
    assert json.loads(hub.state(0, 0)) == {"a": 1, "version": 1, "frame": 1}
    found = []
    waiting = threading.Thread(target=lambda: found.append(json.loads(hub.state(1, 10))))
    waiting.start()
    hub.publish({"a": 2}, None)
    waiting.join(5)
    assert found == [{"a": 2, "version": 2, "frame": 1}]


def test_nobody_is_left_waiting_when_collecting_ends():
    hub = Hub(VIEW)
    hub.publish({}, None)
    ended = []

    def wait(ask):
        try:
            ask()
        except Closed:
            ended.append(1)

    threads = [
        threading.Thread(target=wait, args=(ask,)) for ask in (lambda: hub.state(1, 30), lambda: hub.ask("start"))
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    hub.close()
    for thread in threads:
        thread.join(5)
    assert len(ended) == 2
    with pytest.raises(Closed):
        hub.ask("start")


def test_a_command_is_answered_by_the_loop():
    hub = Hub(VIEW)
    found = []
    asking = threading.Thread(target=lambda: found.append(hub.ask("start")))
    asking.start()
    ((name, answer),) = hub.commands(time.monotonic() + 5)
    answer.set_result(Answer(True, name))
    asking.join(5)
    assert found == [Answer(True, "start")]
    assert hub.commands(time.monotonic()) == []


def test_the_rate_is_that_of_steps_while_the_clock_runs():
    rate = Rate()
    for turn in range(40):
        rate.count(True, 0.05 * turn)
    assert rate.now() == 20
    rate.count(False, 2.0)
    assert rate.now() is None


# -- pictures


def test_a_picture_shows_hand_plumb_line_and_wrists():
    env = MujocoEnv(task_classes()["bimanual_lift"](), 1, threads=1)
    try:
        picture = picture_of(env)
        try:
            view = picture.first_view
            one = picture.draw(env, view, ("left",))
            assert one.shape == (*FRAME, 3)
            assert np.array_equal(one, picture.draw(env, view, ("left",)))
            other = picture.draw(env, view, ("right",))
            changed = (one != other).any(axis=2)
            assert 50 < changed.sum() < 5000, "two thin lines change their colours"
            turned = picture.draw(env, View(view.azimuth + 40, view.elevation), ("left",))
            assert (turned != one).any(axis=2).mean() > 0.1
            insets = np.s_[-140:-10, 10:140], np.s_[-140:-10, -140:-10]
            assert all(np.array_equal(turned[place], one[place]) for place in insets), "the wrists' own cameras"
            assert all(len(np.unique(one[place].reshape(-1, 3), axis=0)) > 50 for place in insets)
        finally:
            picture.close()
        with pytest.raises(RuntimeError, match="after close"):
            picture.draw(env, view, ())
    finally:
        env.close()


def test_the_first_view_is_the_front_cameras():
    env = MujocoEnv(task_classes()["pick"](), 1, threads=1)
    try:
        picture, renderer = picture_of(env), env.frame_renderer(FRAME)
        drawn = picture.draw(env, picture.first_view, ("panda",)).astype(int)
        front = renderer.render(env.get_state().numpy())[0].astype(int)
        renderer.close()
        picture.close()
        assert (abs(drawn - front).max(axis=2) > 40)[:300, :].mean() < 0.01
    finally:
        env.close()
