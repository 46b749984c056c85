"""What a job says that has failed: one line where a person can mend it, everything where the program is at fault."""

import errno
import shlex
import sys
import traceback
from pathlib import Path

from mimicpipe.errors import ConfigError, MimicpipeError, RecorderError
from mimicpipe.report.format import near


def say_failure(error: Exception, folder: Path) -> tuple[str, int]:
    """Print why the job in an output folder has failed; (exit reason, exit code)."""
    full = _is_full(error)
    of_storage = isinstance(error, RecorderError) and isinstance(error.__cause__, OSError | RecorderError | None)
    if full or of_storage or isinstance(error, MimicpipeError):
        print(f"error: {error}", file=sys.stderr)
    else:
        traceback.print_exception(error)
    if full:
        resume = f"python run.py resume={shlex.quote(near(folder))}"
        print(f"free some space there; then `{resume}` goes on with what is durable", file=sys.stderr)
    return f"{type(error).__name__}: {error}", 2 if isinstance(error, ConfigError) else 1


def _is_full(error: BaseException | None) -> bool:
    """Whether an exception, or what has led to it, is a full disk."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__
    return False
