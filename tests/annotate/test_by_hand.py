import http.client
import json
import threading

import pytest
import torch

from mimicpipe.annotate.by_hand import HandSession, marks_of
from mimicpipe.annotate.candidates import Candidate
from mimicpipe.annotate.server import serve_session
from mimicpipe.datagen.datagen_info import DatagenInfo, SourceDemo
from mimicpipe.datagen.subtask import SubTaskConfig
from mimicpipe.errors import ConfigError
from mimicpipe.local_page import HEADER

LENGTH = 50


def subtasks(*signals):
    return [SubTaskConfig(None, signal, subtask_start_signal=f"to_{signal}") for signal in signals] + [SubTaskConfig()]


ONE = {"arm": subtasks("grasp", "place")}
TWO = {"left": subtasks("take"), "right": subtasks("give", "lift")}


def candidates(eefs, count=2):
    pose = torch.eye(4).repeat(LENGTH, 1, 1)
    found = []
    for number in range(count):
        info = DatagenInfo(
            eef_pose=dict.fromkeys(eefs, pose),
            object_poses={},
            subtask_term_signals={"other": torch.zeros(LENGTH, dtype=torch.bool)},
            target_eef_pose=dict.fromkeys(eefs, pose),
            gripper_action=dict.fromkeys(eefs, torch.ones(LENGTH, 1)),
            subtask_start_signals={"kept": torch.ones(LENGTH, dtype=torch.bool)},
        )
        found.append(Candidate(SourceDemo(f"demo_{number}", info, torch.zeros(LENGTH, 7))))
    return found


def session(configs=ONE, *, starts=False, count=2):
    made = HandSession(candidates(configs, count), configs, 20, starts)
    for index in range(count):
        made.add_frames(index, [f"{index}:{step}".encode() for step in range(LENGTH + 1)])
    return made


def test_marks_are_asked_for_in_order():
    assert [(m.kind, m.signal) for m in marks_of(ONE["arm"], False)] == [("end", "grasp"), ("end", "place")]
    assert [(m.kind, m.signal) for m in marks_of(ONE["arm"], True)] == [
        ("start", "to_grasp"), ("end", "grasp"), ("start", "to_place"), ("end", "place")]  # fmt: skip


def test_marks_become_signals():
    hand = session()
    assert hand.submit(0, {"arm": [10, 30]}).ok
    (accepted,) = hand.accepted
    info = accepted.demo.info
    assert {name: int(s.nonzero()[0]) for name, s in info.subtask_term_signals.items()} == {"grasp": 10, "place": 30}
    assert set(info.subtask_start_signals) == {"kept"}
    assert hand.state()["index"] == 1
    assert hand.skip(1).text == "demo_1 is left out"
    assert hand.finished
    assert hand.rejected == [("demo_1", "skipped by hand")]


def test_starts_end_with_their_subtasks():
    hand = session(starts=True)
    assert hand.submit(0, {"arm": [5, 10, 20, 30]}).ok
    starts = hand.accepted[0].demo.info.subtask_start_signals
    assert {name: (int(s.nonzero()[0]), int(s.sum())) for name, s in starts.items()} == {
        "to_grasp": (5, 5), "to_place": (20, 10)}  # fmt: skip


def test_each_arm_has_its_own_marks():
    hand = session(TWO)
    assert [p["eef"] for p in hand.state()["passes"]] == ["left", "right"]
    answer = hand.submit(0, {"left": [40], "right": [20]})
    assert (answer.ok, answer.text) == (
        False, "right: 1 marks, 2 are asked for (end of give, end of lift)")  # fmt: skip
    assert hand.submit(0, {"left": [40], "right": [20, 30]}).ok


@pytest.mark.parametrize("steps", [[30, 10], [10, 10], [0, 10], [10, LENGTH], [-1, 5], [10], [1, 2, 3], []])
def test_marks_that_make_no_sense(steps):
    hand = session()
    answer = hand.submit(0, {"arm": steps})
    assert not answer.ok
    assert answer.text.startswith("arm: ")
    assert hand.accepted == []
    assert hand.state()["index"] == 0


