"""A conversion that kills itself: `python killed_conversion.py MOMENT SOURCE TARGET FLAGS...`.

MOMENT: "reading" (something is durable, something is not), "assembling" (all is durable, nothing is published) or
"published" (only tidying up is left).
"""

import os
import signal
import sys
import time
from pathlib import Path
from unittest.mock import patch

from mimicpipe.convert import to_hdf5, to_lerobot
from mimicpipe.recorders import staging_area
from mimicpipe.recorders.staging_area import count_staged, staging_path
from mimicpipe.tools import convert


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def die_before_the_last(target, function, last):
    """`function`, but killed at its call number `last`, once an earlier one's episode is durable."""
    calls = 0

    def counting(*args):
        nonlocal calls
        calls += 1
        if calls == last:
            while count_staged(staging_path(target)) == 0:
                time.sleep(0.01)
            die()
        return function(*args)

    return counting


def replace(owner, name, new):
    patch.object(owner, name, new).start()


def main():
    moment, target = sys.argv[1], Path(sys.argv[3])
    if moment == "reading":
        replace(to_hdf5, "_GROUP", 2)
        replace(to_lerobot, "read_episode", die_before_the_last(target, to_lerobot.read_episode, 5))
        replace(to_hdf5, "_packed", die_before_the_last(target, to_hdf5._packed, 5))
    elif moment == "assembling":
        replace(staging_area, "replace_folder", lambda *_: die())
        replace(to_hdf5, "write_file", lambda *_: die())
    else:
        move, move_folder = os.replace, staging_area.replace_folder
        replace(os, "replace", lambda *args: (move(*args), die()))
        replace(staging_area, "replace_folder", lambda *args: (move_folder(*args), die()))
    sys.exit(convert.main(sys.argv[2:]))


if __name__ == "__main__":
    main()
