"""What a staged episode looks like in bytes: the header of a segment log, and the columns in it.

The payload of an episode of T frames: the initial state (float64), then every numeric column (T, *shape) in the order
of the features, then for each camera its pixel counts, if it has them, and its encoded frames. No torch here: the
writer's processes import this.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

FORMAT = 1
HDF5 = "hdf5"
"""`layout` of a header whose episodes are to become an HDF5 file; LeRobot's has none."""
CONVERSION = "conversion"
"""`layout` of a header whose episodes `mimicpipe.convert` writes into an HDF5 file."""
BY_ATTEMPT = "attempt"
"""`order` of a header whose episodes have their attempts as indices; otherwise these are the order of the commits."""
HDF5_NAME = "demos.hdf5"
"""Of the file in such a dataset's folder."""
CAMERAS = ("image", "video", "zlib")
"""Dtypes of columns whose frames are encoded: as PNG or TIFF files, as an mp4 file, as HDF5's gzip filter has them."""


@dataclass(frozen=True, slots=True)
class Column:
    """A feature of the dataset as it is kept on the disk."""

    name: str
    dtype: str
    """A numpy dtype, one of `CAMERAS`, or "string"."""
    shape: tuple[int, ...]

    @property
    def is_camera(self) -> bool:
        """Whether its frames are encoded."""
        return self.dtype in CAMERAS

    @property
    def is_depth(self) -> bool:
        """Whether it is a camera of depth, whose frames have one channel."""
        return self.is_camera and self.shape[-1] == 1

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """Dtype of its values; pixels and characters are uint8, pixels of depth uint16."""
        if self.is_camera or self.dtype == "string":
            return np.dtype("uint16" if self.is_depth else "uint8")
        return np.dtype(self.dtype)

    @property
    def counts_pixels(self) -> bool:
        """Whether it is kept of an episode how often each value occurs in its pixels."""
        return self.is_camera and self.dtype != "zlib" and not self.is_depth

    def nbytes(self, length: int) -> int:
        """Bytes of `length` frames before any encoding."""
        return length * int(np.prod(self.shape)) * self.numpy_dtype.itemsize


@dataclass(frozen=True, slots=True)
class PackedEpisode:
    """An episode on its way to a log."""

    meta: dict[str, Any]
    """`index`, `length`, `task` and what is kept of the attempt."""
    state: np.ndarray
    """(S,) float64, the initial state."""
    columns: tuple[np.ndarray, ...]
    """(T, *shape), contiguous, in the order of the features."""

    @property
    def nbytes(self) -> int:
        """Host memory of the arrays, bytes."""
        return self.state.nbytes + sum(column.nbytes for column in self.columns)


def columns_of(features: Mapping[str, Mapping[str, Any]]) -> list[Column]:
    """The columns of a header's features, cameras last: {name: {"dtype", "shape"}}, and "width" of text, its bytes."""
    columns = [
        Column(name, str(ft["dtype"]), (ft["width"],) if ft["dtype"] == "string" else tuple(ft["shape"]))
        for name, ft in features.items()
    ]
    return sorted(columns, key=lambda column: column.is_camera)  # stable
