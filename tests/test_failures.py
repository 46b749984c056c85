"""What is said of a job that has failed."""

import errno
from pathlib import Path

import pytest

from mimicpipe.errors import ConfigError, RecorderError
from mimicpipe.failures import say_failure

FULL = OSError(errno.ENOSPC, "No space left on device")


def with_cause(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("error", [FULL, with_cause(RecorderError("2 not written"), FULL)], ids=["plain", "recorder"])
def test_a_full_disk_says_how_to_go_on(error, capsys):
    reason, code = say_failure(error, Path("outputs/a run"))
    assert (reason, code) == (f"{type(error).__name__}: {error}", 1)
    assert capsys.readouterr().err.splitlines() == [
        f"error: {error}",
        "free some space there; then `python run.py resume='outputs/a run'` goes on with what is durable",
    ]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("no such task"), 2),
        (RecorderError("is not the dataset"), 1),
        (with_cause(RecorderError("2 not written"), PermissionError("denied")), 1),
    ],
)
def test_what_a_person_can_mend_is_one_line(error, code, capsys):
    assert say_failure(error, Path("run"))[1] == code
    assert capsys.readouterr().err == f"error: {error}\n"


@pytest.mark.parametrize("error", [KeyError("x"), with_cause(RecorderError("2 not written"), KeyError("x"))])
def test_a_fault_of_the_program_is_shown_in_full(error, capsys):
    assert say_failure(error, Path("run"))[1] == 1
    assert "KeyError: 'x'" in capsys.readouterr().err
