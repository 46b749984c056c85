"""One demo of an HDF5 file as a SourceDemo, in the layouts of Isaac Lab Mimic and of MimicGen.

Isaac Lab Mimic (isaaclab.utils.datasets.HDF5DatasetFileHandler, annotate_demos.py, datagen_info_pool.py):

    data/demo_<i>                                      attributes num_samples, success, seed
        actions                                        (T, A)
        obs/<feature>                                  (T, ...)
        obs/datagen_info/eef_pose/<eef>                (T, 4, 4)
                        /object_pose/<object>          (T, 4, 4)
                        /target_eef_pose/<eef>         (T, 4, 4)
                        /gripper_action/<eef>          (T, G), optional: else taken from the actions
                        /subtask_term_signals/<name>   (T,) or (T, 1), 0 or 1
                        /subtask_start_signals/<name>  (T,) or (T, 1), 0 or 1
        initial_state/mimicpipe                        (S,) float64, optional; Isaac Lab's own groups are left alone
        states/mimicpipe                               (T, S) float64, optional: the same before each action

MimicGen (mimicgen/scripts/prepare_src_dataset.py) has `datagen_info` beside `obs`, one arm without a name (`eef_pose`,
`target_pose` and `gripper_action` are arrays), and `object_poses`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import h5py
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mimicpipe.datagen.checks import check_info, require_finite
from mimicpipe.datagen.datagen_info import DatagenInfo, SourceDemo
from mimicpipe.errors import SourceDemoError
from mimicpipe.pools.conversion import Conversion
from mimicpipe.pools.hdf5_access import Node, child, child_names, read_array, read_number, read_text
from mimicpipe.pools.names import listing
from mimicpipe.pools.tracing import Recording

GripperFromActions = Callable[[Tensor], Mapping[str, Tensor]]
"""`MimicEnv.actions_to_gripper_actions`: actions (T, A) -> {eef: (T, G)}."""

STATE_KEY = "initial_state/mimicpipe"
STATES_KEY = "states/mimicpipe"
UNNAMED_EEF = "eef"
"""Name given to MimicGen's only arm where the caller names none."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What the task needs of every source demo; for names, None means everything the demo has."""

    eef_names: Sequence[str] | None
    object_names: Sequence[str] | None
    signal_names: Sequence[str] | None
    start_signal_names: Sequence[str] | None = ()
    gripper_from_actions: GripperFromActions | None = None
    """Used where a demo has no `gripper_action` of its own."""
    action_dim: int | None = None
    """Width of the env's actions; None accepts any."""
    observations: bool = False
    """Also read `obs/<feature>`; generation does not use them."""
    failed: bool = False
    """Also take demos recorded as failures (success=False)."""
    conversion: Conversion | None = None
    """From another simulator's frame and grippers to this env's."""
    own_frame: bool = False
    """Whether demos of robosuite, which has another frame and grippers, are refused where no conversion is given."""


def read_demo(data: h5py.Group, name: str, where: str, needs: Needs) -> SourceDemo:
    """Read and check the demo `name` of the group `data`; `where` names file and demo in messages.

    Raises:
        SourceDemoError: anything that the task needs is missing, damaged or wrong.
    """
    demo = child(data, name, where)
    if not isinstance(demo, h5py.Group):
        raise SourceDemoError(f"{where}: is no group with `actions` and `obs`; remove it from the file")
    success = read_number(demo, "success", where) != 0.0
    if not success and not needs.failed:
        raise SourceDemoError(f"{where}: success: the demo is recorded as a failure; remove it or record it again")
    actions = _actions(demo, where, needs.action_dim)
    info = _datagen_info(demo, actions, where, needs)
    check_info(info, where, actions.shape[0])
    return SourceDemo(
        name=name,
        info=info,
        actions=actions,
        initial_state=_state(demo, STATE_KEY, 1, where),
        states=_states(demo, actions.shape[0], where),
        observations=_observations(demo, info.length, where) if needs.observations else {},
        success=success,
        origin=where,
    )


