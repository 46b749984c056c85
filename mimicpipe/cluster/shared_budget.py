"""Settles what several workers have made, by the rules of one process, and says how far they may go."""

from collections.abc import Callable, Iterable, Sequence

from mimicpipe.cluster.messages import Made
from mimicpipe.pipeline.budget import Budget, BudgetLimits, Share
from mimicpipe.pipeline.episode import Outcome
from mimicpipe.pipeline.ledger import ERRORS, count_reason
from mimicpipe.pipeline.telemetry import Counters


class SharedBudget:
    """The budget of a run whose attempts several workers make.

    consumes: reports of attempts that are durable, in any order. produces: settled attempts, in attempt order.
    unblocked by: the report of the first attempt that is not settled. The limits are `Budget`'s, exact to the attempt.

    Args:
        limits: of the run.
        on_settled: called with each settled attempt, in order; `episode_index` is its place in the dataset.
        lead: how many attempts workers may be ahead of the first one that is not settled. It bounds what is lost when
            the run is ended, and costs nothing as long as none of them has to wait for it.
        max_errors: the run gives up after so many attempts in a row that all ended with an exception.
        outcomes: of attempts 0, 1, ... of an interrupted run that is gone on with.
        failed_episodes: how many of these are in the dataset of failed attempts.
    """

    def __init__(
        self,
        limits: BudgetLimits,
        on_settled: Callable[[Outcome], None],
        lead: int,
        max_errors: int,
        *,
        outcomes: Sequence[bool] = (),
        failed_episodes: int = 0,
    ) -> None:
        self.budget = Budget(limits)
        self.counters = Counters()
        self.failed_episodes = failed_episodes
        """Settled episodes of the dataset of failed attempts."""
        self.horizon = len(outcomes)
        """Workers may make attempts below this number; it only grows."""
        self._on_settled = on_settled
        self._lead = lead
        self._max_errors = max_errors
        self._settled = bytearray(outcomes)
        self._reported: dict[int, Made] = {}
        self.budget.resume(outcomes)
        self._advance()

    def outcomes(self, share: Share) -> list[bool]:
        """Of a share's attempts from its first on, as far as they are known: what a lost worker need not make again."""
        known = [bool(outcome) for outcome in self._settled[share.first :: share.step]]
        while (made := self._reported.get(share.attempt(len(known)))) is not None:
            known.append(made.outcome.success)
        return known

    def report(self, made: Iterable[Made]) -> None:
        """Attempts are durable; what two workers have made, because the first was thought lost, counts once."""
        for each in made:
            attempt = each.outcome.attempt
            if attempt >= self.budget.frontier and attempt not in self._reported:
                self._reported[attempt] = each
                self.budget.finish(attempt, each.outcome.success)
        while (attempt := self.budget.settle()) is not None:
            self._settle(self._reported.pop(attempt))
        self._advance()

    def _settle(self, made: Made) -> None:
        outcome, counters = made.outcome, self.counters
        self._settled.append(outcome.success)
        count_reason(counters, outcome)
        outcome.episode_index = None
        if made.recorded:
            counters.frames_committed += outcome.length
            if outcome.success:
                outcome.episode_index = counters.episodes_committed
                counters.episodes_committed += 1
            else:
                self.failed_episodes += 1
        self._on_settled(outcome)
        if counters.errors_in_a_row >= self._max_errors:
            self.budget.stop(ERRORS)

    def _advance(self) -> None:
        """Let workers go on as far as one process would at this success rate, and the lead allows."""
        self.horizon += len(self.budget.take_nowait(max(0, self.budget.frontier + self._lead - self.horizon)))
