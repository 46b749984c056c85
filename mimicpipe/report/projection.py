"""From where the scene is looked at, in schematic drawings and, at first, in the page's figure of paths."""

import math

import numpy as np
import numpy.typing as npt

AZIMUTH, ELEVATION = math.radians(40.0), math.radians(28.0)
"""Where the eye is, seen from the scene's centre: from +x towards +y, and above the horizon."""


def view_axes() -> npt.NDArray[np.float64]:
    """(3, 3): right, up, and towards the eye, as rows, in the scene's frame; z is up. Orthographic."""
    ca, sa, ce, se = math.cos(AZIMUTH), math.sin(AZIMUTH), math.cos(ELEVATION), math.sin(ELEVATION)
    return np.array([[-sa, ca, 0.0], [-ca * se, -sa * se, ce], [ca * ce, sa * ce, se]])
