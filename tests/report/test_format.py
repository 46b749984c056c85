import pytest

from mimicpipe.report.format import count, duration, elapsed, megabytes, percent


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (41.6, "0:42"), (59.9, "1:00"), (185, "3:05"), (3723, "1:02:03"), (float("inf"), "-")],
)
def test_duration(seconds, text):
    assert duration(seconds) == text


def test_duration_of_nonsense():
    assert duration(float("nan")) == "-"
    assert duration(-1) == "-"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0 s"),
        (0.034, "34 ms"),
        (0.0994, "99 ms"),
        (0.0996, "0.1 s"),
        (4.2, "4.2 s"),
        (59.94, "59.9 s"),
        (59.99, "1:00"),
        (61, "1:01"),
    ],
)
def test_elapsed(seconds, text):
    assert elapsed(seconds) == text


def test_numbers():
    assert [count(n) for n in (0, 7, 12.34, 123.4, 1234567)] == ["0", "7", "12.3", "123", "1,234,567"]
    assert percent(0.9812) == "98.1 %"
    assert megabytes(2_500_000) == "2.5 MB"
