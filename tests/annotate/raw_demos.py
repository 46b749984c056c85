"""Recordings without annotations, made from the demos that come with the package."""

from pathlib import Path

import h5py
import numpy as np

from mimicpipe.preflight import BUNDLED_DEMOS

CUT, NO_STATE, OPEN_HAND = 1, 2, 3
"""Demos of `write_raw` that cannot be used: cut short, without a state, and with a hand that never closes."""


def write_raw(path: Path, task: str, count: int = 5) -> Path:
    """Actions and initial states alone, as a teleoperation script leaves them."""
    with h5py.File(BUNDLED_DEMOS / f"{task}.hdf5") as source, h5py.File(path, "w") as out:
        for number in range(count):
            demo, group = source[f"data/demo_{number}"], out.create_group(f"data/demo_{number}")
            actions = np.asarray(demo["actions"])
            if number == CUT:
                actions = actions[:40]
            if number == OPEN_HAND:
                actions[:, -1] = 1.0
            group["actions"] = actions
            if number != NO_STATE:
                group["initial_state/mimicpipe"] = np.asarray(demo["initial_state/mimicpipe"])
    return path


def without_signals(path: Path, task: str, count: int = 3) -> Path:
    """Demos with poses and without signals or states."""
    with h5py.File(BUNDLED_DEMOS / f"{task}.hdf5") as source, h5py.File(path, "w") as out:
        for number in range(count):
            demo = source[f"data/demo_{number}"]
            group = out.create_group(f"data/demo_{number}")
            group["actions"] = np.asarray(demo["actions"])
            for key in ("eef_pose", "object_pose", "target_eef_pose", "gripper_action"):
                demo.copy(f"obs/datagen_info/{key}", group.require_group("obs/datagen_info"), key)
    return path
