"""Runs the commands of the README that use examples/, in this process."""

import importlib.util
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OWN = ["--config-dir", str(ROOT / "examples" / "conf"), "allowed_targets=[examples]"]


@pytest.fixture
def run(tmp_path, monkeypatch, capfd) -> Iterator[Callable[..., Path]]:
    """`run.py` with examples/conf: (overrides) -> the output folder; fails unless the exit code is 0."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")  # run.py sets it; this takes it back
    spec = importlib.util.spec_from_file_location("run", ROOT / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    handlers = list(logging.getLogger().handlers)
    count = 0

    def call(*overrides: str) -> Path:
        nonlocal count
        count += 1
        folder = tmp_path / f"run_{count}"
        arguments = [*OWN, "tracker=none", *overrides, f"hydra.run.dir={folder}"]
        monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
        code = module.main()
        assert code == 0, capfd.readouterr().err
        return folder

    yield call
    for handler in [h for h in logging.getLogger().handlers if h not in handlers]:
        logging.getLogger().removeHandler(handler)
        handler.close()
