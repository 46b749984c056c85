"""What `MujocoEnv` refuses before it builds anything."""

from collections.abc import Sequence

import torch

from mimicpipe.errors import ConfigError


def torch_device(device: str) -> torch.device:
    """The device of that name; ConfigError unless there is one."""
    try:
        out = torch.device(device)
    except RuntimeError as error:
        raise ConfigError(f"env.device={device}: not a torch device; use cpu or cuda:0") from error
    if out.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"env.device={device}: no CUDA on this machine; use env.device=cpu")
    if out.type == "cuda" and out.index is None:
        return torch.device("cuda", torch.cuda.current_device())  # as its tensors say it
    return out


def check_config(
    num_envs: int,
    cameras: Sequence[str],
    valid_cameras: Sequence[str],
    image_size: tuple[int, int],
    threads: int | None,
) -> None:
    """Raise ConfigError unless every value is in its range."""
    if num_envs < 1:
        raise ConfigError(f"env.num_envs={num_envs}: must be 1 or more")
    if threads is not None and threads < 1:
        raise ConfigError(f"env.threads={threads}: must be 1 or more, or null for one per CPU")
    if unknown := [name for name in cameras if name not in valid_cameras]:
        raise ConfigError(
            f"env.cameras={list(cameras)}: no camera {', '.join(unknown)}; choose from {', '.join(valid_cameras)}"
        )
    if len(image_size) != 2 or min(image_size) < 16:
        raise ConfigError(f"env.image_size={list(image_size)}: must be [height, width], each 16 or more")
