"""Completing a dataset: no limit on slow work, a limit on silence."""

import asyncio
import threading
import time

import pytest

from mimicpipe.errors import StallError
from mimicpipe.recorders.base import Recorder
from mimicpipe.recorders.finalizing import PatientExecutor, finalize


class Finalizing(Recorder):
    """Its `finalize` is a function of this test, and its queue has so many episodes."""

    def __init__(self, work) -> None:
        self.work = work
        self.queued = 0

    def commit(self, episode):
        raise NotImplementedError

    def finalize(self):
        return self.work(self)

    def stats(self):
        return {"queue_size": self.queued, "backpressure_s": time.perf_counter()}


def run(work, stall_timeout_s=0.4):
    return asyncio.run(finalize(Finalizing(work), stall_timeout_s))


def test_the_result_and_the_exception_are_the_recorders(tmp_path):
    assert run(lambda _: tmp_path) == tmp_path

    def fail(_):
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        run(fail)


def test_a_writer_that_takes_one_episode_after_another_is_waited_for(tmp_path):
    def drain(recorder):
        for left in reversed(range(15)):
            time.sleep(0.08)
            recorder.queued = left
        return tmp_path

    assert run(drain) == tmp_path


def test_one_that_computes_is_waited_for(tmp_path):
    def compute(_):
        until = time.monotonic() + 1.2
        while time.monotonic() < until:
            sum(range(1000))
        return tmp_path

    assert run(compute) == tmp_path


def test_silence_has_a_limit_and_its_thread_holds_nobody_up():
    answers = threading.Event()

    def hang(_):
        while not answers.wait(0.2):  # looks now and then, which is no sign of life
            pass

    async def main():
        asyncio.get_running_loop().set_default_executor(PatientExecutor(grace_s=0.1))
        await finalize(Finalizing(hang), 0.4)

    with pytest.raises(StallError, match=r"no sign of life for 0\.4 s .* mimicpipe\.tools\.recover"):
        asyncio.run(main())
    assert not answers.is_set()
    answers.set()
