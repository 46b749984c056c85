"""What every test of env=isaaclab that runs Isaac Lab begins with."""

import warnings

import pytest

from mimicpipe.envs.isaaclab.extra import PACKAGES

PICK = "Mimicpipe-Pick-Panda-IK-Rel-Mimic-v0"
PICK_ABS = "Mimicpipe-Pick-Panda-IK-Abs-Mimic-v0"

MARKS = (
    pytest.mark.isaaclab,
    pytest.mark.timeout(1800),  # the first start on a machine compiles kernels: minutes, if it is busy
    pytest.mark.filterwarnings("ignore"),  # Isaac Lab's own
)


SLOW = (*MARKS, pytest.mark.slow)
"""For what `make test-isaaclab-smoke` leaves to `make test-isaaclab`."""


def require() -> None:
    """Skip the module, visibly, where Isaac Lab is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its imports use what torch has deprecated
        for package in PACKAGES:
            pytest.importorskip(package, reason="the extra isaaclab is not installed: make isaaclab")
