"""Runs the commands of the README that use examples/, in this process."""

from collections.abc import Callable
from pathlib import Path

import pytest
from in_process import ROOT, run_main

OWN = ["--config-dir", str(ROOT / "examples" / "conf"), "allowed_targets=[examples]"]


@pytest.fixture
def run(tmp_path, monkeypatch, capfd) -> Callable[..., Path]:
    """`run.py` with examples/conf: (overrides) -> the output folder; fails unless the exit code is 0."""
    monkeypatch.syspath_prepend(ROOT)
    count = 0

    def call(*overrides: str) -> Path:
        nonlocal count
        count += 1
        folder = tmp_path / f"run_{count}"
        code = run_main([*OWN, "tracker=none", *overrides, f"hydra.run.dir={folder}"], tmp_path)
        assert code == 0, capfd.readouterr().err
        return folder

    return call
