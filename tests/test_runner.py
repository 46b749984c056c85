"""What a run's report is made of."""

from mimicpipe.pipeline.telemetry import IdleTimingSelector, StageClock


def test_sleep_while_the_recorder_drains_is_the_recorders():
    selector = IdleTimingSelector()
    clock = StageClock(selector)
    selector.idle_s += 2.0
    clock.charge_idle_to("record")
    selector.idle_s += 3.0
    seconds = clock.seconds()
    assert (seconds["wait"], seconds["record"]) == (2.0, 3.0)
    selector.close()
