"""Plays a policy in fresh scenes through the pipeline, and counts what succeeds."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import yaml
from omegaconf import OmegaConf

from mimicpipe import build
from mimicpipe.config import RunConfig, check
from mimicpipe.datagen.policy import Policy, PolicyGenerator
from mimicpipe.envs.base import MimicEnv
from mimicpipe.errors import ConfigError
from mimicpipe.pipeline.budget import BudgetLimits
from mimicpipe.pipeline.episode import Outcome
from mimicpipe.pipeline.generation import generate
from mimicpipe.pipeline.run_state import RunOptions, RunState
from mimicpipe.pipeline.telemetry import IdleTimingSelector
from mimicpipe.report.interval import wilson
from mimicpipe.rng import attempt_seeds


@dataclass(frozen=True)
class EvalSettings:
    """What is played."""

    episodes: int = 100
    max_steps: int = 400
    """Control steps after which an episode has failed; MimicGen's evaluations have the same horizon."""
    seed: int = 1_000_000
    """Episode k's scene is attempt k's of a run with this seed."""


@dataclass(frozen=True)
class Evaluation:
    """What came of it."""

    settings: EvalSettings
    outcomes: tuple[Outcome, ...]
    """In the order of the attempts."""

    @property
    def successes(self) -> int:
        """Episodes that met the condition and held it."""
        return sum(outcome.success for outcome in self.outcomes)

    def summary(self) -> dict[str, Any]:
        """As plain containers."""
        count = len(self.outcomes)
        return {
            "episodes": count,
            "successes": self.successes,
            "success_rate": self.successes / count,
            "wilson_95": list(wilson(self.successes, count)),
            "reasons": dict(Counter(outcome.reason for outcome in self.outcomes).most_common()),
            "mean_length_of_successes": _mean([o.length for o in self.outcomes if o.success]),
            "max_steps": self.settings.max_steps,
            "seed": self.settings.seed,
            "attempts": [[o.attempt, o.success, o.reason, o.length] for o in self.outcomes],
        }


def check_fresh(settings: EvalSettings, run_seeds: Sequence[int], trained_on: Sequence[int]) -> None:
    """Refuse scenes that the policy has seen, or that its data were chosen from.

    A run with seed s draws scene k from the key `attempt_seeds(s, k)`, so another s is other scenes; that none of the
    keys is one of an episode it was trained on is looked up, too.

    Raises:
        ConfigError: the seed is that of the dataset's run, or a scene is one that it was trained on.
    """
    clash = set(attempt_seeds(settings.seed, range(settings.episodes)).tolist()) & set(trained_on)
    if settings.seed in run_seeds or clash:
        raise ConfigError(
            f"--seed {settings.seed}: the dataset was generated with this seed, so these scenes are not new to the "
            "policy; give another one"
        )


def eval_config(config: RunConfig, keys: Mapping[str, str], cameras: Sequence[str] = ()) -> RunConfig:
    """The config of a dataset's run, for playing a policy in its simulator.

    Args:
        config: the run's.
        keys: {"env.num_envs": "64", ...} that are to be different; 64 slots are the default.
        cameras: that the policy looks through; all others are left out.

    Raises:
        ConfigError: a value that is not valid.
    """
    plain = config.to_dict()
    plain["env"] |= {"num_envs": 64, **({"cameras": list(cameras)} if "cameras" in plain["env"] else {})}
    given = OmegaConf.create(plain)
    for key, value in keys.items():
        OmegaConf.update(given, key, yaml.safe_load(value))
    return check(given)


def evaluate(env: MimicEnv, policy: Policy, hold_steps: int, settings: EvalSettings) -> Evaluation:
    """Play every episode once.

    Args:
        env: the simulator; its number of slots does not change what happens if the policy treats each by itself.
        policy: what acts.
        hold_steps: steps that success has to hold for, which end the episode.
        settings: what is played.

    Raises:
        Exception: whatever the policy or the simulator raises.
    """
    outcomes: list[Outcome] = []
    selector = IdleTimingSelector()
    state = RunState(
        env,
        BudgetLimits(settings.episodes, settings.episodes),
        RunOptions(
            seed=settings.seed, hold_steps=hold_steps, max_episode_steps=settings.max_steps, strict=True,
            stall_timeout_s=600.0,
        ),
        on_outcome=outcomes.append,
        selector=selector,
    )  # fmt: skip
    runner = asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector))
    with runner, torch.inference_mode():
        runner.run(generate(state, PolicyGenerator(env, policy)))
    return Evaluation(settings, tuple(outcomes))


def build_env(config: RunConfig) -> MimicEnv:
    """The simulator of a config from `eval_config`."""
    return build.build_env(config)


def _mean(values: Sequence[int]) -> float | None:
    return sum(values) / len(values) if values else None
