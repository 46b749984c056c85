"""run.py's main in this process, for tests of whole runs: the heavy imports are done once."""

import importlib.util
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

ROOT = Path(__file__).parents[1]


def run_main(arguments: Sequence[str], cwd: Path) -> int:
    """Run `python run.py ARGUMENTS` in a folder; returns the exit code, and leaves this process as it was."""
    spec = importlib.util.spec_from_file_location("run", ROOT / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    root, before, here = logging.getLogger(), list(logging.getLogger().handlers), Path.cwd()
    os.chdir(cwd)
    try:
        with patch.object(sys, "argv", ["run.py", *arguments]), patch.dict(os.environ):
            return module.main()
    finally:
        os.chdir(here)
        for handler in [h for h in root.handlers if h not in before]:
            root.removeHandler(handler)
            handler.close()
