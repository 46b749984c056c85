"""What a run's report is made of."""

from mimicpipe.pipeline.telemetry import IdleTimingSelector, StageClock


def test_sleep_while_the_recorder_drains_is_the_recorders():
    selector = IdleTimingSelector()
    clock = StageClock(selector)
    selector.idle_s += 2.0
    with clock.idle_is("record"):
        selector.idle_s += 3.0
    selector.idle_s += 4.0
    seconds = clock.seconds()
    assert (seconds["wait"], seconds["record"]) == (6.0, 3.0)
    selector.close()
