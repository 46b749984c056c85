"""The pages in a real browser: headless Chromium, without network, at the widths of a phone and of a desk."""

import itertools

import pytest
from browser import Browser, find_browser

from mimicpipe.report.run_files import PAGE
from mimicpipe.report.sweep import write_sweep_page

PROGRAM = find_browser()
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium; `apt-get install chromium` brings it"),
]
WIDTHS = (375, 1440)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    assert PROGRAM is not None
    with Browser(PROGRAM, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def opened(browser, path, width, *, dark=False):
    browser.open(path, width, dark=dark)
    assert browser.complaints == []
    assert browser.requests == [path.resolve().as_uri()]
    # Nothing sticks out: no sideways scrolling.
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    return browser


@pytest.mark.parametrize(("width", "dark"), list(itertools.product(WIDTHS, (False, True))))
def test_a_runs_page(browser, finished_run, width, dark):
    page = opened(browser, finished_run / PAGE, width, dark=dark)
    assert page.evaluate("document.querySelectorAll('svg').length") >= 3
    # Every figure has a size, lies within the window, and every picture has loaded.
    boxes = page.evaluate(
        "[...document.querySelectorAll('svg, .stack, .clips img')].map(e => {"
        "const b = e.getBoundingClientRect(); return [b.left, b.right, b.height]})"
    )
    assert all(left >= 0 and right <= width and height > 20 for left, right, height in boxes)
    assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    assert page.evaluate("document.images.length") == 8
    # Text is as large as can be read.
    sizes = page.evaluate("[...document.querySelectorAll('svg text')].map(e => e.getBoundingClientRect().height)")
    assert min(sizes) > 9


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_from_the_ground(browser, finished_run, dark):
    page = opened(browser, finished_run / PAGE, 1440, dark=dark)
    colours = page.evaluate(
        "['--ink', '--soft', '--ok', '--bad', '--limit', '--link', '--paper'].map("
        "name => { const e = document.createElement('i'); e.style.color = `var(${name})`; document.body.append(e);"
        "return getComputedStyle(e).color.match(/\\d+/g).slice(0, 3).map(Number) })"
    )
    *inks, paper = colours
    assert (sum(paper) < 200) == dark
    for ink in inks:
        light, dim = sorted((luminance(ink), luminance(paper)), reverse=True)
        assert (light + 0.05) / (dim + 0.05) >= 4.5, ink  # WCAG 2.2, level AA


def luminance(colour):
    """Relative luminance, as WCAG 2.2 defines it."""
    linear = [c / 3294.6 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_paths_turn_and_are_at_first_as_they_stand_without_script(browser, finished_run):
    page = opened(browser, finished_run / PAGE, 1440)
    places = "[...document.querySelectorAll('#scene polyline')].map(e => e.getAttribute('points')).join(';')"
    first = page.evaluate(places)
    key = "document.getElementById('scene').dispatchEvent(new KeyboardEvent('keydown', {key: '%s'}))"
    page.evaluate(key % "ArrowLeft")
    turned = page.evaluate(places)
    page.evaluate(key % "ArrowRight")
    assert turned != first
    back = page.evaluate(places)
    numbers = [[float(v) for v in text.replace(";", " ").replace(",", " ").split()] for text in (first, back)]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.15)
    page.evaluate("document.getElementById('scene').scrollIntoView()")
    x, y = page.evaluate("(b => [b.left + b.width / 2, b.top + b.height / 2])"
                         "(document.getElementById('scene').getBoundingClientRect())")  # fmt: skip
    for kind, dx in (("mousePressed", 0), ("mouseMoved", 60), ("mouseReleased", 60)):
        page.call("Input.dispatchMouseEvent", type=kind, x=x + dx, y=y, button="left", buttons=1, clickCount=1)
    assert page.evaluate(places) != back
    assert page.complaints == []


def test_it_prints(browser, finished_run):
    page = opened(browser, finished_run / PAGE, 1440)
    pdf = page.pdf()
    assert pdf.startswith(b"%PDF")
    assert 1 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") <= 12


@pytest.mark.parametrize("width", WIDTHS)
def test_a_sweeps_page(browser, finished_run, tmp_path, width):
    for job in ("0", "1"):
        (tmp_path / "sweep" / job).mkdir(parents=True)
        (tmp_path / "sweep" / job / ".hydra").symlink_to(finished_run / ".hydra")
    for name in ("run.json", PAGE):
        (tmp_path / "sweep" / "0" / name).symlink_to(finished_run / name)
    page = opened(browser, write_sweep_page(tmp_path / "sweep"), width)
    assert page.evaluate("document.querySelectorAll('tbody tr').length") >= 2
    assert page.evaluate("document.querySelector('a').getAttribute('href')") == f"0/{PAGE}"
