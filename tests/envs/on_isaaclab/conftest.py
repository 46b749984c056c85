"""Shared settings of the tests of env=isaaclab."""

import pytest


@pytest.fixture(autouse=True)
def _hydra_1_3():
    import hydra.version

    hydra.version.setbase("1.3")
