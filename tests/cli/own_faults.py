"""Parts of a run that misbehave."""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from own_pool import StraightPickPool

from mimicpipe.datagen.generator import DataGenerator
from mimicpipe.envs.kinematic import KinematicEnv
from mimicpipe.envs.mujoco.env import MujocoEnv
from mimicpipe.pipeline.protocol import PlanFailedError
from mimicpipe.recorders.base import Recorder
from mimicpipe.recorders.episode_writer import EpisodeWriter
from mimicpipe.recorders.sharded import ShardedRecorder
from mimicpipe.recorders.staged_storage import StagedStorage
from mimicpipe.rng import attempt_seeds


class FaultyRecorder(Recorder):
    """Keeps episodes in memory, has room for one a `commit_s`, and may hang.

    Args:
        hangs: "commit" or "finalize", until there is a file `let_go`; None: it doesn't.
        commit_s: what a commit takes, seconds.
        finalize_s: what finalizing takes, seconds; the file `finalizing` says that it has begun.
        waits: finalizing goes on once there is a file `go_on`.
    """

    def __init__(
        self, hangs: str | None = None, commit_s: float = 0.0, finalize_s: float = 0.0, waits: bool = False
    ) -> None:
        self.hangs = hangs
        self.let_go = Path("let_go").absolute()
        self.waits = waits
        self.commit_s = commit_s
        self.finalize_s = finalize_s
        self.episodes: list = []

    def try_commit(self, episode):
        return False

    def commit(self, episode):
        if self.hangs == "commit" and self.episodes:
            self._hang()
        time.sleep(self.commit_s)
        self.episodes.append(episode)
        if self.on_durable is not None:
            self.on_durable(episode, len(self.episodes) - 1)

    def finalize(self):
        Path("finalizing").touch()
        if self.hangs == "finalize":
            self._hang()
        while self.waits and not Path("go_on").exists():
            time.sleep(0.02)
        time.sleep(self.finalize_s)

    def _hang(self):
        while not self.let_go.exists():
            time.sleep(0.05)


class LossyRecorder(ShardedRecorder):
    """Cannot write the first episode of an attempt from 3 on, and takes a while to find out."""

    class _Storage(StagedStorage):
        class _Writer(EpisodeWriter):
            lost = False

            def _record(self, episode):
                if episode.meta["attempt"] >= 3 and not self.lost:
                    self.lost = True
                    time.sleep(0.5)
                    raise OSError("the encoder has failed")
                return super()._record(episode)

        def writer(self, number):
            assert self._area is not None
            return self._Writer(self._area.log(number), self._header)

    _storage_class = _Storage


class SlowPool(StraightPickPool):
    """Never stops loading; the file `loading` says that it has begun."""

    def load(self, env, subtask_configs):
        Path("loading").touch()
        time.sleep(3600)
        return super().load(env, subtask_configs)


class LeavingAsIfBySigterm:
    """A generator that ends the program with SIGTERM's exit code."""

    async def generate(self, env_id, **_):
        raise SystemExit(143)


class StubbornGenerator:
    """Acts for ever and swallows whatever is to end it.

    Args:
        swallows: "cancellation", "everything", or "nothing": from attempt 2 on, a thread of its own hangs instead.
    """

    def __init__(self, swallows: str) -> None:
        self.swallows = swallows

    async def generate(self, env_id, env_reset_queue, env_action_queue, attempt, **_):
        await env_reset_queue.put(env_id)
        await env_reset_queue.join()
        while True:
            try:
                if self.swallows == "nothing" and attempt.index >= 2:
                    Path("hanging").touch()
                    await asyncio.to_thread(time.sleep, 3600)
                await env_action_queue.put((env_id, torch.zeros(7)))
                await env_action_queue.join()
            except asyncio.CancelledError:
                if self.swallows == "nothing":
                    raise
            except BaseException:
                if self.swallows != "everything":
                    raise


class BlockingGenerator:
    """Blocks the event loop for ever."""

    async def generate(self, env_id, **_):
        print("blocking", file=sys.stderr, flush=True)
        time.sleep(3600)


class SometimesRaising(DataGenerator):
    """Every fifth attempt raises at once, every fifth finds no plan after its reset, every fifth leaves it at that."""

    async def generate(self, env_id, success_term, env_reset_queue, env_action_queue, *, attempt, **others):
        kind = attempt.index % 5
        if kind == 1:
            raise LookupError("no such thing")
        if kind in (2, 3):
            await env_reset_queue.put(env_id)
            await env_reset_queue.join()
            if kind == 3:
                raise PlanFailedError("out of reach")
            return {"source_demos": [], "metadata": {"left": True}}
        return await super().generate(
            env_id, success_term, env_reset_queue, env_action_queue, attempt=attempt, **others
        )


def _diverging(env_class: Any) -> Any:
    """The env, but the slot of attempt 1 of seed 0 loses its state after 20 steps."""

    class Diverging(env_class):
        victim: int | None = None
        left = 20

        def reset(self, env_ids, seeds):
            super().reset(env_ids, seeds)
            for slot, seed in zip(env_ids.tolist(), np.asarray(seeds).tolist(), strict=True):
                if seed == int(attempt_seeds(0, range(1, 2))[0]):
                    self.victim, self.left = slot, 20
                elif slot == self.victim:
                    self.victim = None

        def start_step(self, actions, env_ids=None):
            end = super().start_step(actions, env_ids)
            moved = self.victim is not None and (env_ids is None or self.victim in env_ids.tolist())

            def ended():
                end()
                if not moved:
                    return
                self.left -= 1
                if self.left == 0:
                    slot = torch.tensor([self.victim])
                    self.set_state(torch.full_like(self.get_state(slot), torch.nan), slot)

            return ended

    return Diverging


DivergingKinematic = _diverging(KinematicEnv)
DivergingMujoco = _diverging(MujocoEnv)
