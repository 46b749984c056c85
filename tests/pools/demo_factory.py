"""Random but valid source demos, and how to compare them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mimicpipe import poses
from mimicpipe.datagen.datagen_info import DatagenInfo, SourceDemo
from mimicpipe.pools.hdf5 import ReadResult, read_demos


def random_poses(length: int, generator: torch.Generator) -> Tensor:
    quats = torch.randn(length, 4, generator=generator, dtype=torch.float64)
    pos = torch.randn(length, 3, generator=generator, dtype=torch.float64)
    return poses.pose_from_pos_quat(pos, quats).float()


def make_demo(
    name: str = "demo_0",
    length: int = 12,
    *,
    eefs: Sequence[str] = ("panda",),
    objects: Sequence[str] = ("cube",),
    signals: Sequence[str] = ("grasp",),
    start_signals: Sequence[str] = (),
    action_dim: int = 7,
    gripper_dim: int = 1,
    state_dim: int | None = 20,
    observations: Sequence[str] = ("observation.state",),
    success: bool = True,
    seed: int = 0,
) -> SourceDemo:
    """A demo of `length` >= 2 steps whose every number is drawn from `seed`."""
    g = torch.Generator().manual_seed(seed)

    def edge() -> Tensor:
        return torch.arange(length) >= int(torch.randint(1, length, (), generator=g))

    return SourceDemo(
        name=name,
        info=DatagenInfo(
            eef_pose={e: random_poses(length, g) for e in eefs},
            object_poses={o: random_poses(length, g) for o in objects},
            subtask_term_signals={s: edge() for s in signals},
            target_eef_pose={e: random_poses(length, g) for e in eefs},
            gripper_action={e: torch.randn(length, gripper_dim, generator=g) for e in eefs},
            subtask_start_signals={s: edge() for s in start_signals},
        ),
        actions=torch.randn(length, action_dim, generator=g),
        initial_state=None if state_dim is None else torch.randn(state_dim, generator=g, dtype=torch.float64),
        observations={o: torch.randn(length, 5, generator=g) for o in observations},
        success=success,
    )


def make_demos(count: int, **options: Any) -> list[SourceDemo]:
    return [make_demo(f"demo_{i}", seed=i, **options) for i in range(count)]


def read_all(path: Path, **options: Any) -> ReadResult:
    """Everything in a file, unless `options` say otherwise."""
    everything: dict[str, Any] = dict.fromkeys(("eef_names", "object_names", "signal_names", "start_signal_names"))
    everything |= {"gripper_from_actions": None, "observations": True, "failed": True}
    return read_demos(path, **(everything | options))


def tensors(demo: SourceDemo) -> dict[str, Tensor]:
    """Every tensor of a demo under a unique key."""
    found = {"actions": demo.actions} | {f"obs/{k}": v for k, v in demo.observations.items()}
    if demo.initial_state is not None:
        found["initial_state"] = demo.initial_state
    for field in DatagenInfo.__dataclass_fields__:
        found |= {f"{field}/{k}": v for k, v in getattr(demo.info, field).items()}
    return found


def same(a: SourceDemo, b: SourceDemo) -> bool:
    """Equal names, outcomes and tensors: keys, types and bits."""
    left, right = tensors(a), tensors(b)
    return (a.name, a.success, left.keys()) == (b.name, b.success, right.keys()) and all(
        v.dtype == right[k].dtype and torch.equal(v, right[k]) for k, v in left.items()
    )
