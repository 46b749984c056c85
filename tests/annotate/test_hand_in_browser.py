"""Annotating by hand as a person does it: a real browser, keys, and a run from what was marked."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import pytest
from raw_demos import CUT, write_raw

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from browser import Browser, find_browser
from in_process import run_main

PROGRAM = find_browser()
ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium; `apt-get install chromium` brings it"),
]


class Annotating:
    """`annotate --hand` in a process of its own."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mimicpipe.tools.annotate", *map(str, arguments), "--hand", "--port", "0"],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        assert first.startswith("http://127.0.0.1:"), first + self.process.stdout.read()
        self.url = first.split()[0]

    def end(self):
        output, _ = self.process.communicate(timeout=30)
        return self.process.returncode, output


@pytest.fixture
def annotating():
    running = []

    def start(*arguments):
        running.append(Annotating(*arguments))
        return running[-1]

    yield start
    for each in running:
        if each.process.poll() is None:
            each.process.kill()
            each.process.communicate()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    assert PROGRAM is not None
    with Browser(PROGRAM, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def press(browser, key):
    code = f"Key{key.upper()}" if len(key) == 1 else key
    for kind in ("rawKeyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, code=code, key=key)


def until(browser, expression, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not browser.evaluate(expression):
        assert time.monotonic() < deadline, f"{expression}: {browser.evaluate('document.body.innerText')}"
        time.sleep(0.02)


def text(browser, part):
    return browser.evaluate(f"document.getElementById('{part}').textContent")


def open_page(browser, url, width=1280):
    browser.open(url, width)
    until(browser, "state !== null && (state.finished || state.ready) && document.images[0].naturalWidth > 0")


def mark_and_go_on(browser, step):
    """Play beyond a step, pause, go back to it, mark it; then play to the end and go on."""
    press(browser, "n")
    until(browser, f"step > {step}")
    press(browser, "b")
    assert text(browser, "where").endswith("paused")
    for _ in range(browser.evaluate("step") - step):
        press(browser, "ArrowLeft")
    press(browser, "s")
    assert f"step {step}" in text(browser, "marks")
    press(browser, "n")
    until(browser, "step === state.length")
    press(browser, "n")


def test_picks_are_marked_and_generated_from(browser, annotating, tmp_path):
    """Rendered frames of env=mujoco; the second demo is left out, the third one marked with the mouse as well."""
    raw, out = write_raw(tmp_path / "raw.hdf5", "pick", 3), tmp_path / "out.hdf5"
    with h5py.File(raw, "r+") as file:  # two that can be used
        del file[f"data/demo_{CUT}"]
        file.move("data/demo_2", "data/demo_3")
        file["data/demo_3/initial_state/mimicpipe"] = file["data/demo_0/initial_state/mimicpipe"][()]
        del file["data/demo_3/actions"]
        file["data/demo_3/actions"] = file["data/demo_0/actions"][()]
    running = annotating(raw, "task=pick", "--out", out)
    open_page(browser, running.url)
    assert browser.evaluate("[document.images[0].naturalWidth, document.images[0].naturalHeight]") == [512, 384]
    assert text(browser, "title") == "demo_0"
    assert "Grasp the cube" in text(browser, "marks")
    press(browser, "s")  # at the first step there is nothing to mark
    assert "must be after step 0" in text(browser, "said")
    # The next demo is still being drawn when the answer to this one comes.
    browser.evaluate(
        "{ const real = ask; let slow = true; ask = async (path, body) => { const answer = await real(path, body);"
        "if (body && slow) { slow = false; answer.state = {...answer.state, ready: false}; } return answer; }; }"
    )
    mark_and_go_on(browser, 52)
    until(browser, "state.index === 1 && state.ready")
    assert text(browser, "said") == "demo_0 is annotated"
    # The other with the buttons; a mark is taken back, and one is missing at the end.
    browser.evaluate("document.getElementById('on').click()")
    browser.evaluate("document.getElementById('mark').click()")
    assert "step 1" in text(browser, "marks")
    press(browser, "Backspace")
    assert "step 1" not in text(browser, "marks")
    press(browser, "x")
    until(browser, "state.finished")
    assert browser.complaints == []
    code, output = running.end()
    assert (code, "demo_3: rejected: skipped by hand" in output) == (1, True), output
    assert "demo_0: subtasks end: grasp 52; skills begin: reach" in output
    run = tmp_path / "run"
    fast = ["tracker=none", "preview=false", "recorder=none", "env.num_envs=2"]
    assert run_main([f"pool.path={out}", "num_demos=2", "max_attempts=4", f"hydra.run.dir={run}", *fast], tmp_path) == 0
    assert json.loads((run / "run.json").read_text())["exit_reason"] == "num_demos"


@pytest.mark.parametrize("width", [375, pytest.param(1280, marks=pytest.mark.slow)])
def test_the_page_fits(browser, annotating, tmp_path, width):
    """Drawings of an env that does not render; Ctrl-C ends, and what was marked is written."""
    raw = write_raw(tmp_path / "raw.hdf5", "pick", 1)
    running = annotating(raw, "task=pick", "--out", tmp_path / "out.hdf5")
    open_page(browser, running.url, width)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(
        "[...document.querySelectorAll('button, img, #marks li')].every(e => {"
        "const b = e.getBoundingClientRect(); return b.left >= 0 && b.right <= innerWidth && b.height > 15})"
    )
    assert browser.complaints == []
    running.process.send_signal(signal.SIGINT)
    code, output = running.end()
    assert (code, "demo_0: rejected: not looked at" in output) == (2, True), output
    assert not (tmp_path / "out.hdf5").exists()
