"""Output that nobody reads, or that has no room: the work counts, and nobody sees a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TELL = "import sys; from mimicpipe import stdout; sys.exit(not stdout.tell(lambda: print('x' * 100_000)))"
TOOL = (
    "import sys; from mimicpipe.tools.exits import exit_code; sys.exit(exit_code(lambda: print('x' * 100_000) or WITH))"
)


def said(code, closed):
    """(exit code, stderr) of Python code whose stdout has no reader, or no room."""
    if closed:
        read, out = os.pipe()
        os.close(read)
    else:
        out = os.open("/dev/full", os.O_WRONLY)
    try:
        command = [sys.executable, "-c", code]
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, env=buffered, check=False)
    finally:
        os.close(out)
    return done.returncode, done.stderr


def test_what_nobody_reads_is_no_fault():
    assert said(TELL, closed=True) == (0, "")
    assert said(TOOL.replace("WITH", "0"), closed=True) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_what_has_no_room_is_a_line():
    line = "stdout: No space left on device\n"
    assert said(TELL, closed=False) == (1, line)
    assert said(TOOL.replace("WITH", "0"), closed=False)[0] == 1
    code, err = said(TOOL.replace("WITH", "3").replace("'x' * 100_000", "'x'"), closed=False)
    assert (code, err) == (3, line)


@pytest.mark.timeout(120)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_run_is_worth_what_it_has_recorded(tmp_path):
    quick = ["env=kinematic", "pool=scripted", "env.num_envs=2", "num_demos=2", "tracker=none", "preview=false"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, str(ROOT / "run.py"), *quick, f"hydra.run.dir={tmp_path}/run"],
            stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.endswith("stdout: No space left on device\n")
    assert (tmp_path / "run" / "dataset" / "meta" / "info.json").is_file()
