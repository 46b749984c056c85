import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mimicpipe.report.svg import Line, Points, line_chart, tick_text, ticks, top_view


@settings(deadline=None, max_examples=200)
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e7), st.integers(2, 8))
def test_ticks_are_round_few_and_within_bounds(low, size, about):
    high = low + size
    found = ticks(low, high, about)
    slack = size * 1e-6
    assert 1 <= len(found) <= about + 1
    assert all(low - slack <= tick <= high + slack for tick in found)
    if len(found) > 1:
        step = found[1] - found[0]
        mantissa = float(f"{step:.6e}".split("e")[0])
        assert min(abs(mantissa - n) for n in (1, 2, 5, 10)) < 1e-2


def test_nothing_to_divide_is_one_tick():
    assert ticks(3.0, 3.0) == [3.0]


@pytest.mark.parametrize(
    ("value", "step", "text"),
    [(0.5, 0.5, "0.5"), (0.0, 0.05, "0.00"), (1000, 500, "1,000"), (20000, 5000, "20k"), (2.5e6, 5e5, "2.5M")],
)
def test_ticks_have_the_digits_they_need(value, step, text):
    assert tick_text(value, step) == text


def test_curves_and_points_lie_within_the_figure():
    chart = line_chart("<a & b>", [Line("one", "c1", [0.0, 1.0, 2.0], [0.0, 5.0, 3.0])], "time, s", right=2.0,
                       limit=(8.0, "limit 8"), band=(1.5, "end"))  # fmt: skip
    view = top_view("above", [Points("good", "ok", [(50.0, -5.0), (60.0, 5.0)], ["a", "b"]),
                              Points("bad", "bad", [(55.0, 0.0)], ["c"])], (49.0, 61.0, -6.0, 6.0))  # fmt: skip
    for text in (chart, view):
        root = ET.fromstring(text)
        _, _, width, height = map(float, root.attrib["viewBox"].split())
        for node in root.iter():
            for name, most in (("x", width), ("cx", width), ("x1", width), ("y", height), ("cy", height)):
                assert 0 <= float(node.attrib.get(name, 0)) <= most, ET.tostring(node)
    assert ET.fromstring(chart).attrib["aria-label"] == "<a & b>"
    assert ET.fromstring(view).findall("circle")[0].find("title") is not None
    assert len(ET.fromstring(view).findall("path")) == 1


def test_both_axes_have_the_same_scale():
    root = ET.fromstring(top_view("v", [Points("p", "ok", [(0, 0), (10, 0), (0, 10)], ["", "", ""])], (-9, 40, -1, 11)))
    a, b, c = ((float(n.attrib["cx"]), float(n.attrib["cy"])) for n in root.findall("circle"))
    assert b[0] - a[0] == pytest.approx(a[1] - c[1], abs=0.2)
