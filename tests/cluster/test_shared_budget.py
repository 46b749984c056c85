"""What several workers make is settled as one process would, whoever is quicker and whoever is lost."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mimicpipe.cluster.messages import Made
from mimicpipe.cluster.shared_budget import SharedBudget
from mimicpipe.pipeline.budget import Budget, BudgetLimits, Share
from mimicpipe.pipeline.episode import Outcome
from mimicpipe.pipeline.ledger import ERRORS


def outcome_of(attempt, success, reason=None):
    reason = reason or ("success" if success else "not_successful")
    return Outcome(attempt, 0, 7 * attempt, success, reason, 5, episode_index=99 if success else None)


def made(attempt, success, reason=None):
    return Made(outcome_of(attempt, success, reason), recorded=success)


def of_one_process(limits, outcomes):
    """(attempts that one process settles, why it ends), making one attempt after the other."""
    budget = Budget(limits)
    while taken := budget.take_nowait():
        budget.finish(taken[0], outcomes[taken[0]])
        budget.settle()
    return budget.attempts, budget.stop_reason


class Worker:
    """Makes its share as a pipeline does: takes what it is allowed, finishes in any order, reports in its own."""

    def __init__(self, share, shared, slots):
        self.slots = slots
        self.budget = Budget(BudgetLimits(1000), share=share)
        self.budget.resume(shared.outcomes(share))
        self.flying = []

    def step(self, chance, shared, outcomes):
        self.budget.allow(shared.horizon)
        for attempt in self.budget.take_nowait(self.slots - len(self.flying)):
            assert attempt < shared.horizon
            assert attempt % self.budget.share.step == self.budget.share.first
            self.flying.append(attempt)
        if self.flying:
            attempt = self.flying.pop(chance.randrange(len(self.flying)))
            self.budget.finish(attempt, outcomes[attempt])
        settled = []
        while (attempt := self.budget.settle()) is not None:
            settled.append(made(attempt, outcomes[attempt]))
        return settled


@settings(deadline=None, max_examples=100)
@given(
    seed=st.integers(0, 2**32),
    limits=st.builds(BudgetLimits, st.integers(1, 20), st.none() | st.integers(1, 40), st.none() | st.integers(1, 15)),
    count=st.integers(1, 4),
    slots=st.integers(1, 3),
)
def test_the_limits_are_exact_whoever_is_quicker(seed, limits, count, slots):
    chance = random.Random(seed)
    outcomes = [chance.random() < 0.5 for _ in range(40)] + [True] * 300
    settled = []
    before = chance.randrange(of_one_process(limits, outcomes)[0])  # of a run that is gone on with
    shared = SharedBudget(limits, settled.append, lead=count * slots + 2, max_errors=1000, outcomes=outcomes[:before])
    assert shared.budget.stop_reason is None
    workers = [Worker(Share(w, count), shared, slots) for w in range(count)]
    for _ in range(2000):
        if shared.budget.stop_reason is not None:
            break
        number = chance.randrange(count)
        rows = workers[number].step(chance, shared, outcomes)
        fate = chance.randrange(10)
        if fate > 1:
            shared.report(rows)
        elif fate == 1:  # its reports arrive, and then it is lost
            shared.report(rows)
            workers[number] = Worker(Share(number, count), shared, slots)
        else:  # lost with what it had to say
            workers[number] = Worker(Share(number, count), shared, slots)
    attempts, reason = of_one_process(limits, outcomes)
    assert (shared.budget.attempts, shared.budget.stop_reason) == (attempts, reason)
    assert [row.attempt for row in settled] == list(range(before, attempts))
    # The place in the dataset is that among the successes (those before are counted by whoever goes on with them).
    places = [row.episode_index for row in settled if row.success]
    assert places == list(range(len(places)))
    assert all(row.episode_index is None for row in settled if not row.success)


def test_no_worker_runs_far_ahead_of_the_slowest():
    shared = SharedBudget(BudgetLimits(100), lambda _: None, lead=6, max_errors=1000)
    assert shared.horizon == 6
    shared.report([made(attempt, True) for attempt in (1, 3, 5)])  # worker 0 of 2 has nothing yet
    assert shared.horizon == 6
    shared.report([made(0, True)])
    assert shared.horizon == 2 + 6


def test_no_more_is_allowed_than_the_missing_demos_need():
    shared = SharedBudget(BudgetLimits(3), lambda _: None, lead=100, max_errors=1000)
    assert shared.horizon == 3
    shared.report([made(0, True), made(1, False)])
    # Two are missing, and with plus-one smoothing two thirds succeed: three at once.
    assert shared.horizon == 2 + 3


def test_what_two_workers_have_made_counts_once():
    settled = []
    shared = SharedBudget(BudgetLimits(100), settled.append, lead=10, max_errors=1000)
    for _ in range(2):
        shared.report([made(2, True), made(0, True)])
    assert [row.attempt for row in settled] == [0]
    assert shared.outcomes(Share(0, 2)) == [True, True]
    shared.report([made(1, False), made(2, True)])
    assert [row.attempt for row in settled] == [0, 1, 2]
    assert (shared.budget.successes, shared.budget.failures) == (2, 1)


def test_attempts_that_only_raise_end_the_run():
    shared = SharedBudget(BudgetLimits(100), lambda _: None, lead=20, max_errors=4)
    shared.report([made(attempt, False, "error:KeyError") for attempt in (1, 2, 3)])
    assert shared.budget.stop_reason is None
    shared.report([made(0, False, "error:KeyError")])
    assert shared.budget.stop_reason == ERRORS


@pytest.mark.parametrize(("attempts", "below"), [(0, 0), (1, 0), (2, 1), (4, 1), (5, 2)])
def test_a_share_knows_its_attempts(attempts, below):
    share = Share(1, 3)
    assert [share.attempt(place) for place in range(3)] == [1, 4, 7]
    assert share.below(attempts) == below


def test_a_budget_on_hold_goes_on_when_more_is_allowed():
    budget = Budget(BudgetLimits(10), share=Share(1, 2))
    assert not budget.on_hold
    budget.allow(2)
    assert list(budget.take_nowait(3)) == [1]
    assert not budget.on_hold  # one is in flight
    with pytest.raises(ValueError, match="attempt 2 was not in flight"):
        budget.finish(2, True)
    budget.finish(1, True)
    assert budget.settle() == 1
    assert budget.on_hold
    budget.allow(1)  # an old order takes nothing back
    budget.allow(4)
    assert not budget.on_hold
    assert (list(budget.take_nowait()), budget.frontier) == ([3], 3)
