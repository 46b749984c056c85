"""Fits the small policy: chunks of the next actions, by absolute error, with AdamW and a cosine schedule."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mimicpipe.errors import ConfigError
from mimicpipe.pipeline.ends import Ints
from mimicpipe.training.columns import Demos
from mimicpipe.training.inputs import InputEncoder
from mimicpipe.training.network import Layers, forward, new_layers

_SMALLEST_SCALE = 1e-3
"""Of an input: metres, or parts of a rotation. What varies less is noise, and is not blown up."""
_SMALLEST_ACTION_SCALE = 0.1
"""Likewise of an action in [-1, 1]: of `ik_rel`, five millimetres, or a twentieth of a radian."""


@dataclass(frozen=True)
class BcSettings:
    """How the small policy is built and trained."""

    hidden: int = 256
    """Width of the hidden layers."""
    depth: int = 3
    """Their number."""
    chunk: int = 8
    """Actions that are predicted at once."""
    modes: int = 5
    """Chunks that are predicted side by side, each with a probability."""
    sharpness: float = 20.0
    """How far a chunk's probability falls with its mean error (in spreads of the actions)."""
    executed: int = 8
    """How many of them are played before the policy looks again."""
    steps: int = 6000
    """Of the gradient."""
    batch: int = 128
    """Frames a step."""
    learning_rate: float = 4e-3
    """At its highest, after `warmup` steps."""
    weight_decay: float = 1e-3
    warmup: int = 100

    def __post_init__(self) -> None:
        if self.executed > self.chunk:
            raise ConfigError(f"executed={self.executed}: more actions than are predicted at once, chunk={self.chunk}")

    def widths(self, inputs: int, actions: int) -> tuple[int, ...]:
        """Of inputs, hidden layers and outputs: the chunks of all modes, then their logits."""
        return (inputs, *([self.hidden] * self.depth), self.modes * (self.chunk * actions + 1))


@dataclass
class Scaling:
    """Mean and spread of each number."""

    mean: Tensor
    std: Tensor

    @classmethod
    def of(cls, values: Tensor, smallest: float) -> "Scaling":
        """Of values (F, W), computed in float64."""
        wide = values.double()
        return cls(wide.mean(0).float(), wide.std(0, unbiased=False).clamp_min(smallest).float())

    def apply(self, values: Tensor) -> Tensor:
        """Values (..., W) with mean 0 and spread 1."""
        return (values - self.mean) / self.std


@dataclass
class Fitted:
    """E policies of the same data that differ by their seed."""

    layers: Layers
    inputs: Scaling
    actions: Scaling
    losses: list[list[float]]
    """Of each member, the mean loss of each hundredth of the steps."""


def fit(
    demos: Demos,
    seeds: Sequence[int],
    settings: BcSettings,
    on_progress: Callable[[int, float], None] = lambda _step, _loss: None,
) -> Fitted:
    """Train one policy for each seed.

    On one thread of the same kind of CPU, the same data, seeds and settings give the same weights, bit for bit. What a
    seed draws does not depend on the other seeds.

    Args:
        demos: what to learn from.
        seeds: E of them; a seed decides its member's first weights and its order of the data.
        settings: the network and the training.
        on_progress: called a hundred times with the step and the mean loss since the last call.
    """
    observations = {name: torch.from_numpy(values) for name, values in demos.observations.items()}
    encoder = InputEncoder({name: demos.names[name] for name in observations})
    encoded, actions = encoder(observations), torch.from_numpy(demos.actions)
    inputs, scaled = Scaling.of(encoded, _SMALLEST_SCALE), Scaling.of(actions, _SMALLEST_ACTION_SCALE)
    x, y = inputs.apply(encoded), scaled.apply(actions)
    following, counts = _following(demos.lengths, settings.chunk)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    layers = new_layers(settings.widths(x.shape[1], y.shape[1]), generators)
    parameters = [tensor.requires_grad_() for layer in layers for tensor in layer]
    optimizer = torch.optim.AdamW(parameters, fused=True, lr=settings.learning_rate, weight_decay=settings.weight_decay)
    losses: list[Tensor] = []
    kept: list[list[float]] = [[] for _ in seeds]
    for step in range(settings.steps):
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * _schedule(step, settings)
        at = torch.stack([torch.randint(len(x), (settings.batch,), generator=g) for g in generators])
        loss = _mixture_loss(forward(layers, x[at]), y[following[at]], counts[at], settings)
        optimizer.zero_grad()
        loss.sum().backward()
        optimizer.step()
        losses.append(loss.detach())
        if (step + 1) * 100 // settings.steps > step * 100 // settings.steps:
            mean = torch.stack(losses).mean(0)
            losses.clear()
            for member, value in zip(kept, mean.tolist(), strict=True):
                member.append(value)
            on_progress(step + 1, float(mean.mean()))
    return Fitted([(w.detach(), b.detach()) for w, b in layers], inputs, scaled, kept)


def _mixture_loss(outputs: Tensor, wanted: Tensor, known: Tensor, settings: BcSettings) -> Tensor:
    """Minus the logarithm of the mixture's density at the chunks that were shown, (E,).

    Args:
        outputs: (E, B, modes * (chunk * A + 1)): the modes' chunks, then their logits.
        wanted: (E, B, chunk, A).
        known: (E, B, chunk), 0 behind the end of the episode.
        settings: the mixture's.
    """
    chunks, logits = outputs.split((outputs.shape[-1] - settings.modes, settings.modes), dim=-1)
    apart = (chunks.unflatten(-1, (settings.modes, settings.chunk, -1)) - wanted[:, :, None]).abs().mean(-1)
    error = (apart * known[:, :, None]).sum(-1) / known.sum(-1)[..., None]
    return -torch.logsumexp(torch.log_softmax(logits, -1) - settings.sharpness * error, -1).mean(1) / settings.sharpness


def _schedule(step: int, settings: BcSettings) -> float:
    """Share of the learning rate: a linear start, then half a cosine down to zero."""
    warm = min(1.0, (step + 1) / max(1, settings.warmup))
    return warm * 0.5 * (1.0 + math.cos(math.pi * step / settings.steps))


def _following(lengths: Ints, chunk: int) -> tuple[Tensor, Tensor]:
    """For each of F frames, the `chunk` frames from it on, and (F, chunk) which of them the episode still has."""
    ends: Ints = np.repeat(np.cumsum(lengths), lengths)[:, None]
    wanted = np.arange(int(lengths.sum()))[:, None] + np.arange(chunk)
    return torch.from_numpy(np.minimum(wanted, ends - 1)), torch.from_numpy((wanted < ends).astype(np.float32))
