import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mimicpipe.planners.pacing import fractions, turn_between

FPS = 20


@settings(deadline=None, max_examples=60)
@given(duration=st.floats(1e-3, 30.0))
def test_a_way_rises_to_its_end_and_is_never_gone_faster_than_in_its_time(duration):
    share = fractions(duration, FPS)
    steps = np.diff(np.concatenate(([0.0], share)))
    assert share[-1] == 1.0
    assert (steps > 0.0).all()
    assert steps.max() <= 1.0 / (FPS * duration) + 1e-12
    # From rest to rest: the first and the last step are no longer than those between.
    assert max(steps[0], steps[-1]) <= steps.max()
    assert len(share) <= (duration + 0.3) * FPS + 1


def test_no_way_is_one_step():
    assert fractions(0.0, FPS).tolist() == [1.0]


@pytest.mark.parametrize("angle", [0.0, 1e-4, 1.0, 3.1])
def test_the_angle_between_rotations(angle):
    turned = np.array([[np.cos(angle), -np.sin(angle), 0.0], [np.sin(angle), np.cos(angle), 0.0], [0.0, 0.0, 1.0]])
    assert turn_between(turned, np.eye(3)) == pytest.approx(angle, abs=1e-7)
