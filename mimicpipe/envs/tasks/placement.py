"""Where bodies start on the table: uniform placement in a region, without overlap, one draw per seed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mimicpipe.envs.tasks.base import FixtureSpec, ObjectSpec
from mimicpipe.rng import Seeds, Stream, uniforms

Interval = tuple[float, float]

TABLE_CENTRE = (0.56, 0.0)
"""Workspace centre from the robot's base, metres: robosuite puts a Panda 0.16 m behind the edge of a 0.8 m table
(robosuite/models/robots/manipulators/panda_robot.py, `base_xpos_offset`)."""

STACK_HALF_RANGE: Mapping[str, float] = {"D0": 0.08, "D1": 0.20}
"""Half side of MimicGen's square reset regions of Stack, metres; yaw is uniform over a full turn in both (Mandlekar et
al., "MimicGen", arXiv 2310.17596, appendix on tasks; same bounds as in mimicgen/envs/robosuite/stack.py)."""

_CANDIDATES = 64
"""Placements drawn per object and seed: one fails with a chance below 0.5 in D0, all in less than 1e-19 of seeds."""


@dataclass(frozen=True)
class Region:
    """Where a body may stand: intervals of its frame's x and y from the table's centre, metres, and of its yaw."""

    x: Interval
    y: Interval
    yaw: Interval = (0.0, 2.0 * math.pi)


def place_boxes(seeds: Seeds, objects: Sequence[ObjectSpec], half_range: float) -> dict[str, Tensor]:
    """Poses of boxes that stand on the table in one square around its centre, with any yaw; see `place_bodies`."""
    square = Region((-half_range, half_range), (-half_range, half_range))
    return place_bodies(seeds, [(box, square) for box in objects])


def place_bodies(seeds: Seeds, bodies: Sequence[tuple[ObjectSpec | FixtureSpec, Region]]) -> dict[str, Tensor]:
    """Poses of bodies that stand on the table, each uniform in its region.

    Bodies are placed in order. Of the candidates of a body the first is taken whose frame is further from that of every
    earlier body than the sum of their bounding circles' radii, the rule of robosuite's `UniformRandomSampler`.

    Args:
        seeds: (K,) attempt seeds; a pose depends on its own seed only.
        bodies: bodies with their regions, in placing order.

    Returns:
        {name: (K, 4, 4)} float64; an object's frame is at half its height, a fixture's on the table.
    """
    placed: list[tuple[npt.NDArray[np.float64], float]] = []
    poses = {}
    for index, (body, region) in enumerate(bodies):
        candidates = _CANDIDATES if placed else 1  # nothing is in the first one's way
        draws = uniforms(seeds, Stream.SCENE, 3 * candidates, offset=3 * _CANDIDATES * index)
        draws = draws.reshape(-1, candidates, 3)
        middle = [0.5 * (low + high) for low, high in (region.x, region.y)]
        half = [0.5 * (high - low) for low, high in (region.x, region.y)]
        centres = (2.0 * draws[..., :2] - 1.0) * half + middle
        radius = math.hypot(*body.half_size[:2])
        gap = np.full(centres.shape[:2], np.inf)
        for other, other_radius in placed:
            offset = centres - other[:, None, :]
            distance = np.sqrt(offset[..., 0] * offset[..., 0] + offset[..., 1] * offset[..., 1])
            gap = np.minimum(gap, distance - (radius + other_radius))
        free = gap > 0.0
        # Where no candidate is free, the one with the widest gap is the best there is.
        choice = np.where(free.any(axis=1), free.argmax(axis=1), gap.argmax(axis=1))
        rows = np.arange(len(choice))
        centre = centres[rows, choice]
        placed.append((centre, radius))
        yaw = region.yaw[0] + (region.yaw[1] - region.yaw[0]) * draws[rows, choice, 2]
        height = body.half_size[2] if isinstance(body, ObjectSpec) else 0.0
        poses[body.name] = _upright_poses(centre, yaw, height)
    return poses


def _upright_poses(centre: npt.NDArray[np.float64], yaw: npt.NDArray[np.float64], height: float) -> Tensor:
    """(K, 4, 4) poses at table-centred xy (K, 2), with yaw (K,) and z = height."""
    # math, not numpy: vectorised sin and cos may round differently in another lane of another batch.
    cos = np.array([math.cos(a) for a in yaw])
    sin = np.array([math.sin(a) for a in yaw])
    pose = np.zeros((len(yaw), 4, 4))
    pose[:, 0, 0], pose[:, 0, 1] = cos, -sin
    pose[:, 1, 0], pose[:, 1, 1] = sin, cos
    pose[:, 2, 2] = pose[:, 3, 3] = 1.0
    pose[:, :2, 3] = centre + np.asarray(TABLE_CENTRE)
    pose[:, 2, 3] = height
    return torch.from_numpy(pose)