def read_recording(data: h5py.Group, name: str, where: str, action_dim: int | None) -> tuple[Recording, bool]:
    """A demo's actions and states, whatever else it has, and whether it has annotated poses (`datagen_info`).

    Raises:
        SourceDemoError: no actions, or damaged ones.
    """
    demo = child(data, name, where)
    if not isinstance(demo, h5py.Group):
        raise SourceDemoError(f"{where}: is no group with `actions`; remove it from the file")
    actions = _actions(demo, where, action_dim)
    recording = Recording(
        name, actions, _state(demo, STATE_KEY, 1, where), _states(demo, actions.shape[0], where), where
    )
    infos = (child(demo, key, f"{where}: {key}") for key in ("obs/datagen_info", "datagen_info"))
    return recording, any(isinstance(info, h5py.Group) for info in infos)


def _actions(demo: h5py.Group, where: str, action_dim: int | None) -> Tensor:
    node = child(demo, "actions", f"{where}: actions")
    if node is None:
        raise SourceDemoError(
            f"{where}: actions: missing (the demo has {listing(child_names(demo, where))}); remove it"
        )
    actions = _floats(node, f"{where}: actions")
    if actions.ndim != 2 or 0 in actions.shape:
        raise SourceDemoError(
            f"{where}: actions: shape {tuple(actions.shape)}, expected (T, A), T and A > 0; remove it"
        )
    if action_dim not in (None, actions.shape[1]):
        raise SourceDemoError(
            f"{where}: actions: {actions.shape[1]} columns, this env's actions have {action_dim}; "
            "choose the env and env.control that the demos were recorded with, "
            "or record demos in this run's own control mode with pool=scripted"
        )
    samples = read_number(demo, "num_samples", where)
    if samples not in (None, actions.shape[0]):
        raise SourceDemoError(
            f"{where}: attribute num_samples: {samples:g}, but actions has {actions.shape[0]} steps; "
            "the recording is incomplete, remove it"
        )
    require_finite(actions, f"{where}: actions")
    return actions


def _datagen_info(demo: h5py.Group, actions: Tensor, where: str, needs: Needs) -> DatagenInfo:
    info = child(demo, "obs/datagen_info", f"{where}: obs/datagen_info")
    info = info if info is not None else child(demo, "datagen_info", f"{where}: datagen_info")
    if not isinstance(info, h5py.Group):
        raise SourceDemoError(
            f"{where}: obs/datagen_info: missing (the demo has {listing(child_names(demo, where))}); "
            "annotate the file first (Isaac Lab's annotate_demos.py, MimicGen's prepare_src_dataset.py)"
        )
    _check_interface(info, where, needs)
    eef_pose = _named(info, ("eef_pose",), needs.eef_names, where, _floats, unnamed=True)
    eefs = list(eef_pose)
    read = DatagenInfo(
        eef_pose=eef_pose,
        object_poses=_named(info, ("object_pose", "object_poses"), needs.object_names, where, _floats),
        subtask_term_signals=_named(info, ("subtask_term_signals",), needs.signal_names, where, _signal),
        target_eef_pose=_named(info, ("target_eef_pose", "target_pose"), eefs, where, _floats, unnamed=True),
        gripper_action=_gripper(info, eefs, actions, where, needs.gripper_from_actions),
        subtask_start_signals=_named(info, ("subtask_start_signals",), needs.start_signal_names, where, _signal),
    )
    if needs.conversion is not None:
        needs.conversion.apply(read)
    return read


def _check_interface(info: h5py.Group, where: str, needs: Needs) -> None:
    """MimicGen says which simulator a demo is from (attribute env_interface_type of its datagen_info)."""
    if not needs.own_frame or needs.conversion is not None:
        return
    if read_text(info, "env_interface_type", f"{where}: datagen_info") == "robosuite":
        raise SourceDemoError(
            f"{where}: recorded in robosuite: its poses are in the world's frame and its grippers close at +1; give "
            "pool.gripper_scale=-1 and this env's frame in the world, e.g. pool.frame=[-0.56,0,0.8] (Panda at a table)"
        )


def _gripper(
    info: h5py.Group, eefs: list[str], actions: Tensor, where: str, from_actions: GripperFromActions | None
) -> dict[str, Tensor]:
    if child(info, "gripper_action", f"{where}: gripper_action") is not None:
        return _named(info, ("gripper_action",), eefs, where, _floats, unnamed=True)
    parts = from_actions(actions) if from_actions is not None else {}
    missing = [e for e in eefs if e not in parts]
    if missing:
        raise SourceDemoError(
            f"{where}: gripper_action: none recorded for {listing(missing)} and the env takes none from the actions; "
            "record gripper_action/<eef>"
        )
    return {eef: parts[eef].clone(memory_format=torch.contiguous_format) for eef in eefs}


