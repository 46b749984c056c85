"""Copies between the host and a device that hold up nothing but who asks, chosen once for each device.

On the CPU nothing is copied. On a GPU both ways go through pinned memory. An upload does not wait at all; a download
waits for its own copy, on a stream of its own, and so for what the caller's stream has queued before it, but not for
the simulator, whose steps are on another one. PyTorch's `.cpu()` and `.to(device)` would wait for the device instead;
`torch.cuda.set_sync_debug_mode("error")` forbids those, and a GPU test of the loop runs under it.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Upload = Callable[[npt.NDArray[np.generic]], Tensor]
"""A host array (any shape) on the device; the array must not change afterwards."""
Download = Callable[[Tensor], Tensor]
"""A device's tensor on the host; the same memory where that is the CPU's."""


def uploader(device: torch.device) -> Upload:
    """What brings arrays to a device."""
    if device.type != "cuda":
        return torch.from_numpy if device.type == "cpu" else lambda array: torch.from_numpy(array).to(device)
    return lambda array: torch.from_numpy(array).pin_memory().to(device, non_blocking=True)


def downloader(device: torch.device) -> Download:
    """What brings tensors from a device."""
    if device.type != "cuda":
        return _same if device.type == "cpu" else Tensor.cpu
    side = torch.cuda.Stream(device)

    def download(tensor: Tensor) -> Tensor:
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            # A tensor that is not contiguous is made so in memory of this stream.
            host.copy_(tensor, non_blocking=True)
            copied = side.record_event()
        copied.synchronize()
        return host

    return download


def _same(tensor: Tensor) -> Tensor:
    return tensor
