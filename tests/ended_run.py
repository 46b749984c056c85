"""A run that ends itself: `python ended_run.py SIGNAL ROWS ARGUMENTS...`.

It is `run.py ARGUMENTS`, which sends itself the signal once it has added so many rows to attempts.jsonl; so the signal
never comes too late, however slow the machine is.
"""

import os
import runpy
import signal
import sys
from pathlib import Path
from unittest.mock import patch

from mimicpipe.report.attempts import AttemptsLog

RUN = Path(__file__).parents[1] / "run.py"


def main():
    number, left = signal.Signals[sys.argv[1]], int(sys.argv[2])
    write = AttemptsLog.write

    def counting(self, outcome):
        nonlocal left
        write(self, outcome)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), number)

    sys.argv = [str(RUN), *sys.argv[3:]]
    with patch.object(AttemptsLog, "write", counting):
        runpy.run_path(str(RUN), run_name="__main__")


if __name__ == "__main__":
    main()
