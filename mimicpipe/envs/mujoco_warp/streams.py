"""The stream that PyTorch works on now, in Warp's words."""

import torch
import warp as wp


class CallerStream:
    """Torch's current stream of one device; kept while it is the same, since Warp registers each one it is told of.

    Args:
        device: of which.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._known: wp.Stream | None = None

    def __call__(self) -> wp.Stream | None:
        """The stream; None on the CPU, which has none."""
        if self._device.type != "cuda":
            return None
        current = torch.cuda.current_stream(self._device)
        if self._known is None or self._known.cuda_stream != current.cuda_stream:
            self._known = wp.stream_from_torch(current)
        return self._known
