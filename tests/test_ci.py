"""What continuous integration runs, in a toy repository with a `make` that only notes what it was asked for."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / ".ci" / "run"


@pytest.fixture
def ci(tmp_path):
    """Runs the script; `make TARGET` runs the given shell commands."""
    repository, tools = tmp_path / "clone", tmp_path / "tools"
    (repository / ".ci").mkdir(parents=True)
    tools.mkdir()
    shutil.copy(SCRIPT, repository / ".ci" / "run")
    (repository / ".gitignore").write_text("outputs/\n")
    (repository / "README.md").write_text("as committed\n")
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    for command in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "all")):
        subprocess.run(["git", *command], cwd=repository, check=True)

    def run(**commands: str) -> tuple[int, list[str], str]:
        cases = "".join(f"{name.replace('_', '-')}) {command} ;;\n" for name, command in commands.items())
        make = tools / "make"
        make.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/made\ncase "$1" in\n{cases}esac\n')
        make.chmod(0o755)
        (tmp_path / "made").unlink(missing_ok=True)
        environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
        done = subprocess.run(
            [repository / ".ci" / "run"], env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        return done.returncode, (tmp_path / "made").read_text().split(), done.stdout + done.stderr

    return run


def test_what_is_made_in_which_order(ci):
    code, made, said = ci(experiments_smoke="mkdir -p outputs/smoke && touch outputs/smoke/a.md")
    assert code == 0, said
    assert made[:3] == ["test", "docs", "experiments-smoke"]
    assert made[3:] == ["test-isaaclab"] or "SKIPPED: make test-isaaclab (" in said


@pytest.mark.parametrize("target", ["test", "docs", "experiments_smoke"])
def test_one_that_fails_ends_it(ci, target):
    code, made, _ = ci(**{target: "exit 3"})
    assert code == 3
    assert made[-1] == target.replace("_", "-")


@pytest.mark.parametrize(
    ("command", "named"),
    [("echo x > figure.png", "figure.png"), ("echo changed >> README.md", "README.md"), ("rm README.md", "README.md")],
)
def test_what_git_sees_of_it_is_a_failure(ci, command, named):
    code, made, said = ci(docs=command)
    assert (code, made[-1]) == (1, "experiments-smoke")
    assert "FAILED: make test, docs or experiments-smoke wrote what git does not ignore, or changed" in said
    assert named in said


def test_what_was_changed_before_is_no_failure(ci):
    assert ci(docs="echo changed >> README.md")[0] == 1
    assert ci()[0] == 0
    assert ci(docs="echo once more >> README.md")[0] == 1
