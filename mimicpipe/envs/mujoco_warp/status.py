"""The two numbers that come back from the device: a slot whose action made no sense, and one without room."""

import torch
import warp as wp


class Status:
    """Faults that kernels find, read without waiting for them.

    On a GPU the numbers are copied to pinned memory behind each step, and looked at once they have come; on the CPU
    they are there at once.

    Args:
        device: where the kernels run.
        max_contacts: named in the message.

    Attributes:
        words: (2,) int32 Warp array, 0 or 1 + the slot: action without finite motion, contacts without room.
    """

    def __init__(self, device: torch.device, max_contacts: int) -> None:
        self._max_contacts = max_contacts
        self._device = device
        self._tensor = torch.zeros(2, dtype=torch.int32, device=device)
        self.words = wp.from_torch(self._tensor)
        self._copied = torch.cuda.Event() if device.type == "cuda" else None
        self._host = self._tensor if self._copied is None else torch.zeros(2, dtype=torch.int32, pin_memory=True)
        self._asked = False

    def ask(self) -> None:
        """Begin to copy, behind what the caller's stream does now, unless a copy is on its way."""
        if self._copied is not None and not self._asked:
            self._host.copy_(self._tensor, non_blocking=True)
            self._copied.record(torch.cuda.current_stream(self._device))
            self._asked = True

    def check(self) -> None:
        """Raise what has been found, as far as it is known by now.

        Raises:
            ValueError: an action asked for no finite motion in a slot that has not diverged.
            RuntimeError: the contacts of a slot had no room, so its physics is wrong.
        """
        if self._copied is not None:
            if not self._asked or not self._copied.query():
                return
            self._asked = False
        wrong, overflowed = self._host.tolist()
        if wrong or overflowed:
            self._tensor.zero_()
        if wrong:
            raise ValueError(f"the action of slot {wrong - 1} asks for no finite motion")
        if overflowed:
            raise RuntimeError(
                f"slot {overflowed - 1}: no room for all contacts; set env.max_contacts above {self._max_contacts}"
            )
