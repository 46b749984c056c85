"""Demos of env=mujoco's three-cube stack under the names of Isaac Lab's: the same robot in the same frame."""

from pathlib import Path

import h5py

from mimicpipe.preflight import BUNDLED_DEMOS

_NAMES = {"panda": "franka", "cubeA": "cube_2", "cubeB": "cube_1", "cubeC": "cube_3"}


def write_stack_demos(path: Path) -> Path:
    """Copy the bundled demos, with end effector and cubes renamed."""
    with h5py.File(BUNDLED_DEMOS / "stack_three.hdf5") as source, h5py.File(path, "w") as out:
        source.copy("data", out)
        for demo in out["data"].values():
            for group in demo["obs/datagen_info"].values():
                for name in set(group) & set(_NAMES):
                    group.move(name, _NAMES[name])
    return path
