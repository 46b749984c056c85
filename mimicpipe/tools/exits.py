"""How every tool begins and ends: what --help says, and one line on stderr with an exit code where something fails."""

import argparse
import re
import shutil
import sys
import textwrap
from collections.abc import Callable
from typing import Any

from mimicpipe import stdout
from mimicpipe.errors import ConfigError, MimicpipeError, RecorderError, SourceDemoError

EXIT_CODES = "Exit code: 0 done, 1 failed, 2 cannot be done as it was asked, 130 after Ctrl-C."


def tool_parser(name: str, doc: str | None, *, exit_codes: str = EXIT_CODES, **more: Any) -> argparse.ArgumentParser:
    """A tool's parser, whose --help says what the head of its module does.

    Args:
        name: of the module in mimicpipe.tools.
        doc: the module's docstring; the command in its first line is left out, since the usage shows it.
        exit_codes: what its exit codes mean, where it has others than most.
        more: for ArgumentParser.
    """
    width = shutil.get_terminal_size().columns - 2
    blocks = re.sub(r":\s`[^`]*python -m [^`]*`", "", (doc or "").strip(), count=1).split("\n\n")
    filled = [block if block.startswith("* ") else textwrap.fill(block, width) for block in blocks]
    return argparse.ArgumentParser(
        prog=f"python -m mimicpipe.tools.{name}",
        description="\n\n".join(filled),
        epilog=textwrap.fill(exit_codes, width),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        **more,
    )


def exit_code(work: Callable[[], int | None], *, in_words: Callable[[str], str] = str, interrupted: str = "") -> int:
    """Run a tool's work and turn an error into one line on stderr.

    Args:
        work: returns its own exit code, or None for 0.
        in_words: what becomes of an error's message before it is said.
        interrupted: what is said after Ctrl-C.

    Returns:
        What `work` returned; 2 where it cannot be done as it was asked, 1 where it failed, 130 after Ctrl-C.
    """
    try:
        code = work() or 0
    except BrokenPipeError:
        stdout.drop()
        return 0
    except (ConfigError, SourceDemoError) as error:
        code, said = 2, f"error: {in_words(str(error))}"
    except (MimicpipeError, RecorderError, OSError) as error:
        code, said = 1, f"error: {in_words(str(error))}"
    except KeyboardInterrupt:
        code, said = 130, interrupted
    else:
        return code if stdout.tell(lambda: None) or code else 1
    if said:
        print(said, file=sys.stderr)
    stdout.tell(lambda: None)  # or Python would complain at its end of what is still buffered
    return code
