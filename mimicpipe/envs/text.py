"""Text as an env observes it: UTF-8 in a uint8 tensor (K, L), filled up with zeros."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor


def encode_text(texts: Sequence[str], width: int) -> "Tensor":
    """Texts as rows (K, width) uint8, for a `Feature("string", (width,))`.

    Raises:
        ValueError: a text that needs more than `width` bytes, or that has a NUL in it.
    """
    import torch  # late, so that a command line is checked without it

    rows = np.zeros((len(texts), width), np.uint8)
    for row, text in zip(rows, texts, strict=True):
        encoded = text.encode()
        if len(encoded) > width or b"\0" in encoded:
            reason = "has a NUL in it" if b"\0" in encoded else f"needs {len(encoded)} bytes, and there are {width}"
            raise ValueError(f"text {text!r} {reason}")
        row[: len(encoded)] = np.frombuffer(encoded, np.uint8)
    return torch.from_numpy(rows)


def decode_text(rows: np.ndarray) -> list[str]:
    """The texts of rows (K, L) uint8.

    Raises:
        ValueError: a row that is no UTF-8, or with a NUL between its characters; says which.
    """
    texts = []
    for number, row in enumerate(np.ascontiguousarray(rows)):
        encoded = row.tobytes().rstrip(b"\0")
        if b"\0" in encoded:
            raise ValueError(f"a NUL between characters in frame {number}")
        try:
            texts.append(encoded.decode())
        except UnicodeDecodeError as error:
            raise ValueError(f"no UTF-8 in frame {number} ({error.reason})") from None
    return texts