def test_a_demo_is_dealt_with_once():
    hand = session()
    assert hand.submit(0, {"arm": [10, 30]}).ok
    assert "load the page again" in hand.submit(0, {"arm": [10, 30]}).text
    assert "load the page again" in hand.skip(0).text
    assert len(hand.accepted) == 1
    hand.finish()
    assert hand.rejected == [("demo_1", "not looked at")]
    assert hand.wait(0.0)


def test_offsets_must_fit():
    """What is marked is judged as a pool would judge it."""
    tight = {"arm": [SubTaskConfig(None, "grasp", subtask_term_offset_range=(0, 20)), SubTaskConfig()]}
    answer = session(tight).submit(0, {"arm": [45]})
    assert not answer.ok
    assert "with its offset subtask 0 ends as late as step 66" in answer.text


# -- the server


@pytest.fixture
def hand():
    return session()


@pytest.fixture
def server(hand):
    before = set(threading.enumerate())
    running = serve_session(hand, 0)
    running.start()
    yield running
    running.stop()
    assert set(threading.enumerate()) <= before


def ask(server, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def post(server, path, body, **headers):
    status, content = ask(server, "POST", path, json.dumps(body), **{HEADER: "1"}, **headers)
    return status, content.decode()


def test_pages_state_and_frames(server):
    for path in ("/", "/page.css", "/page.js"):
        assert ask(server, "GET", path)[0] == 200
    state = json.loads(ask(server, "GET", "/state")[1])
    assert (state["name"], state["length"], state["ready"], state["fps"]) == ("demo_0", LENGTH, True, 20)
    assert ask(server, "GET", "/frame?demo=0&step=7") == (200, b"0:7")
    assert ask(server, "GET", "/frame?demo=0&step=51")[0] == 404
    assert ask(server, "GET", "/frame?demo=0&step=-1")[0] == 404
    assert ask(server, "GET", "/frame?demo=x")[0] == 400
    assert ask(server, "GET", "/../../etc/passwd")[0] == 404


def test_commands(server, hand):
    status, content = post(server, "/marks", {"demo": 0, "marks": {"arm": [10, 30]}})
    answer = json.loads(content)
    assert (status, answer["ok"], answer["text"]) == (200, True, "demo_0 is annotated")
    assert (answer["state"]["index"], answer["state"]["accepted"]) == (1, ["demo_0"])
    assert json.loads(post(server, "/skip", {"demo": 0})[1])["ok"] is False
    assert post(server, "/finish", {})[0] == 200
    assert hand.finished


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"demo": "0", "marks": {}}, "demo: expected an integer"),
        ({"demo": 0}, "marks: expected {eef: [steps]}"),
        ({"demo": 0, "marks": {"arm": ["x"]}}, "marks: expected"),
        ([1], "the body is no JSON object"),
    ],
)
def test_bodies_that_make_no_sense(server, body, said):
    status, text = post(server, "/marks", body)
    assert status == 400
    assert said in text


def test_other_pages_cannot_use_it(server, hand):
    assert ask(server, "POST", "/finish", "{}")[0] == 403
    assert ask(server, "GET", "/state", Host="evil.example")[0] == 403
    assert post(server, "/finish", {}, Host="evil.example:80")[0] == 403
    assert not hand.finished
    assert server.server_address[0] == "127.0.0.1"
    too_long = ask(server, "POST", "/marks", "", **{HEADER: "1", "Content-Length": "1000000"})
    assert too_long[0] == 400


def test_a_port_that_is_taken(server):
    with pytest.raises(ConfigError, match=rf"--port={server.server_port}: .*--port=0"):
        serve_session(session(), server.server_port)
    with pytest.raises(ConfigError, match="--port=99999"):
        serve_session(session(), 99999)
