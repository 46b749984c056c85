"""Where boxes start on the table: uniform placement in a square region, without overlap, one draw per seed."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mimicpipe.envs.tasks.base import ObjectSpec
from mimicpipe.rng import Seeds, Stream, uniforms

TABLE_CENTRE = (0.56, 0.0)
"""Workspace centre from the robot's base, metres: robosuite puts a Panda 0.16 m behind the edge of a 0.8 m table
(robosuite/models/robots/manipulators/panda_robot.py, `base_xpos_offset`)."""

STACK_HALF_RANGE: Mapping[str, float] = {"D0": 0.08, "D1": 0.20}
"""Half side of MimicGen's square reset regions of Stack, metres; yaw is uniform over a full turn in both (Mandlekar et
al., "MimicGen", arXiv 2310.17596, appendix on tasks; same bounds as in mimicgen/envs/robosuite/stack.py)."""

_CANDIDATES = 64
"""Placements drawn per object and seed: one fails with a chance below 0.5 in D0, all in less than 1e-19 of seeds."""


def place_boxes(seeds: Seeds, objects: Sequence[ObjectSpec], half_range: float) -> dict[str, Tensor]:
    """Poses of boxes that stand on the table around its centre, each with a uniform yaw.

    Boxes are placed in order. Of the candidates of a box the first is taken whose centre is further from every earlier
    box than the sum of their bounding circles' radii, the rule of robosuite's `UniformRandomSampler`.

    Args:
        seeds: (K,) attempt seeds; a pose depends on its own seed only.
        objects: boxes, in placing order.
        half_range: half side of the square region of the centres, metres.

    Returns:
        {object: (K, 4, 4)} float64.
    """
    placed: list[tuple[npt.NDArray[np.float64], float]] = []
    poses = {}
    for index, box in enumerate(objects):
        draws = uniforms(seeds, Stream.SCENE, 3 * _CANDIDATES, offset=3 * _CANDIDATES * index)
        draws = draws.reshape(-1, _CANDIDATES, 3)
        centres = (2.0 * draws[..., :2] - 1.0) * half_range
        radius = math.hypot(*box.half_size[:2])
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
        poses[box.name] = _upright_poses(centre, 2.0 * np.pi * draws[rows, choice, 2], box.half_size[2])
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
