"""Where the states of a stretch stand: first the K to start from, then those after each step, step by step.

Step m has `sizes[m]` rows, those of the first so many slots; see `MimicEnv.start_stretch`.
"""

import numpy as np
import numpy.typing as npt

from mimicpipe.compiled import compiled

Ints = npt.NDArray[np.int64]


@compiled
def rows_before(sizes: Ints) -> Ints:
    """(R,) where the state stands that each row's action starts from, of steps with `sizes` (T,) rows."""
    at = np.empty(sizes.sum(), dtype=np.int64)
    row, before, after = 0, 0, sizes[0]
    for m in range(len(sizes)):
        for i in range(sizes[m]):
            at[row + i] = before + i
        before, after, row = after, after + sizes[m], row + sizes[m]
    return at


@compiled
def last_rows(sizes: Ints) -> Ints:
    """(K,) where each slot's last state stands."""
    at = np.empty(sizes[0], dtype=np.int64)
    first = sizes[0]
    for m in range(len(sizes)):
        for i in range(sizes[m]):
            at[i] = first + i
        first += sizes[m]
    return at
