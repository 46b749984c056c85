"""Contacts that cannot be, which MuJoCo-Warp reports of two boxes, are left out.

Where an edge of one box is parallel to a face of the other, as of every box that tips over, its search for the axis
along which the boxes overlap least is decided by rounding (its pull request 1597 tells of it). It may then name points
that are centimetres deep beside the true ones, and the boxes fly apart. No point of two convex bodies is deeper along a
normal than the bodies overlap along it, which is what is checked here.
"""

from typing import Any

import mujoco
import warp as wp

wp.set_module_options({"enable_backward": False})

_BOX = wp.constant(int(mujoco.mjtGeom.mjGEOM_BOX.value))
_ROUNDING = wp.constant(1e-4)
"""Metres; what is deeper than possible by less does no harm."""


@wp.func
def _reach(size: wp.vec3, rotation: wp.mat33, normal: wp.vec3) -> float:
    """Of a box from its middle along a normal."""
    along = wp.transpose(rotation) @ normal
    return wp.dot(size, wp.vec3(wp.abs(along[0]), wp.abs(along[1]), wp.abs(along[2])))


@wp.kernel
def _leave_out(
    count: wp.array[int],
    worlds: wp.array[int],
    geoms: wp.array[wp.vec2i],
    frames: wp.array[wp.mat33],
    depths: wp.array[float],
    geom_type: wp.array[int],
    geom_size: wp.array2d[wp.vec3],
    geom_pos: wp.array2d[wp.vec3],
    geom_rot: wp.array2d[wp.mat33],
    kinds: wp.array[int],
):
    row = wp.tid()
    if row >= count[0]:
        return
    first, second = geoms[row][0], geoms[row][1]
    if first < 0 or second < 0 or geom_type[first] != _BOX or geom_type[second] != _BOX:
        return
    world = worlds[row]
    sizes = world % geom_size.shape[0]
    normal = wp.vec3(frames[row][0, 0], frames[row][0, 1], frames[row][0, 2])
    reach = _reach(geom_size[sizes, first], geom_rot[world, first], normal)
    reach += _reach(geom_size[sizes, second], geom_rot[world, second], normal)
    overlap = reach - wp.abs(wp.dot(normal, geom_pos[world, second] - geom_pos[world, first]))
    if -depths[row] > overlap + _ROUNDING:
        kinds[row] = 0  # neither for the solver nor for a sensor


def leave_out_impossible(model: Any, data: Any) -> None:
    """A contact filter for MuJoCo-Warp: one launch, on its current device and stream."""
    contact = data.contact
    given = [
        data.nacon, contact.worldid, contact.geom, contact.frame, contact.dist, model.geom_type, model.geom_size,
        data.geom_xpos, data.geom_xmat, contact.type,
    ]  # fmt: skip
    wp.launch(_leave_out, data.naconmax, given)
