"""Episodes to write: the columns of env=mujoco task=stack, with values of no meaning; cameras show a moving texture."""

import numpy as np
import torch

from mimicpipe.envs.base import Feature
from mimicpipe.pipeline.episode import Episode, Outcome

FPS = 20
FRAMES = 125
STATE: dict[str, Feature] = {
    "observation.state": Feature("float32", (9,)),
    "observation.environment_state": Feature("float32", (14,)),
    "observation.eef_pose": Feature("float32", (7,)),
    "observation.gripper": Feature("float32", (2,)),
    "action": Feature("float32", (7,)),
}
CAMERAS: dict[str, Feature] = {
    "observation.images.front": Feature("video", (128, 128, 3)),
    "observation.images.wrist": Feature("video", (128, 128, 3)),
}


def make_episode(index: int, features: dict[str, Feature], frames: int = FRAMES) -> Episode:
    """Episode `index`, the same for the same arguments."""
    rng = np.random.default_rng(index)
    columns = {}
    for name, feature in features.items():
        if feature.dtype == "video":
            columns[name] = torch.from_numpy(_texture(rng, frames, feature.shape))
        else:
            columns[name] = torch.from_numpy(rng.standard_normal((frames, *feature.shape), dtype=np.float32))
    sources = [{"eef": "gripper", "subtask": k, "demo": f"demo_{k}"} for k in range(4)]
    outcome = Outcome(index, index % 64, index, True, "success", frames, sources)
    return Episode(outcome, columns, "stack the cubes", torch.from_numpy(rng.standard_normal(40)))


def _texture(rng: np.random.Generator, frames: int, shape: tuple[int, ...]) -> np.ndarray:
    """(T, H, W, 3) uint8: a window that moves over a picture of smooth blobs, one pixel a frame."""
    height, width = shape[:2]
    size = max(height, width) + frames
    coarse = rng.integers(0, 256, (size // 16 + 2, size // 16 + 2, 3)).astype(np.float32)
    at = np.arange(size) / 16
    low = at.astype(int)
    part = (at - low)[:, None]
    rows = coarse[low] * (1 - part[..., None]) + coarse[low + 1] * part[..., None]
    picture = rows[:, low] * (1 - part) + rows[:, low + 1] * part
    return np.stack([picture[t : t + height, t : t + width] for t in range(frames)]).astype(np.uint8)
