"""A scene with one of everything: a compound object, two fixtures, a part that slides and one that turns."""

import math

import numpy as np
import torch
from torch import Tensor

from mimicpipe.envs.tasks.base import FixtureSpec, ObjectSpec, PartSpec, Shape, Task, TaskView
from mimicpipe.rng import Seeds, Stream, uniforms

LEVER = PartSpec(
    "lever", "hinge", (0.0, 1.0, 0.0), (0.0, 1.2), (0.05, 0.0, 0.1),
    (Shape("box", (0.04, 0.01, 0.005), (0.04, 0.0, 0.0)),), 0.05, (0.2, 0.2, 0.8, 1.0),
    anchor=(-0.01, 0.0, 0.002), damping=0.01, start=0.5,
)  # fmt: skip
TRAY = PartSpec(
    "tray", "slide", (0.0, -1.0, 0.0), (0.0, 0.1), (0.0, -0.02, 0.03),
    (Shape("box", (0.05, 0.05, 0.005)),), 0.2, (0.2, 0.8, 0.2, 1.0), damping=5.0, friction=0.5, start=0.04,
)  # fmt: skip


class BodiesTask(Task):
    """Nothing to achieve."""

    name = "bodies"
    description = "Look."
    objects = (
        ObjectSpec(
            "mallet", (0.05, 0.03, 0.015), 0.1, (0.8, 0.5, 0.2, 1.0),
            (Shape("box", (0.04, 0.01, 0.01)), Shape("cylinder", (0.015, 0.03), (0.035, 0.0, 0.0), quat=(1, 1, 0, 0))),
        ),
    )  # fmt: skip
    fixtures = (
        FixtureSpec("post", (0.01, 0.01, 0.05), (Shape("box", (0.01, 0.01, 0.05), (0, 0, 0.05)),), (0.5, 0.5, 0.5, 1)),
        FixtureSpec("desk", (0.06, 0.06, 0.05), (Shape("box", (0.06, 0.06, 0.01), (0, 0, 0.01)),), (0.5, 0.5, 0.5, 1),
                    (LEVER, TRAY)),
    )  # fmt: skip
    needs_contact = True
    variants = ("D0",)

    def sample_object_poses(self, seeds: Seeds) -> dict[str, Tensor]:
        draws = uniforms(seeds, Stream.SCENE, 3)
        spots = {"mallet": (0.45, -0.2, 0.015), "post": (0.5, 0.2, 0.0), "desk": (0.65, 0.0, 0.0)}
        return {name: _poses(spot, draws[:, i]) for i, (name, spot) in enumerate(spots.items())}

    def success(self, view: TaskView) -> Tensor:
        return view.joint_positions["tray"] < 0.01

    def subtask_term_signals(self, view: TaskView) -> dict[str, Tensor]:
        return {"down": view.joint_positions["lever"] < 0.1}


def _poses(spot: tuple[float, float, float], draws: np.ndarray) -> Tensor:
    out = torch.eye(4, dtype=torch.float64).repeat(len(draws), 1, 1)
    for row, draw in enumerate(draws.tolist()):
        out[row, 0, 0] = out[row, 1, 1] = math.cos(2 * draw)
        out[row, 1, 0] = math.sin(2 * draw)
        out[row, 0, 1] = -math.sin(2 * draw)
        out[row, :3, 3] = torch.tensor(spot, dtype=torch.float64) + 0.02 * draw
    out[:, 2, 3] = spot[2]
    return out
