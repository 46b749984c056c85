"""Recorders that are slow, that fail, that hang."""

import asyncio
import threading
import time

import pytest
from fault_runs import BOTH_ENVS, Run, assert_exact, assert_others_are_unchanged, reference
from generators import MemorySink, PlanGenerator
from test_faults_generator import LIMIT_S, Swallows

from mimicpipe.errors import RecorderError, StallError
from mimicpipe.pipeline.generation import generate
from mimicpipe.recorders.bounded_queue import BoundedQueue


class QueuedSink(MemorySink):
    """Episodes go through the recorders' queue, of two, to a thread that takes `seconds` for each."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.queue: BoundedQueue = BoundedQueue(2, 0)
        self.seconds = seconds
        self.thread = threading.Thread(target=self._write, daemon=True)
        self.thread.start()

    def _write(self) -> None:
        while (episode := self.queue.get()) is not None:
            time.sleep(self.seconds)
            self.episodes.append(episode)

    def try_commit(self, episode):
        return self.queue.try_put(episode, episode.nbytes)

    def commit(self, episode):
        self.queue.put(episode, episode.nbytes)

    def finalize(self):
        self.queue.close()
        self.thread.join()


@BOTH_ENVS
def test_a_slow_one_holds_the_simulator_up_is_no_stall_and_loses_nothing(env_class):
    """In all it takes several times `stall_timeout_s`, and much of that after the last step."""
    env, sink = env_class(16), QueuedSink(0.25)
    run = Run(env, PlanGenerator(env, fail_every=10**9), num_demos=16, sink=sink, stall_timeout_s=1.0).go()
    sink.finalize()
    assert run.error is None
    assert run.reason == "num_demos"
    assert run.seconds > 3 * 1.0
    assert [e.outcome.attempt for e in sink.episodes] == list(range(16))
    stats = sink.queue.stats()
    assert stats["backpressure_events"] >= 12
    assert stats["backpressure_s"] > 1.0
    assert stats["queue_peak"] == 2
    wall_s, seconds, _ = run.state.clock.read()
    assert sum(seconds.values()) == pytest.approx(wall_s)


@BOTH_ENVS
def test_a_stop_while_a_commit_waits_counts_that_episode(env_class):
    env, sink = env_class(8), QueuedSink(0.3)

    async def stop_at_once(state):
        while not sink.queue.stats()["backpressure_events"]:
            await asyncio.sleep(0.01)
        state.budget.stop("SIGINT")

    run = Run(env, PlanGenerator(env, fail_every=10**9), num_demos=100, sink=sink).go(stop_at_once)
    sink.finalize()
    assert run.reason == "SIGINT"
    assert len(sink.episodes) == len(run.outcomes) == run.state.counters.episodes_committed > 0
    assert run.state.budget.successes == len(sink.episodes)


@BOTH_ENVS
@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("at", [0, 3])
def test_one_that_raises_ends_the_run_with_its_own_exception(env_class, blocking, at):
    class DiskFull(MemorySink):
        def try_commit(self, episode):
            return False if blocking else super().try_commit(episode)

        def commit(self, episode):
            if len(self.episodes) == at:
                raise RecorderError("not written") from OSError("disk full")
            super().commit(episode)

    env = env_class(4)
    run = Run(env, PlanGenerator(env), sink=DiskFull()).go()
    assert isinstance(run.error, RecorderError)
    assert str(run.error.__cause__) == "disk full"
    assert len(run.sink.episodes) == run.state.counters.episodes_committed == at
    assert sum(o.success for o in run.outcomes) == at
    assert_others_are_unchanged(run, set(), reference())


@BOTH_ENVS
def test_one_that_raises_ends_attempts_that_swallow_their_cancellation_without_counting_them(env_class):
    class DiskFull(MemorySink):
        def try_commit(self, episode):
            return len(self.episodes) < 2 and super().try_commit(episode)

        def commit(self, episode):
            if len(self.episodes) == 2:
                raise OSError("disk full")
            super().commit(episode)

    env = env_class(4)
    run = Run(env, Swallows(env, "returns"), num_demos=100, sink=DiskFull(), max_episode_steps=10**6).go()
    assert str(run.error) == "disk full"
    assert [o.attempt for o in run.outcomes] == [0, 1, 2]
    assert run.seconds < LIMIT_S


@BOTH_ENVS
def test_one_that_hangs_is_named(env_class):
    answers = threading.Event()

    class Hangs(MemorySink):
        def try_commit(self, episode):
            if len(self.episodes) < 2:
                MemorySink.commit(self, episode)
                return True
            return False

        def commit(self, episode):
            answers.wait(30)
            MemorySink.commit(self, episode)

    env = env_class(4)
    run = Run(env, PlanGenerator(env), sink=Hangs(), stall_timeout_s=0.6)

    async def main():
        try:
            await asyncio.wait_for(generate(run.state, run.generator), 20)
        finally:
            answers.set()  # asyncio.run waits for its threads

    with pytest.raises(StallError) as caught:
        asyncio.run(main())
    assert "the recorder has not taken the episode of attempt 3" in str(caught.value)


@BOTH_ENVS
def test_the_row_of_a_failed_attempt_may_go_to_a_slow_recorder_of_its_own(env_class):
    env, failed = env_class(4), QueuedSink(0.02)
    run = Run(env, PlanGenerator(env), failed_sink=failed).go()
    failed.finalize()
    assert_exact(run)
    assert [e.outcome.attempt for e in failed.episodes] == [o.attempt for o in run.outcomes if not o.success]
