"""The order of quaternions in files: known or declared, never guessed.

Isaac Lab wrote wxyz up to version 2 and writes xyzw since version 3, whose files say `format_version` 1; robosuite's
are xyzw. Nothing in older files tells which. Values are changed only where another order is asked for, and then the
order they have must be known.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from mimicpipe.errors import ConfigError

ORDERS = ("wxyz", "xyzw")
KEYS = ("*quat", "*root_pose")
"""Keys that hold quaternions, unless others are named: of four numbers, or of a position and four."""
_WIDTHS = (4, 7)


@dataclass(frozen=True)
class Quaternions:
    """What is known of a file's quaternions, and what is to become of them.

    Attributes:
        order: "wxyz" or "xyzw"; None where nobody has said.
        source: who has said so.
        wanted: the order they are to have; None leaves them as they are.
        keys: patterns of their keys in a demo.
    """

    order: str | None
    source: str
    wanted: str | None = None
    keys: Sequence[str] = KEYS

    def __post_init__(self) -> None:
        if self.wanted is not None and self.order is None:
            raise ConfigError(
                f"--to-quaternions {self.wanted}: the file does not say which order its quaternions have; "
                "declare it with --quaternions wxyz or --quaternions xyzw"
            )

    @property
    def result(self) -> str | None:
        """The order after the conversion."""
        return self.wanted or self.order

    @property
    def reorders(self) -> bool:
        """Whether values are moved."""
        return self.wanted is not None and self.wanted != self.order

    def holds(self, path: str, shape: Sequence[int]) -> bool:
        """Whether the array (..., 4) or (..., 7) at a key is one of quaternions, or of poses with one."""
        return bool(shape) and shape[-1] in _WIDTHS and any(fnmatchcase(path, pattern) for pattern in self.keys)

    def apply(self, path: str, values: np.ndarray) -> np.ndarray:
        """Values (..., 4 or 7) of a key in the wanted order, bit for bit; of any other key as they are."""
        if not self.reorders or not self.holds(path, values.shape):
            return values
        at = values.shape[-1] - 4
        moved = np.roll(values[..., at:], 1 if self.wanted == "wxyz" else -1, axis=-1)
        return np.concatenate([values[..., :at], moved], axis=-1)

    def said(self, paths: Iterable[tuple[str, Sequence[int]]]) -> str | None:
        """One line on the keys that hold quaternions; None without any."""
        found = sorted(path for path, shape in paths if self.holds(path, shape))
        if not found:
            return None
        keys = ", ".join(found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "")
        if self.order is None:
            return f"quaternions ({keys}): order unknown, left as they are; declare it with --quaternions"
        done = f"changed to {self.wanted}" if self.reorders else "left as they are"
        return f"quaternions ({keys}): {self.order}, as {self.source} says; {done}"


def order_of(
    declared: str | None, wanted: str | None, keys: Sequence[str], version: float | None, known: str | None = None
) -> Quaternions:
    """What to do with a file's quaternions.

    Args:
        declared: the order that the user names.
        wanted: the order that the user asks for.
        keys: patterns that the user gives; empty: `KEYS`.
        version: Isaac Lab's `format_version`, where the file has one.
        known: the order that an earlier conversion has noted.

    Raises:
        ConfigError: an order is asked for, and the present one is unknown.
    """
    order, source = declared, "--quaternions"
    if order is None and known is not None:
        order, source = known, "the earlier conversion"
    if order is None and version is not None and version >= 1:
        order, source = "xyzw", f"format_version {version:g}"
    return Quaternions(order, source, wanted, tuple(keys) or KEYS)
