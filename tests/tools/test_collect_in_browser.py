"""Collecting as a person does: a browser's page, keys that are pressed and let go, what the page shows."""

import signal
import sys
import time
from pathlib import Path

import pytest
from collect_process import Collecting
from pick_by_hand import Picker

from mimicpipe.pools.hdf5 import list_demos

sys.path.insert(0, str(Path(__file__).parents[1]))

from browser import Browser, find_browser
from in_process import run_main

PROGRAM = find_browser()
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium here; install it to test the pages in a browser"),
]
KEYS = {"Space": " ", "Enter": "Enter", "Backspace": "Backspace", "Escape": "Escape", "Tab": "Tab",
        "Equal": "=", "Minus": "-"}  # fmt: skip

COLOURS = """(() => {
  const copy = new OffscreenCanvas(640, 480).getContext('2d', {willReadFrequently: true});
  copy.drawImage(document.getElementById('picture'), 0, 0);
  return new Set(copy.getImageData(200, 100, 200, 200).data).size;
})()"""
"""How many values of a colour's channels the middle of the picture has."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    assert PROGRAM is not None
    with Browser(PROGRAM, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module")
def collecting(tmp_path_factory):
    running = Collecting(tmp_path_factory.mktemp("collecting") / "pick.hdf5", "task=pick")
    yield running
    running.kill()


def press(browser, code, kind="rawKeyDown"):
    key = KEYS.get(code, code.removeprefix("Key").lower() if code.startswith("Key") else code)
    browser.call("Input.dispatchKeyEvent", type=kind, code=code, key=key, windowsVirtualKeyCode=0)


def tap(browser, code):
    press(browser, code)
    press(browser, code, "keyUp")


def text(browser, name):
    return browser.evaluate(f"document.getElementById('{name}').innerText")


def until(browser, expression, seconds=15.0):
    deadline = time.monotonic() + seconds
    while not browser.evaluate(expression):
        assert time.monotonic() < deadline, f"{expression}: {browser.evaluate('document.body.innerText')}"
        time.sleep(0.05)


def open_page(browser, collecting, width=1280, dark=False):
    browser.open(collecting.url, width, dark=dark)
    until(browser, "document.activeElement.id === 'scene' && document.title.endsWith('collect')"
                   " && state !== null && state.frame > 0")  # fmt: skip


@pytest.mark.parametrize(("width", "dark"), [(375, True), (1280, False)])
def test_the_page_fits_and_shows_the_scene(browser, collecting, width, dark):
    open_page(browser, collecting, width, dark)
    until(browser, COLOURS + " > 20")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert text(browser, "phase") == "Practice: not recorded"
    assert text(browser, "clock") == "waits for you"
    assert not [each for each in browser.requests if not each.startswith(collecting.url)]
    assert browser.complaints == []


def test_contrast_is_enough_in_both_schemes(browser, collecting):
    """WCAG 2.1, 1.4.3: at least 4.5 to 1 for text."""
    script = """(() => {
      const rgb = (color) => color.match(/[\\d.]+/g).map(Number);
      const light = (color) => rgb(color).slice(0, 3).map((v) => v / 255)
        .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
      const ground = (node) => { for (; node; node = node.parentElement) {
        const color = getComputedStyle(node).backgroundColor; if ((rgb(color)[3] ?? 1) > 0.5) return color; } };
      return [...document.querySelectorAll('h1, h2, p, .row span, .chips li, button:not(:disabled), kbd, summary')]
        .filter((node) => node.innerText.trim() && node.offsetParent !== null && !node.closest(':disabled'))
        .map((node) => { const a = light(getComputedStyle(node).color), b = light(ground(node));
          return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), node.outerHTML.slice(0, 80)]; })
        .filter(([ratio]) => ratio < 4.5);
    })()"""
    for dark in (False, True):
        open_page(browser, collecting, dark=dark)
        assert browser.evaluate(script) == []


def test_a_person_picks_the_cube_and_the_demo_seeds_a_run(browser, collecting, tmp_path):
    open_page(browser, collecting)
    tap(browser, "Enter")
    until(browser, "document.getElementById('phase').innerText === 'Recording'")
    tap(browser, "Enter")
    until(browser, "document.getElementById('message').innerText === 'Not saved: the task is not done yet.'")
    picker, held = Picker(), set()

    def done(state):
        wanted, tapped = picker.next(state)
        for code in held - wanted:
            press(browser, code, "keyUp")
        for code in wanted - held:
            press(browser, code)
        held.clear()
        held.update(wanted)
        if tapped:
            tap(browser, tapped)
            time.sleep(0.1)
        return state["held"] >= state["hold_steps"]

    collecting.until(done, seconds=45)
    until(browser, "document.getElementById('phase').innerText === 'Success: save it'")
    assert text(browser, "held-text") == "10 of 10"
    assert text(browser, "signals") == "✓ reach\n✓ grasp"
    assert browser.evaluate("document.title") == "● pick: collect"
    tap(browser, "Enter")
    until(browser, "document.getElementById('message').innerText.startsWith('Saved demo_0')")
    until(browser, "document.getElementById('saved').children.length === 1")
    assert browser.complaints == []
    path = collecting.state()["file"]
    assert text(browser, "command") == f"python run.py task=pick pool.path={path}"
    assert list_demos(path) == ["demo_0"]
    arguments = ["task=pick", "env.num_envs=2", "recorder=none", "tracker=none", "preview=false", "num_demos=2",
                 "max_attempts=12", f"pool.path={path}", f"hydra.run.dir={tmp_path / 'run'}"]  # fmt: skip
    assert run_main(arguments, tmp_path) == 0


def test_keys_are_let_go_with_the_focus_and_escape_leaves_the_scene(browser, collecting):
    open_page(browser, collecting)
    press(browser, "KeyE")
    collecting.until(lambda state: state["running"])
    tap(browser, "Escape")
    assert browser.evaluate("document.activeElement.id") == "start"
    assert browser.evaluate("held.size") == 0
    press(browser, "KeyE", "keyUp")
    collecting.until(lambda state: not state["running"])
    high = collecting.state()["arms"]["panda"]["position"][2]
    tap(browser, "KeyE")  # the button has the focus: nothing is steered
    time.sleep(0.3)
    assert collecting.state()["arms"]["panda"]["position"][2] == high


def test_the_keys_on_the_page_can_be_held_with_a_mouse(browser, collecting):
    open_page(browser, collecting)
    high = collecting.state()["arms"]["panda"]["position"][2]
    box = browser.evaluate("(({x, y, width, height}) => ({x: x + width / 2, y: y + height / 2}))"
                           "(document.querySelector('[data-code=KeyE]').getBoundingClientRect())")  # fmt: skip
    browser.call("Input.dispatchMouseEvent", type="mousePressed", button="left", clickCount=1, **box)
    collecting.until(lambda state: state["arms"]["panda"]["position"][2] > high + 0.03)
    browser.call("Input.dispatchMouseEvent", type="mouseReleased", button="left", clickCount=1, **box)
    collecting.until(lambda state: not state["running"])


def test_a_gamepad_steers(browser, collecting):
    open_page(browser, collecting)
    before = collecting.until(lambda state: not state["running"])
    browser.evaluate("""void (window.pad = {
      id: 'test pad', connected: true, mapping: 'standard', axes: [0, 0, 0, -1],
      buttons: Array.from({length: 17}, () => ({pressed: false})),
    }, navigator.getGamepads = () => [null, window.pad])""")
    high = before["arms"]["panda"]["position"][2]
    collecting.until(lambda state: state["arms"]["panda"]["position"][2] > high + 0.03)
    browser.evaluate("void (pad.axes = [0, 0, 0.05, 0.1], pad.buttons[0].pressed = true)")
    collecting.until(lambda state: state["arms"]["panda"]["closed"])
    collecting.until(lambda state: not state["running"])
    assert text(browser, "pad") == "Gamepad: test pad"
    browser.evaluate("void (navigator.getGamepads = () => [null])")
    until(browser, "document.getElementById('pad').innerText.startsWith('Gamepad: none')")


def test_dragging_turns_the_view_and_with_it_the_directions(browser, collecting):
    open_page(browser, collecting)
    away = collecting.state()["directions"]["away"]
    for kind, x in (("mousePressed", 300), ("mouseMoved", 400), ("mouseMoved", 525), ("mouseReleased", 525)):
        browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=300, button="left", buttons=1, clickCount=1)
    collecting.until(lambda state: state["directions"]["away"] != away)
    now = collecting.until(lambda state: abs(state["view"][0] - 90.0) < 1.0)
    assert now["directions"]["away"] == pytest.approx([0.0, 1.0, 0.0], abs=0.02)


def test_the_page_says_when_collecting_was_killed_and_the_saved_demo_is_there(browser, collecting):
    open_page(browser, collecting)
    assert not browser.evaluate("document.getElementById('alarm').innerText")
    path = collecting.state()["file"]
    tap(browser, "Enter")
    press(browser, "KeyE")
    collecting.until(lambda state: state["steps"] > 3)
    assert collecting.stop(signal.SIGKILL)[0] == -signal.SIGKILL
    assert list_demos(path) == ["demo_0"]
    assert [entry.name for entry in Path(path).parent.iterdir()] == ["pick.hdf5"]
    until(browser, "document.getElementById('alarm').innerText.startsWith('No connection')")
    tap(browser, "Enter")
    until(browser, "document.getElementById('message').className === 'bad'")
