"""Checks of one demo's trajectories that do not depend on the task; each failure is one SourceDemoError line.

`where` names the demo for the message, e.g. "demos.hdf5: demo_3". Keys are named as in the HDF5 layout.
"""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from mimicpipe.datagen.datagen_info import DatagenInfo
from mimicpipe.errors import SourceDemoError
from mimicpipe.poses import rotation_defect

_LEAST_FOLLOWED = 0.02
"""Share of the way to its targets that an eef covers in a step; an arm with a lag of 0.95 still covers 0.05."""
_FAR = 0.01
"""Targets nearer than this say nothing of where the eef is told to go, metres."""
_FAR_STEPS = 20
"""So many far targets are enough to tell."""
MAX_ROTATION_DEFECT = 1e-3
"""Largest `rotation_defect` of a source pose: float32 rounding stays near 1e-6, a wrong quaternion order is near 1."""


def check_info(info: DatagenInfo, where: str, length: int | None = None) -> None:
    """Run every check of this module on a demo: shapes, finite values, rotations, targets that the eef goes to, and a
    0→1 edge in each signal that ends a subtask. Where skills begin is looked at by whoever needs it (`skill_segments`).
    """
    check_shapes(info, where, length)
    check_finite(info, where)
    check_rotations(info, where)
    check_targets_are_followed(info, where)
    for name, signal in info.subtask_term_signals.items():
        rising_edge(signal, f"{where}: subtask_term_signals/{name}")


def check_shapes(info: DatagenInfo, where: str, length: int | None = None) -> None:
    """Every pose is (T, 4, 4), every gripper action (T, G > 0), every signal (T,), all with one T > 0.

    Args:
        info: the demo.
        where: names the demo.
        length: steps of the demo's actions; None takes T from the first end effector.
    """
    if not info.eef_pose:
        raise SourceDemoError(f"{where}: eef_pose: no end effector recorded; annotate the demo again")
    reference = "actions"
    if length is None:
        first, pose = next(iter(info.eef_pose.items()))
        reference, length = f"eef_pose/{first}", pose.shape[0] if pose.ndim else 0
    if length == 0:
        raise SourceDemoError(f"{where}: {reference}: no steps recorded; remove the demo")
    for key, value in _poses(info):
        _require_shape(value, (length, 4, 4), f"{where}: {key}", reference)
    for key, value in _signals(info):
        _require_shape(value, (length,), f"{where}: {key}", reference)
    for name, value in info.gripper_action.items():
        _require_shape(value, (length, None), f"{where}: gripper_action/{name}", reference)


def check_targets_are_followed(info: DatagenInfo, where: str) -> None:
    """Each eef moves towards its targets.

    Targets that were computed from actions of another control, such as joint positions taken for motions, are none:
    segments made of them jump away from the demo's course.
    """
    for eef, target in info.target_eef_pose.items():
        measured = info.eef_pose.get(eef)
        if measured is None:
            continue
        asked = (target[:-1, :3, 3] - measured[:-1, :3, 3]).double()
        moved = (measured[1:, :3, 3] - measured[:-1, :3, 3]).double()
        far = asked.norm(dim=1) > _FAR
        if int(far.sum()) < _FAR_STEPS:
            continue
        followed = float((asked[far] * moved[far]).sum() / asked[far].square().sum())
        if followed < _LEAST_FOLLOWED:
            raise SourceDemoError(
                f"{where}: target_eef_pose/{eef}: the eef covers {followed:.1%} of the way to its target in a step, so "
                "it does not go where it is told; its actions are of another control, such as joint positions; "
                "record or convert the demo with this env's actions"
            )


def check_finite(info: DatagenInfo, where: str) -> None:
    """No NaN or infinity in any pose or gripper action; the message names the first bad step."""
    for key, value in _poses(info):
        require_finite(value, f"{where}: {key}")
    for name, value in info.gripper_action.items():
        require_finite(value, f"{where}: gripper_action/{name}")


def check_rotations(info: DatagenInfo, where: str) -> None:
    """Every pose is a right-handed rotation, a translation and the last row (0, 0, 0, 1), to MAX_ROTATION_DEFECT."""
    for key, value in _poses(info):
        defect = rotation_defect(value.double())
        bad = defect > MAX_ROTATION_DEFECT
        if bool(bad.any()):
            step = int(bad.nonzero()[0, 0])
            raise SourceDemoError(
                f"{where}: {key}: the pose at step {step} is no rigid transform (defect {float(defect[step]):.2g}, "
                f"allowed {MAX_ROTATION_DEFECT:g}); record 4x4 matrices with orthonormal rotation and last row 0 0 0 1"
            )


def rising_edge(signal: Tensor, where: str) -> int:
    """First step at which a signal (T,) is true, given that it was false before.

    Raises:
        SourceDemoError: the signal never goes 0→1, or it is true from the first step.
    """
    steps = signal.bool().nonzero()
    if steps.shape[0] == 0:
        raise SourceDemoError(f"{where}: the signal never goes 0→1; annotate the demo again or remove it")
    first = int(steps[0, 0])
    if first == 0:
        raise SourceDemoError(
            f"{where}: the signal is true from the first step, so it never goes 0→1; "
            "annotate the demo again or remove it"
        )
    return first


def require_finite(value: Tensor, where: str) -> None:
    """Raise SourceDemoError with the first bad step unless every value of a (T, ...) tensor is finite."""
    bad = ~torch.isfinite(value)
    if bool(bad.any()):
        step = int(bad.nonzero()[0, 0])
        raise SourceDemoError(f"{where}: NaN or infinity at step {step}; repair the recording or remove the demo")


def _poses(info: DatagenInfo) -> Iterator[tuple[str, Tensor]]:
    yield from _keyed("eef_pose", info.eef_pose.items())
    yield from _keyed("object_pose", info.object_poses.items())
    yield from _keyed("target_eef_pose", info.target_eef_pose.items())


def _signals(info: DatagenInfo) -> Iterator[tuple[str, Tensor]]:
    yield from _keyed("subtask_term_signals", info.subtask_term_signals.items())
    yield from _keyed("subtask_start_signals", info.subtask_start_signals.items())


def _keyed(group: str, items: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    return ((f"{group}/{name}", value) for name, value in items)


def _require_shape(value: Tensor, wanted: tuple[int | None, ...], where: str, reference: str) -> None:
    shape = tuple(value.shape)
    if len(shape) == len(wanted) and all(s > 0 if w is None else s == w for s, w in zip(shape, wanted, strict=True)):
        return
    text = ", ".join("G" if w is None else str(w) for w in wanted) + ("," if len(wanted) == 1 else "")
    raise SourceDemoError(
        f"{where}: shape {shape}, expected ({text}) as {reference} has {wanted[0]} steps; "
        "record every array once per control step"
    )
