"""The tool in a process of its own, by its endpoints: everything but the page's own script."""

import json
import os
import shlex
import signal
import socket
import threading
import time

import pytest
from collect_process import Collecting
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf
from pick_by_hand import Picker

from mimicpipe.collect.controls import COMMAND_KEYS
from mimicpipe.pools.hdf5 import list_demos
from mimicpipe.tools.collect import generate_command, main


@pytest.fixture(scope="module")
def collecting(tmp_path_factory):
    running = Collecting(tmp_path_factory.mktemp("collecting") / "pick.hdf5", "task=pick", "seed=5")
    yield running
    running.kill()


def test_the_page_comes_whole_and_needs_nobody_else(collecting):
    collecting.until(lambda state: state["frame"] > 0)
    for path, kind in (("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript")):
        status, content, headers = collecting.request(path)
        assert (status, headers["Content-Type"]) == (200, f"{kind}; charset=utf-8")
        assert b"http:" not in content
        assert b"https:" not in content
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")
    status, content, headers = collecting.request("/frame.jpg")
    assert (status, headers["Content-Type"], content[:2]) == (200, "image/jpeg", b"\xff\xd8")
    assert collecting.request("/other")[0] == 404


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/state", None, {"Host": "evil.example:8410"}, 403),
        ("/command", {"name": "next"}, {"Host": "evil.example", "X-Mimicpipe": "1"}, 403),
        ("/command", {"name": "next"}, {}, 403),
        ("/state?after=x", None, None, 400),
        ("/input", b"no json", None, 400),
        ("/input", [1], None, 400),
        ("/input", {"order": 1e18, "keys": "KeyW", "axes": [], "view": [0, -30, 1]}, None, 400),
        ("/input", {"order": 1e18, "keys": [], "axes": [1, 2], "view": [0, -30, 1]}, None, 400),
        ("/input", {"order": 1e18, "keys": [], "axes": [], "view": [0, "x", 1]}, None, 400),
        ("/input", {"order": None, "keys": [], "axes": [], "view": [0, -30, 1]}, None, 400),
        ("/input", b"x" * 200_000, None, 400),
        ("/other", {}, None, 404),
    ],
)
def test_what_is_no_request_of_the_page_changes_nothing(collecting, path, body, headers, status):
    before = collecting.state()
    assert collecting.request(path, body, headers)[0] == status
    after = collecting.state()
    assert (after["scene"], after["arms"], after["view"]) == (before["scene"], before["arms"], before["view"])


def test_a_command_that_there_is_not_says_what_there_is(collecting):
    answer = collecting.command("dance")
    assert not answer["ok"]
    assert "start, save" in answer["text"]


def test_a_key_is_let_go_when_the_page_is_gone(collecting):
    collecting.hold("KeyE")
    collecting.until(lambda state: state["running"])
    state = collecting.until(lambda state: not state["running"])
    high = state["arms"]["panda"]["position"][2]
    time.sleep(0.3)
    assert collecting.state()["arms"]["panda"]["position"][2] == high
    collecting.command("discard")


def test_a_pick_by_keys_is_saved(collecting):
    assert collecting.command("save") == {"ok": False, "text": "Not saved: nothing is being recorded."}
    assert collecting.command("start") == {"ok": True, "text": "Recording."}
    assert "not done yet" in collecting.command("save")["text"]
    picker = Picker()

    def done(state):
        keys, tap = picker.next(state)
        collecting.hold(*keys)
        if tap:
            collecting.command(COMMAND_KEYS[tap][2])
        return state["held"] >= state["hold_steps"]

    state = collecting.until(done, seconds=45)
    assert state["term_signals"] == {"grasp": True}
    assert state["start_signals"] == {"reach": True}
    collecting.hold()
    assert collecting.command("save")["text"].startswith("Saved demo_0, ")
    assert [demo["name"] for demo in collecting.state()["saved"]] == ["demo_0"]
    assert list_demos(collecting.state()["file"]) == ["demo_0"]


def test_the_view_turns_and_a_frame_comes_although_the_clock_stands_still(collecting):
    before = collecting.until(lambda state: not state["running"])
    body = {"order": time.monotonic() * 1e3, "keys": [], "axes": [], "view": [90, -500, 100]}
    assert collecting.request("/input", body)[0] == 200
    after = collecting.until(lambda state: state["view"] == [90, -85, 3] and state["frame"] > before["frame"])
    assert not after["running"]
    assert after["directions"]["away"] == pytest.approx([0, 1, 0], abs=1e-9)


def test_whoever_waits_for_news_gets_them_at_once_or_after_some_seconds(collecting):
    state = collecting.until(lambda state: not state["running"])
    begun = time.monotonic()
    same = json.loads(collecting.request(f"/state?after={state['version']}")[1])
    assert same["version"] == state["version"]
    assert time.monotonic() - begun > 1.0, "it waits instead of asking in circles"


def test_ctrl_c_ends_it_and_keeps_what_was_saved(collecting):
    file = collecting.state()["file"]
    assert collecting.command("start")["ok"]
    collecting.hold("KeyE")
    collecting.until(lambda state: state["steps"] > 3)
    code, out, err = collecting.stop()
    assert (code, err) == (0, "")
    assert "the demo that was being recorded" in out
    assert f"python run.py task=pick pool.path={file}" in out
    assert list_demos(file) == ["demo_0"]


def test_sigterm_ends_it_with_its_own_code_and_leaves_nothing(tmp_path, monkeypatch, capsys):
    """In this process: no thread and no handler is left, either."""
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    threads = set(threading.enumerate())

    def greet(*_):
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("mimicpipe.tools.collect._greet", greet)
    assert main(["--port", "0"]) == 143
    assert capsys.readouterr().out == "no demo was saved\n"
    assert list(tmp_path.iterdir()) == []
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    assert {thread for thread in threading.enumerate() if thread.name.startswith("mimicpipe")} <= threads


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["task=pickk"], "error: task=pickk: no such option; did you mean pick?"),
        (["recorder=sync"], "error: recorder=sync: collect takes keys of task, env, seed, allowed_targets"),
        (["env.num_envs=4"], "error: env.num_envs=4: collect has one env"),
        (["env.cameras=[front]"], "error: env.cameras=['front']: demos are kept without frames"),
        (["env=kinematic"], "error: env: KinematicEnv cannot be drawn"),
        (["--port", "99999"], "error: --port=99999: "),
        (["--out", "/dev/null/pick.hdf5"], "error: --out=/dev/null/pick.hdf5: no file can be made there"),
        (["task=pick,stack"], "error: task=pick,stack: several values; collect takes one"),
    ],
)
def test_bad_input_is_one_line(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert err.startswith(message)
    assert err.count("\n") == 1
    assert out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["plain.hdf5", "two words.hdf5", "it's=a,b[c].hdf5", "a\\b.hdf5", "${x}.hdf5"])
def test_the_command_that_it_ends_with_reads_that_file(name, tmp_path):
    """The shell and Hydra both have their say about a path."""
    words = shlex.split(generate_command(["task=pick", "seed=3"], tmp_path / name))
    assert words[:3] == ["python", "run.py", "task=pick"]
    (override,) = OverridesParser.create().parse_overrides(words[3:])
    assert override.key_or_group == "pool.path"
    assert OmegaConf.create({"path": override.value()}).path == str(tmp_path / name)


def test_a_port_that_is_taken_is_one_line(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["--port", str(port)]) == 2
    assert "--port=0 takes any that is free" in capsys.readouterr().err
