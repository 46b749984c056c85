"""env=mujoco_warp without its packages: one line that says how to get them, and nothing imported for it."""

import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest

from mimicpipe.envs.mujoco_warp import extra
from mimicpipe.errors import ConfigError


def test_missing_packages_are_named_with_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    found = util.find_spec
    monkeypatch.setattr(extra, "find_spec", lambda name: None if name == "warp" else found("json"))
    with pytest.raises(ConfigError, match=r"^env=mujoco_warp: .*\(warp not installed\).*make warp"):
        extra.check_installed()


def test_installed_packages_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extra, "PACKAGES", ("json", "pathlib"))
    extra.check_installed()


@pytest.mark.skipif(util.find_spec("mujoco_warp") is not None, reason="the extra is installed")
def test_command_line_refuses_before_anything_heavy_is_imported() -> None:
    code = (
        "import runpy, sys\nsys.argv = ['run.py', 'env=mujoco_warp', 'env.device=cpu']\n"
        "try:\n    runpy.run_path('run.py', run_name='__main__')\n"
        "finally:\n    assert 'torch' not in sys.modules and 'mujoco' not in sys.modules\n"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: env=mujoco_warp: needs the extra mujoco_warp")
    assert done.stderr.count("\n") == 1