def _named(
    info: h5py.Group,
    keys: tuple[str, ...],
    wanted: Sequence[str] | None,
    where: str,
    read: Callable[[Node, str], Tensor],
    unnamed: bool = False,
) -> dict[str, Tensor]:
    """{name: array} from the group under the first of `keys` that exists; an `unnamed` one may be the array itself."""
    found = ((key, child(info, key, f"{where}: {key}")) for key in keys)
    key, group = next(((k, g) for k, g in found if g is not None), (keys[0], None))
    if unnamed and isinstance(group, h5py.Dataset):
        names = [UNNAMED_EEF] if wanted is None else list(wanted)
        if len(names) != 1:
            raise SourceDemoError(
                f"{where}: {key}: one end effector recorded, the task has {listing(names)}; name each"
            )
        return {names[0]: read(group, f"{where}: {key}")}
    if group is not None and not isinstance(group, h5py.Group):
        raise SourceDemoError(f"{where}: {key}: is an array, expected a group with one array per name")
    present = child_names(group, f"{where}: {key}") if group is not None else []
    names = present if wanted is None else list(wanted)
    missing = [n for n in names if n not in present]
    if group is None or missing:
        if not names:
            return {}
        raise SourceDemoError(
            f"{where}: {key}: no {listing(missing)}, it has {listing(present)}; annotate the demo for this task again"
        )
    return {n: _read_child(group, n, f"{where}: {key}/{n}", read) for n in names}


def _read_child(group: h5py.Group, name: str, where: str, read: Callable[[Node, str], Tensor]) -> Tensor:
    node = child(group, name, where)
    if node is None:
        raise SourceDemoError(f"{where}: damaged (listed, but not found); copy the file again")
    return read(node, where)


def _array(node: Node, where: str) -> npt.NDArray[np.generic]:
    if not isinstance(node, h5py.Dataset):
        raise SourceDemoError(f"{where}: is a group, expected an array")
    return read_array(node, where)


def _floats(node: Node, where: str) -> Tensor:
    with np.errstate(all="ignore"):  # too large for float32 becomes infinity, which the checks name
        return torch.from_numpy(np.ascontiguousarray(_array(node, where), dtype=np.float32))


def _signal(node: Node, where: str) -> Tensor:
    values = _array(node, where)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    on = values == 1
    if not bool(np.all(on | (values == 0))):
        raise SourceDemoError(f"{where}: holds other values than 0 and 1; annotate the demo again")
    return torch.from_numpy(np.ascontiguousarray(on))


def _state(demo: h5py.Group, key: str, ndim: int, where: str) -> Tensor | None:
    node = child(demo, key, f"{where}: {key}")
    if node is None:
        return None
    state = torch.from_numpy(np.ascontiguousarray(_array(node, f"{where}: {key}"), dtype=np.float64))
    if state.ndim != ndim or 0 in state.shape:
        expected = "(S,)" if ndim == 1 else "(T, S)"
        raise SourceDemoError(f"{where}: {key}: shape {tuple(state.shape)}, expected {expected}; record the demo again")
    if not bool(torch.isfinite(state).all()):
        raise SourceDemoError(f"{where}: {key}: NaN or infinity; record the demo again")
    return state


def _states(demo: h5py.Group, length: int, where: str) -> Tensor | None:
    states = _state(demo, STATES_KEY, 2, where)
    if states is not None and states.shape[0] != length:
        raise SourceDemoError(
            f"{where}: {STATES_KEY}: {states.shape[0]} rows, but actions has {length} steps; record the demo again"
        )
    return states


def _observations(demo: h5py.Group, length: int, where: str) -> dict[str, Tensor]:
    """Arrays directly under `obs`; nested groups (Isaac Lab's object states) have no feature name and are left out."""
    group = child(demo, "obs", f"{where}: obs")
    if not isinstance(group, h5py.Group):
        return {}
    found = {}
    for name in child_names(group, f"{where}: obs"):
        node = child(group, name, f"{where}: obs/{name}")
        if not isinstance(node, h5py.Dataset):
            continue
        values = read_array(node, f"{where}: obs/{name}")
        if values.shape[:1] != (length,):
            raise SourceDemoError(
                f"{where}: obs/{name}: shape {values.shape}, expected ({length}, ...) as the actions have"
            )
        found[name] = torch.from_numpy(np.ascontiguousarray(values))
    return found
