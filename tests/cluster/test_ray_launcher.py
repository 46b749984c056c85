"""What the launcher of `cluster=ray` does before Ray is asked."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mimicpipe.cluster import ray_launcher
from mimicpipe.errors import ClusterError

LONGEST = "session_2026-12-31_23-59-59_999999_4194304/sockets/plasma_store"
"""What Ray appends to its folder."""


@pytest.mark.parametrize("usual", ["/tmp", "/" + "a" * 40])
def test_the_paths_of_sockets_are_short_enough(usual, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", usual)
    folder = ray_launcher._Folder()
    assert os.path.dirname(folder.path) == "/tmp"
    assert len(f"{folder.path}/{LONGEST}") <= 107
    folder.remove()
    assert not os.path.exists(folder.path)


@pytest.fixture
def place(monkeypatch):
    """A folder for temporary files with a short path."""
    with tempfile.TemporaryDirectory(prefix="mp-", dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def test_the_folder_of_a_killed_run_is_removed_by_the_next_and_no_other(place, monkeypatch):
    held = ray_launcher._Folder()
    program = "from mimicpipe.cluster.ray_launcher import _Folder; import os; print(_Folder().path); os._exit(9)"
    killed = subprocess.run(
        [sys.executable, "-c", f"import tempfile; tempfile.tempdir = {str(place)!r}; {program}"],
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.strip()
    (Path(killed) / "sockets").mkdir()
    fresh = ray_launcher._Folder()
    assert os.path.isdir(killed)  # a moment ago, by a process that may be about to lock it
    monkeypatch.setattr(ray_launcher, "_SETTLED_AFTER_S", 0.0)
    again = ray_launcher._Folder()
    assert {str(path) for path in place.iterdir()} == {held.path, fresh.path, again.path}
    for folder in (held, fresh, again):
        folder.remove()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "[::1]:1", "127.0.0.1:65536", "no-such-host.invalid:6379"])
def test_an_address_where_nothing_answers_is_named_at_once(address):
    launcher = ray_launcher.RayLauncher(address=address)
    with pytest.raises(ClusterError, match=r"^cluster\.address=.*: no Ray cluster: .+$") as caught:
        launcher.open()
    assert address in str(caught.value)
    launcher.close()
