"""Text for a person on stdout, whoever may have closed it: `| head -1`, a full disk behind `>`."""

import os
import sys
from collections.abc import Callable


def tell(say: Callable[[], None]) -> bool:
    """Print, and see that it arrives; false, and a line on stderr, where that fails.

    That nobody reads any more is no failure. Later output goes nowhere in either case.
    """
    try:
        say()
        sys.stdout.flush()
    except BrokenPipeError:
        drop()
    except OSError as error:
        print(f"stdout: {error.strerror}", file=sys.stderr)
        drop()
        return False
    return True


def drop() -> None:
    """Let what is still buffered, and what follows, go nowhere: Python would complain at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
