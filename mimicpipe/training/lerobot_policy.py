"""LeRobot's ACT and diffusion policies in many slots, each of which asks for its next chunk when it needs one.

LeRobot's own `select_action` keeps one queue for a whole batch, whose episodes must begin and end together. Here every
slot has its own: its last observations, and what is left of its chunk.
"""

from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mimicpipe.envs.base import Feature
from mimicpipe.errors import ConfigError
from mimicpipe.pipeline.ends import Ints
from mimicpipe.rng import Seeds, Stream, normals

TYPES = ("act", "diffusion")
_IMAGES = "observation.images."


class LeRobotPolicy:
    """A checkpoint of LeRobot's, read from its folder `pretrained_model`.

    Args:
        folder: with config.json, model.safetensors and the processors' files.
        device: of the network.

    Raises:
        ConfigError: no such checkpoint, or another kind of policy.
    """

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        from lerobot.configs.policies import PreTrainedConfig
        from lerobot.policies import get_policy_class, make_pre_post_processors

        if not (folder / "config.json").is_file():
            raise ConfigError(f"{folder}: no checkpoint of LeRobot's (no config.json)")
        config = PreTrainedConfig.from_pretrained(folder)
        if config.type not in TYPES:
            raise ConfigError(f"{folder}: a policy of type {config.type}; {' and '.join(TYPES)} can be played")
        config.device = device
        config.pretrained_path = folder
        self.config: Any = config
        self._policy: Any = get_policy_class(config.type).from_pretrained(folder, config=config)
        self._policy.eval()
        override = {"device_processor": {"device": device}}
        self._before, self._after = make_pre_post_processors(config, str(folder), preprocessor_overrides=override)
        self._features = tuple(self.config.input_features)
        self._seen: dict[int, deque[dict[str, Tensor]]] = {}
        self._left: dict[int, deque[Tensor]] = {}

    @property
    def cameras(self) -> list[str]:
        """Cameras that it needs."""
        return [name.removeprefix(_IMAGES) for name in self._features if name.startswith(_IMAGES)]

    def check(self, features: Mapping[str, Feature], action_dim: int) -> None:
        """Refuse an env that does not show what the policy reads.

        Raises:
            ConfigError: names the column.
        """
        for name, wanted in self.config.input_features.items():
            shape = tuple(wanted.shape)
            given = features[name].shape if name in features else None
            if given is not None and name.startswith(_IMAGES):
                given = (given[2], given[0], given[1])
            if given != shape:
                raise ConfigError(
                    f"the policy reads {name} of shape {shape}; the simulator has {given or 'no such column'}"
                )
        (wanted,) = self.config.action_feature.shape
        if wanted != action_dim:
            raise ConfigError(f"the policy's actions have {wanted} numbers, the simulator's {action_dim}")

    def act(self, slots: Ints, seeds: Seeds, steps: Ints, observations: Mapping[str, Tensor]) -> Tensor:
        """Actions (K, A); see `Policy`."""
        given = {name: _as_trained(name, observations[name]) for name in self._features}
        for row, (slot, step) in enumerate(zip(slots.tolist(), steps.tolist(), strict=True)):
            if step == 0:
                self._seen[slot] = deque(maxlen=self.config.n_obs_steps)
                self._left[slot] = deque()
            frame = {name: values[row] for name, values in given.items()}
            seen = self._seen[slot]
            seen.extend([frame] * (1 if seen else self.config.n_obs_steps))  # the first one stands for those before it
        asking = [row for row, slot in enumerate(slots.tolist()) if not self._left[slot]]
        if asking:
            chunks = self._predict([int(slots[row]) for row in asking], seeds[asking], steps[asking])
            for row, chunk in zip(asking, chunks, strict=True):
                self._left[int(slots[row])].extend(chunk[: self.config.n_action_steps])
        device = next(iter(observations.values())).device
        return torch.stack([self._left[slot].popleft() for slot in slots.tolist()]).to(device, torch.float32)

    def _predict(self, slots: list[int], seeds: Seeds, steps: Ints) -> Tensor:
        """(K, n, A) on the host, of slots whose chunk is played."""
        histories = [list(self._seen[slot]) for slot in slots]
        batch = {
            name: torch.stack([torch.stack([frame[name] for frame in history]) for history in histories])
            for name in self._features
        }
        if self.config.type == "act":
            batch = {name: values[:, -1] for name, values in batch.items()}
            chunks = self._policy.predict_action_chunk(self._before(batch))
        else:
            chunks = self._denoise(self._before(batch), seeds, steps)
        return self._after(chunks).cpu()

    def _denoise(self, batch: dict[str, Tensor], seeds: Seeds, steps: Ints) -> Tensor:
        shape = (self.config.horizon, self.config.action_feature.shape[0])
        count = shape[0] * shape[1] + shape[0] * shape[1] % 2  # an even number of values for each step
        drawn = normals(seeds, Stream.POLICY, count, steps * count)[:, : shape[0] * shape[1]]
        noise = torch.from_numpy(np.ascontiguousarray(drawn)).reshape(-1, *shape).to(self.config.device)
        self._policy.reset()  # no history of its own, so it takes that of the batch
        return self._policy.predict_action_chunk(batch, noise=noise)


def _as_trained(name: str, values: Tensor) -> Tensor:
    """Pixels (K, H, W, 3) as LeRobot's datasets show them, (K, 3, H, W) in [0, 1]; all else as it is."""
    if not name.startswith(_IMAGES):
        return values.cpu()
    return values.cpu().permute(0, 3, 1, 2).to(torch.float32) / 255.0
