"""How sure a rate is that was counted."""

import math

Z_95 = 1.959963984540054
"""97.5 % quantile of the standard normal distribution."""


def wilson(successes: int, trials: int, z: float = Z_95) -> tuple[float, float]:
    """Score interval of a proportion (Wilson, JASA 22, 1927): right near 0 and 1, where the normal interval is not.

    Raises:
        ValueError: no trials, or not from 0 to `trials` successes.
    """
    if not 0 <= successes <= trials or trials == 0:
        raise ValueError(f"{successes} successes of {trials} trials")
    p, z2 = successes / trials, z * z
    center = (p + z2 / (2 * trials)) / (1 + z2 / trials)
    half = z / (1 + z2 / trials) * math.sqrt(p * (1 - p) / trials + z2 / (4 * trials * trials))
    # Exactly the rate at the ends, where rounding would leave it outside.
    return (0.0 if successes == 0 else center - half), (1.0 if successes == trials else center + half)
