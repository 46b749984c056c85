"""Loops compiled to machine code, where numpy's cost for each call, not the arithmetic, is what a step waits for.

A compiled function is a plain loop over a batch that treats one row after the other, so a row's bits cannot depend on
the batch it is in. Constants of other modules are passed as arguments, and a compiled function calls only those of its
own file: numba keeps machine code beside the file and looks only there for changes.
"""

from collections.abc import Callable
from typing import Any

import numba

# numba's types are made as it is imported, where a type checker does not see them.
_numba: Any = numba
# Intel's vector functions, where installed, would compute a loop's last rows with other code than the rows before.
_numba.config.DISABLE_INTEL_SVML = True


def compiled[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of numpy arrays and numbers at its first call; it then runs without the GIL.

    No fast-math: additions stay in the order in which they are written, and division by zero gives infinity or NaN.
    Machine code is kept for the next process, where any folder for it can be written.
    """
    options = {"nogil": True, "error_model": "numpy"}
    try:
        return _numba.njit(function, cache=True, **options)
    except RuntimeError:  # no folder can be written; the function is compiled again in each process
        return _numba.njit(function, **options)
