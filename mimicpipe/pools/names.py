"""Names found in files: their natural order, and their text in messages."""

import re
from collections.abc import Sequence

_SHOWN = 10


def natural_key(name: str) -> tuple[tuple[int, str], ...]:
    """Sort key that orders runs of digits by value: demo_2 before demo_10."""
    parts = re.split(r"([0-9]+)", name)
    # Odd parts are digits; (length, text) without leading zeros orders numbers of any size without converting them.
    digits = [p.lstrip("0") for p in parts[1::2]]
    pairs = [(0, parts[0])]
    for number, text in zip(digits, parts[2::2], strict=True):
        pairs += [(len(number), number), (0, text)]
    return (*pairs, (0, name))


def show(name: str) -> str:
    """A name from a file, safe to print on any terminal."""
    return name if name.isascii() and name.isprintable() else ascii(name)


def listing(names: Sequence[str]) -> str:
    """Names for a message, in natural order, at most ten of them."""
    shown = ", ".join(show(n) for n in sorted(names, key=natural_key)[:_SHOWN]) or "nothing"
    return shown + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
