"""Physics on a CPU as one Warp graph: Isaac Lab captures its kernels on CUDA only, and Python's launches are most of a
step on a CPU (about 155 a physics step).

The first steps run as they are, so that everything is allocated; then one is recorded and from then on replayed. The
replay runs the same kernels on the same arrays. Whether it gives the same bits is for the caller to check.
"""

from collections.abc import Callable
from typing import Any

import torch

_WARM_UP = 3
"""Physics steps before the recording."""
_METHODS = ("_simulate_full", "_simulate_physics_only")
"""Of Newton's manager: what it captures on CUDA; one of them is called at each physics step."""


class CpuGraph:
    """Replaces what a Newton manager runs at each physics step, until it is removed.

    Args:
        manager: the active physics manager, a class.
    """

    def __init__(self, manager: Any) -> None:
        self.enabled = True
        self._manager = manager
        self._graphs: dict[str, Any] = {}
        self._steps = dict.fromkeys(_METHODS, 0)
        self._before = {name: manager.__dict__.get(name) for name in _METHODS}
        for name in _METHODS:
            setattr(manager, name, self._replaying(name, getattr(manager, name)))

    def _replaying(self, name: str, simulate: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            import warp

            if not self.enabled or self._steps[name] < _WARM_UP:
                self._steps[name] += 1
                simulate()
                return
            if name not in self._graphs:
                with warp.ScopedCapture(device="cpu") as capture:  # records, and runs nothing
                    simulate()
                self._graphs[name] = capture.graph
            warp.capture_launch(self._graphs[name])

        return staticmethod(run)

    def remove(self) -> None:
        """Put the manager's own methods back."""
        for name, method in self._before.items():
            if method is None:
                delattr(self._manager, name)
            else:
                setattr(self._manager, name, method)
        self._graphs.clear()


def can_capture(manager: type, device: torch.device) -> bool:
    """Whether physics is Newton's on a CPU, with a Warp that records CPU graphs."""
    import warp

    newton = any(cls.__name__ == "NewtonManager" for cls in manager.__mro__)
    return newton and device.type == "cpu" and tuple(map(int, warp.__version__.split(".")[:2])) >= (1, 17)
