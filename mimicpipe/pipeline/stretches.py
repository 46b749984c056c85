"""Several control steps in one call, where the env can and nobody has to look in between.

All slots play plans whose ends are known, so a stretch takes each of them as far as its plan goes, at most
`env.longest_stretch` steps. A slot that is done earlier sits out the rest. What the stretch has met, its frames and
successes, is written down when it is over, all steps in one go; before anything is made of it (`Stretches.settle`).
"""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from mimicpipe.compiled import compiled
from mimicpipe.pipeline.ends import Ints
from mimicpipe.pipeline.protocol import Stretch
from mimicpipe.pipeline.run_state import RunState

_MOST_RESTING = 0.25, 0.75
"""In a step and in a stretch. Where more plans end at once, the step waits for their slots, so that slots which act in
time with each other stay so; in a stretch a quarter of them is enough to keep the simulator busy."""


@compiled
def count_success(
    slots: Ints, success: npt.NDArray[np.bool_], hold: npt.NDArray[np.int32], ever: npt.NDArray[np.bool_]
) -> None:
    """Count on the steps in a row that have been a success, `hold` (N,), and note whether any has, `ever` (N,).

    Row r of `success` (R,) is of slot `slots[r]`; the rows of a slot are in the order of its steps.
    """
    for r in range(len(slots)):
        slot = slots[r]
        hold[slot] = hold[slot] + 1 if success[r] else 0
        ever[slot] |= success[r]


class Stretches:
    """The stretches of one run."""

    def __init__(self, run: RunState) -> None:
        self._run = run
        looked_at = run.trace is not None or run.frame_columns is not None or run.perturbation is not None
        on_host = run.env.device.type == "cpu"
        self.longest = run.env.longest_stretch if run.own_success and on_host and not looked_at else 1
        """Most steps; 1 where something needs the env at every step."""
        self.most_resting = _MOST_RESTING[self.longest > 1]
        """Share of the active slots that may sit out what begins."""
        self._over: tuple[Stretch, Ints, Ints] | None = None

    def sizes(self, slots: Ints) -> tuple[Ints, Ints, Ints] | None:
        """How far slots (K,) go in the next stretch; None where it would be one step.

        Returns:
            The slots again, those that take more steps first; their steps (K,); how many slots take part in each step.
        """
        run = self._run
        steps = np.minimum(run.ends.left(slots, run.counters.batch_steps), self.longest)
        longest = int(steps.max(initial=1))
        if longest == 1:
            return None
        order = np.argsort(-steps, kind="stable")
        counts = np.bincount(steps, minlength=longest + 1)
        # Slots that take more than m steps take part in step m.
        return slots[order], steps[order], len(slots) - np.cumsum(counts)[:longest]

    @contextmanager
    def under_way(self, slots: Ints, steps: Ints, sizes: Ints, resting: Ints) -> Generator[None]:
        """A stretch that is in progress while the block runs.

        Args:
            slots, steps, sizes: what `sizes` has given.
            resting: (M,) slots that sit it out.
        """
        run = self._run
        with run.clock.stage("step"):
            end = run.clock.background(self._start(slots, sizes))
        run.start[resting] += len(sizes)  # the steps do not count for them
        run.start[slots] += len(sizes) - steps
        run.counters.batch_steps += len(sizes)
        run.counters.env_steps += int(sizes.sum())
        try:
            yield
        finally:
            with run.clock.stage("step"):
                end()

    def _start(self, slots: Ints, sizes: Ints) -> Callable[[], None]:
        run = self._run
        end = run.env.start_stretch(slots, sizes.tolist(), run.playheads.advance_along(slots, sizes))
        landing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        run.landing, run.flying = landing, frozenset(slots.tolist())

        def finish() -> None:
            try:
                stretch = end()
            finally:
                run.landing, run.flying = None, frozenset()
                if not landing.done():
                    landing.set_result(None)
            steps = np.repeat(np.arange(len(sizes)), sizes)
            self._over = stretch, np.concatenate([slots[:size] for size in sizes.tolist()]), steps

        return finish

    def settle(self) -> None:
        """Write down the frames and the successes of the stretch that is over, once."""
        if self._over is None:
            return
        run, (stretch, slots, steps) = self._run, self._over
        self._over = None
        if run.rollout is not None:
            with run.clock.stage("observe"):
                columns = {**stretch.observe(), "action": stretch.actions}
            with run.clock.stage("record"):
                run.rollout.extend(run.upload(slots), run.upload(steps), columns)
        with run.clock.stage("step"):
            count_success(slots, stretch.success().numpy(), run.hold.numpy(), run.ever.numpy())
            run.status_stale = True
