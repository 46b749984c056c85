"""The end of attempts: how they are judged, and what of them goes to the ledger."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from mimicpipe.pipeline.ends import Ints
from mimicpipe.pipeline.episode import Episode, Outcome, first_nonfinite
from mimicpipe.pipeline.protocol import EpisodeTimeoutError, NonFiniteError, PlanFailedError, StateMismatchError
from mimicpipe.pipeline.run_state import RunState

_log = logging.getLogger("mimicpipe")


class Returned(NamedTuple):
    """What a generator says of an attempt."""

    source_demos: list[Any]
    metadata: Mapping[str, Any]
    vetoed: bool


NOTHING: Mapping[str, Any] = {}


def failure_reason(error: BaseException) -> str:
    """The reason of an attempt that ends with this exception."""
    if isinstance(error, PlanFailedError):
        return "plan_failed"
    if isinstance(error, StateMismatchError):
        return "state_mismatch"
    if isinstance(error, EpisodeTimeoutError):
        return "timeout"
    if isinstance(error, NonFiniteError):
        return "nonfinite"
    return f"error:{type(error).__name__}"


async def finish(run: RunState, slots: Ints, returned: Sequence[Returned], errors: Mapping[int, BaseException]) -> None:
    """The attempts in slots (K,) have ended: judge them, copy their episodes, and hand both to the ledger.

    Args:
        run: the run.
        slots: (K,) whose attempts have ended.
        returned: (K,) what the generator says of them.
        errors: {slot: the exception that its attempt has ended with}.

    Raises:
        BaseException: the first of `errors` that counts as an error, in strict mode.
    """
    verdicts, lengths = run.verdicts(slots), run.lengths(slots).tolist()
    indices, seeds = run.attempts[slots].tolist(), run.seeds[slots].tolist()
    for row, slot in enumerate(slots.tolist()):
        said, reason = returned[row], verdicts[row]
        error = errors.get(slot)
        if error is not None:
            reason = failure_reason(error)
        elif said.vetoed and reason == "success":
            reason = "not_successful"
        sources = said.source_demos or run.used_demos.get(slot, [])
        outcome = Outcome(indices[row], slot, seeds[row], reason == "success", reason, lengths[row], sources)
        if isinstance(error, PlanFailedError | StateMismatchError):
            outcome.detail = str(error)
        run.ledger.put(outcome, _episode(run, outcome, said.metadata))
    run.end_attempts(slots)
    await run.ledger.settle()
    if errors:
        for slot, index in zip(slots.tolist(), indices, strict=True):
            if slot in errors:
                _note_error(run, slot, index, errors[slot])


def _episode(run: RunState, outcome: Outcome, metadata: Mapping[str, Any]) -> Episode | None:
    """The attempt's episode, if somebody records it; tells those who watch the run."""
    slot, episode = outcome.slot, None
    if run.rollout is not None:
        with run.clock.stage("record"):
            episode = run.episode(slot, outcome, dict(metadata))
            if episode is not None:
                episode = _if_finite(run, episode)
            if run.on_finished is not None and outcome.length > 0:
                run.on_finished(slot, outcome)
    if run.trace is not None:
        run.trace.finished(slot, outcome, run.first_state(slot))
    return episode


def _if_finite(run: RunState, episode: Episode) -> Episode | None:
    """The episode, known to be finite, so that the recorder need not look; None, and a failure, where it is not."""
    problem = first_nonfinite(episode.columns)
    if problem is None:
        return replace(episode, finite=True)
    outcome = episode.outcome
    outcome.success, outcome.reason = False, "nonfinite"
    if outcome.reason not in run.counters.reasons:  # not every one where a sensor is broken
        _log.warning("attempt %d in slot %d is not recorded: %s", outcome.attempt, outcome.slot, problem)
    return None


def _note_error(run: RunState, slot: int, attempt: int, error: BaseException) -> None:
    """Log the first of an attempt's unexpected exceptions of a type; raise it in strict mode."""
    if not failure_reason(error).startswith("error:"):
        return
    if run.options.strict:
        raise error
    if type(run.last_error) is not type(error):
        _log.warning("attempt %d in slot %d failed", attempt, slot, exc_info=error)
    run.last_error = error
