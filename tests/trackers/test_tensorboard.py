import sys

import pytest

from mimicpipe.trackers.tensorboard import TensorboardTracker

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_scalars_lie_on_env_steps(tmp_path):
    tracker = TensorboardTracker(tmp_path, {"seed": 3})
    tracker.log({"throughput/demos_per_hour": 12.0}, env_steps=40, wall_s=2.5)
    tracker.log({"throughput/demos_per_hour": 14.0}, env_steps=80, wall_s=5.0)
    tracker.close({"exit_reason": "num_demos"}, 0)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    rows = [(event.step, event.value) for event in events.Scalars("throughput/demos_per_hour")]
    assert rows == [(40, 12.0), (80, 14.0)]
    assert [event.value for event in events.Scalars("wall_s")] == [2.5, 5.0]
    assert {"config/text_summary", "summary/text_summary"} <= set(events.Tags()["tensors"])


def test_a_missing_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ImportError, match=r"pip install -e '\.\[tensorboard\]'"):
        TensorboardTracker(tmp_path, {})
