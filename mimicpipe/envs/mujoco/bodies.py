"""A task's bodies in an MjSpec: free objects, fixtures and the parts on their joints."""

import math
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from mimicpipe.envs.mujoco.panda import OBJECT_BIT, ROBOT_BITS, TABLE_BIT
from mimicpipe.envs.tasks.base import FixtureSpec, ObjectSpec, PartSpec, Rgba, Shape
from mimicpipe.envs.tasks.placement import TABLE_CENTRE

_KINDS = {
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
    "capsule": mujoco.mjtGeom.mjGEOM_CAPSULE,
}
_JOINTS = {"slide": mujoco.mjtJoint.mjJNT_SLIDE, "hinge": mujoco.mjtJoint.mjJNT_HINGE}


_PRISM_SIDES = 32
"""The corners lie on the cylinder, so flat sides are 0.5 % of the radius inside it."""
_FOOT_RADIUS, _FOOT_GAP = 0.15, 0.0003
"""Of the balls that a prism stands on: radius as a share of the cylinder's, and how far they stand out, metres."""
_FOOT_DISTANCE = 0.8
"""Of a foot's middle from the axis, as a share of the cylinder's radius."""


def joint_name(name: str) -> str:
    """Of the joint of an object or a part."""
    return f"{name}_joint"


def surface(timestep: float, friction: float = 1.0) -> dict[str, Any]:
    """Contact of table, objects and fixtures: friction as robosuite's; as stiff as the time step allows (2 dt)."""
    return {
        "friction": [friction, 0.005, 0.0001],
        "solref": [2 * timestep, 1.0],
        "solimp": [0.95, 0.99, 0.001, 0.5, 2.0],
    }


def add_object(spec: mujoco.MjSpec, item: ObjectSpec, prisms: bool = False) -> None:
    """Add a free body; it meets everything. With `prisms`, its cylinders have 32 flat sides, and feet at both ends."""
    body = spec.worldbody.add_body(name=item.name, pos=[TABLE_CENTRE[0], TABLE_CENTRE[1], item.half_size[2]])
    body.add_freejoint(name=joint_name(item.name))
    shapes = item.shapes or (Shape("box", item.half_size),)
    bits = (OBJECT_BIT, TABLE_BIT | OBJECT_BIT | ROBOT_BITS)
    _add_shapes(spec, body, item.name, shapes, item.rgba, item.mass, bits, prisms)


def add_fixture(spec: mujoco.MjSpec, item: FixtureSpec, prisms: bool = False) -> None:
    """Add a body that the reset places: a mocap body, whose pose is an input of the physics and not a part of qpos.

    It and its parts meet objects and robots, but neither the table nor fixtures: a drawer slides within its limits.
    """
    body = spec.worldbody.add_body(name=item.name, pos=[TABLE_CENTRE[0], TABLE_CENTRE[1], 0.0], mocap=True)
    _add_shapes(spec, body, item.name, item.shapes, item.rgba, 0.0, (0, OBJECT_BIT | ROBOT_BITS), prisms)
    for part in item.parts:
        _add_part(spec, body, part, prisms)


def _add_part(spec: mujoco.MjSpec, fixture: "mujoco.MjsBody", part: PartSpec, prisms: bool) -> None:
    body = fixture.add_body(name=part.name, pos=part.pos, gravcomp=1.0 if part.joint == "slide" else 0.0)
    body.add_joint(
        name=joint_name(part.name), type=_JOINTS[part.joint], axis=part.axis, pos=part.anchor, range=part.limits,
        limited=True, damping=part.damping, frictionloss=part.friction,
    )  # fmt: skip
    _add_shapes(spec, body, part.name, part.shapes, part.rgba, part.mass, (0, OBJECT_BIT | ROBOT_BITS), prisms)


def _add_shapes(
    spec: mujoco.MjSpec,
    body: "mujoco.MjsBody",
    name: str,
    shapes: Sequence[Shape],
    rgba: Rgba,
    mass: float,
    bits: tuple[int, int],
    prisms: bool,
) -> None:
    solid = [shape for shape in shapes if shape.collides]
    volume = sum(_volume(shape) for shape in solid)
    for index, shape in enumerate(shapes):
        contype, conaffinity = bits if shape.collides else (0, 0)
        named = name if index == 0 else f"{name}_{index}"
        form: dict[str, Any] = {"type": _KINDS[shape.kind], "size": [*shape.size, 0.0][:3]}
        contact = {"contype": contype, "conaffinity": conaffinity, **surface(spec.option.timestep, shape.friction)}
        if prisms and shape.kind == "cylinder" and shape.collides:
            form = {"type": mujoco.mjtGeom.mjGEOM_MESH, "meshname": _add_prism(spec, named, shape)}
            _add_feet(body, named, shape, contact)
        body.add_geom(
            name=named, pos=shape.pos, quat=shape.quat, rgba=shape.rgba or rgba,
            mass=mass * (_volume(shape) / volume) if shape.collides else 0.0, **form, **contact,
        )  # fmt: skip


def _add_prism(spec: mujoco.MjSpec, name: str, shape: Shape) -> str:
    """Add a mesh for a cylinder, without the ends of its feet; its name."""
    radius, half = shape.size[0], shape.size[1] - _FOOT_GAP
    corners = [2.0 * math.pi * side / _PRISM_SIDES for side in range(_PRISM_SIDES)]
    points = [(radius * math.cos(a), radius * math.sin(a), z) for a in corners for z in (-half, half)]
    spec.add_mesh(name=name, uservert=[number for point in points for number in point])
    return name


def _add_feet(body: "mujoco.MjsBody", name: str, shape: Shape, contact: dict[str, Any]) -> None:
    """Add four balls at each end of a cylinder, which nobody sees.

    On a flat end a prism rocks for ever in MuJoCo-Warp: tilted by a quarter of a degree it touches at one edge only.
    """
    (radius, half), size = shape.size, _FOOT_RADIUS * shape.size[0]
    for index in range(8):
        angle, end = math.pi / 2.0 * (index % 4), 1.0 if index < 4 else -1.0
        out = _FOOT_DISTANCE * radius
        at = (out * math.cos(angle), out * math.sin(angle), end * (half - size))
        place = np.empty(3)
        mujoco.mju_rotVecQuat(place, np.asarray(at), np.asarray(shape.quat, dtype=np.float64))
        body.add_geom(
            name=f"{name}_foot_{index}", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[size, 0.0, 0.0], mass=0.0,
            pos=np.asarray(shape.pos) + place, rgba=[0.0, 0.0, 0.0, 0.0], **contact,
        )  # fmt: skip


def _volume(shape: Shape) -> float:
    if shape.kind == "box":
        x, y, z = shape.size
        return 8.0 * x * y * z
    radius, half = shape.size
    caps = 4.0 / 3.0 * math.pi * radius**3 if shape.kind == "capsule" else 0.0
    return 2.0 * math.pi * radius * radius * half + caps
