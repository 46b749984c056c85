"""How a tool ends when what it does cannot be done: one line on stderr, and an exit code."""

import sys
from collections.abc import Callable

from mimicpipe.errors import ConfigError, MimicpipeError


def exit_code(work: Callable[[], object]) -> int:
    """Run `work`: 0; 2 where what was asked for cannot be, 1 where it failed, each with one line; 130 at Ctrl-C."""
    try:
        work()
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (MimicpipeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0
