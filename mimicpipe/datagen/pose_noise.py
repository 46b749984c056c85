"""Errors in the poses of objects that a generator moves its segments to, as a pose estimator would make them.

MimicGen's paper measures what such errors cost (Mandlekar et al., CoRL 2023, appendix on pose estimation: 5 mm and 5
degrees, 10 mm and 10 degrees). An object is seen with one error through a whole attempt, which is a function of
(attempt's seed, object). The simulator, success and what is recorded know the true poses.
"""

import math
from dataclasses import dataclass

import numpy as np

from mimicpipe import rng
from mimicpipe.compiled import compiled
from mimicpipe.datagen.rigid import Floats

_DRAWS = 6
"""Words of an object in stream POSE_NOISE: three of its position, two of the axis it is turned about, the angle."""


@dataclass(frozen=True)
class PoseNoise:
    """How wrong the poses of objects are."""

    position: float = 0.0
    """Largest error of each coordinate, metres; errors are uniform."""
    rotation: float = 0.0
    """Largest angle, radians, by which the object is seen turned about its centre: uniform, about any axis."""

    def __bool__(self) -> bool:
        return self.position > 0 or self.rotation > 0

    def seen(self, poses: Floats, seeds: rng.Seeds, number: int) -> Floats:
        """Poses (3, 4, K) of an object as the generator sees them.

        Args:
            poses: (3, 4, K) the true ones, in the env's frame.
            seeds: (K,) the attempts' seeds.
            number: of the object.
        """
        draws = 2.0 * rng.uniforms(seeds, rng.Stream.POSE_NOISE, _DRAWS, offset=number * _DRAWS) - 1.0
        seen = np.empty_like(poses)
        _disturb(poses, draws, self.position, self.rotation, seen)
        return seen


EXACT = PoseNoise()
"""No error."""


@compiled
def _disturb(poses: Floats, draws: Floats, position: float, rotation: float, out: Floats) -> None:
    """Each pose with its own error; draws (K, 6) in [-1, 1)."""
    turn = np.empty((3, 3))
    for k in range(draws.shape[0]):
        # An axis of uniform direction (Archimedes: its height is uniform), and Rodrigues' formula.
        z, around, angle = draws[k, 3], math.pi * draws[k, 4], rotation * draws[k, 5]
        flat = math.sqrt(1.0 - z * z)
        x, y = flat * math.cos(around), flat * math.sin(around)
        c, s = math.cos(angle), math.sin(angle)
        d = 1.0 - c
        turn[0, 0], turn[0, 1], turn[0, 2] = c + d * x * x, d * x * y - s * z, d * x * z + s * y
        turn[1, 0], turn[1, 1], turn[1, 2] = d * x * y + s * z, c + d * y * y, d * y * z - s * x
        turn[2, 0], turn[2, 1], turn[2, 2] = d * x * z - s * y, d * y * z + s * x, c + d * z * z
        for i in range(3):
            for j in range(3):
                out[i, j, k] = turn[i, 0] * poses[0, j, k] + turn[i, 1] * poses[1, j, k] + turn[i, 2] * poses[2, j, k]
            out[i, 3, k] = poses[i, 3, k] + position * draws[k, i]
