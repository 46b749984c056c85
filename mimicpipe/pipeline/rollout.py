"""The rollout buffer: what every slot has observed and done since its reset, written once per batch step.

All float32 columns of low dimension share one packed tensor (N, T, D), so a step is one write whatever the number of
features, and a finished episode leaves with one device-to-host copy. Other columns (camera frames) have a tensor each.
"""

import torch
from torch import Tensor

from mimicpipe.pipeline.transfer import downloader

_INITIAL_STEPS = 64
_MOST_PACKED = 64
"""Numbers of a column's frame up to which it counts as of low dimension; a pose has 16."""


class RolloutBuffer:
    """Columns of N slots; frame t of a slot holds the observation before its action t, and that action.

    Args:
        num_envs: slots N.
        device: where the buffer lives.
    """

    def __init__(self, num_envs: int, device: torch.device) -> None:
        self._num_envs = num_envs
        self._device = device
        self._capacity = _INITIAL_STEPS
        self._step = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self._layout: dict[str, tuple[int, tuple[int, ...]]] = {}
        self._packed: Tensor | None = None
        self._download = downloader(device)
        self._other: dict[str, Tensor] = {}

    def restart(self, slots: Tensor) -> None:
        """Slots (K,) begin a new episode."""
        self._step.index_fill_(0, slots, 0)

    def ensure(self, steps: int) -> None:
        """Make room for episodes of `steps` frames."""
        if steps <= self._capacity:
            return
        capacity = max(steps, 2 * self._capacity)
        if self._packed is not None:
            self._packed = self._grown(self._packed, capacity)
        self._other = {name: self._grown(column, capacity) for name, column in self._other.items()}
        self._capacity = capacity

    def _grown(self, column: Tensor, capacity: int) -> Tensor:
        grown = column.new_zeros(self._num_envs, capacity, *column.shape[2:])
        grown[:, : column.shape[1]] = column
        return grown

    def append(self, slots: Tensor, columns: dict[str, Tensor]) -> None:
        """Write one frame for slots (K,): {feature: (K, *shape)}."""
        self._write(slots, columns, self._step.index_select(0, slots))

    def extend(self, slots: Tensor, steps: Tensor, columns: dict[str, Tensor]) -> None:
        """Write several frames: row r is frame `steps[r]` (R,) from now of slot `slots[r]` (R,)."""
        self._write(slots, columns, self._step.index_select(0, slots) + steps)

    def _write(self, slots: Tensor, columns: dict[str, Tensor], steps: Tensor) -> None:
        if self._packed is None:
            self._allocate(columns)
        assert self._packed is not None
        at = slots * self._capacity + steps
        count = slots.shape[0]
        packed = torch.cat([columns[name].reshape(count, -1) for name in self._layout], dim=1)
        self._packed.view(self._num_envs * self._capacity, -1).index_copy_(0, at, packed)
        for name, column in self._other.items():
            flat = column.view(self._num_envs * self._capacity, *column.shape[2:])
            _storable(flat).index_copy_(0, at, _storable(columns[name]))
        self._step.index_add_(0, slots, torch.ones_like(slots))

    def _allocate(self, columns: dict[str, Tensor]) -> None:
        width = 0
        for name, value in columns.items():
            size = value[0].numel()
            if value.dtype == torch.float32 and (value.ndim <= 2 or size <= _MOST_PACKED):
                self._layout[name] = (width, tuple(value.shape[1:]))
                width += size
            else:
                shape = (self._num_envs, self._capacity, *value.shape[1:])
                self._other[name] = torch.zeros(shape, dtype=value.dtype, device=self._device)
        self._packed = torch.zeros(self._num_envs, self._capacity, width, dtype=torch.float32, device=self._device)

    def column(self, slot: int, length: int, name: str) -> Tensor:
        """Copy the first `length` frames of one float32 column of a slot to the host, (length, *shape)."""
        assert self._packed is not None
        start, shape = self._layout[name]
        size = torch.Size(shape).numel()
        values = self._packed[slot, :length, start : start + size].reshape(length, *shape)
        return self._download(values).clone()

    def take(self, slot: int, length: int) -> dict[str, Tensor]:
        """Copy the first `length` frames of a slot to the host: {feature: (length, *shape)}, owning their memory."""
        if self._packed is None or length == 0:
            return {}
        host = self._download(self._packed[slot, :length])
        columns = {}
        for name, (start, shape) in self._layout.items():
            size = torch.Size(shape).numel()
            columns[name] = host[:, start : start + size].reshape(length, *shape).clone()
        for name, column in self._other.items():
            columns[name] = self._download(column[slot, :length]).clone()
        return columns


def _storable(column: Tensor) -> Tensor:
    """The same bits in a dtype that torch copies by index: it does not for uint16, that of depth."""
    return column.view(torch.int16) if column.dtype == torch.uint16 else column
