"""Whether an arm at some joint positions touches anything: MuJoCo's own collision detection on a copy of the scene.

What is looked at: the arm's links, hand and fingers, and the object in the hand, which moves with it, against
everything else in the scene, another arm included; and the hand against the arm's own first links. The object may touch
the fingers. Other arms go, with what they hold, where they are known to be going; everything else stands where it is.

    arm (links 3 on, hand, fingers) ──┐
    object in the hand ───────────────┼──► scenery: table, objects, fixtures, parts, other arms
    hand, fingers, links 6, 7 ────────┴──► links 0 to 4 of the same arm;  object in the hand ──► links 0 to 5
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from mimicpipe.planners.arm import Arm, moved_at_most

Array = npt.NDArray[np.float64]
Pair = tuple[int, int]

_SCENERY, _HELD, _HAND = 1, 2, 4
"""Collision bits of the copy: the arm's geoms ask for what they may not meet."""
_TOUCHING = 0.002
"""A fingertip this near to an object holds it, together with the other one, metres."""
_AROUND = 0.4
"""What is nearer than the clearance at the start or the goal may be so up to here from it, in metres that no point of
the arm moves further than."""
_NOBODY: Mapping[str, npt.NDArray[np.floating]] = {}
_ENOUGH = 1e-4
"""Allowed for rounding, where a pair may be as near as it is at the start or the goal, metres."""


@dataclass(frozen=True)
class Scenes:
    """The models that ways are planned in; plain data for other processes."""

    model: mujoco.MjModel
    """The env's own."""
    arms: Mapping[str, Arm]
    """{eef: its arm}."""
    objects: tuple[str, ...]
    """Free bodies, which a hand may hold."""


@dataclass(frozen=True)
class _Held:
    """An object in a hand."""

    name: str
    column: int
    """Of its pose in qpos."""
    in_hand: tuple[Array, Array]
    """Its position and wxyz quaternion in the hand's frame."""


@dataclass(frozen=True)
class _Mover:
    """Another arm on its way."""

    columns: npt.NDArray[np.int64]
    site: int
    joints: Array
    """(T + 1, 7): now, and behind each step of its way."""
    held: _Held | None


class Collisions:
    """One arm in one scene at one time.

    Args:
        scenes: the models.
        eef: whose arm.
        state: (S,) from `MujocoEnv.get_state`.
        closing: whether the gripper is closed on the way, so that it may hold something.
        clearance: distance to keep, metres.
        others: {eef: (L, 4, 4) target poses} of other arms, one a control step from now on.
    """

    def __init__(
        self,
        scenes: Scenes,
        eef: str,
        state: Array,
        *,
        closing: bool,
        clearance: float,
        others: Mapping[str, npt.NDArray[np.floating]] = _NOBODY,
    ) -> None:
        model, self.arm = scenes.model, scenes.arms[eef]
        self.clearance = clearance
        self.checks = 0
        self._columns = self.arm.columns(model)
        self._site = self.arm.hand(model)
        data = mujoco.MjData(model)
        data.qpos[:] = state[1 : 1 + model.nq]
        fixtures = state[1 + model.nq + model.nv :]
        data.mocap_pos[:] = fixtures[: 3 * model.nmocap].reshape(-1, 3)
        data.mocap_quat[:] = fixtures[3 * model.nmocap :].reshape(-1, 4)
        mujoco.mj_kinematics(model, data)
        self.start = data.qpos[self._columns].copy()
        self._held = _held_object(model, data, self.arm, scenes.objects) if closing else None
        self.held = None if self._held is None else self._held.name
        self._movers = [_mover(scenes, name, data, targets) for name, targets in others.items() if len(targets)]
        self.last = max((len(mover.joints) - 1 for mover in self._movers), default=0)
        """Steps until all other arms have arrived."""
        self._model = _for_planning(model, self.arm, self.held, clearance)
        self._data = data
        self._allowed: list[tuple[Array, dict[Pair, float]]] = []

    def at(self, step: int) -> None:
        """Put other arms to where they are behind so many control steps from now."""
        for mover in self._movers:
            self._data.qpos[mover.columns] = mover.joints[min(step, len(mover.joints) - 1)]
        if any(mover.held is not None for mover in self._movers):
            mujoco.mj_kinematics(self._model, self._data)
            for mover in self._movers:
                if mover.held is not None:
                    self._carry(mover.site, mover.held)

    def near(self, joints: Array) -> dict[Pair, float]:
        """Distance of each pair of geoms that is nearer than the clearance; below zero they overlap."""
        model, data = self._model, self._data
        self.checks += 1
        data.qpos[self._columns] = joints
        mujoco.mj_kinematics(model, data)
        if self._held is not None:
            self._carry(self._site, self._held)
            mujoco.mj_kinematics(model, data)
        mujoco.mj_collision(model, data)
        found: dict[Pair, float] = {}
        if data.ncon:
            contact = data.contact
            for pair, distance in zip(contact.geom.tolist(), contact.dist.tolist(), strict=True):
                key = (pair[0], pair[1])
                found[key] = min(distance, found.get(key, distance))
        return found

    def allow(self, joints: Array) -> None:
        """Around these joint positions, let pairs be as near as they are here: at the start, where the hand has just
        let go of something, or at the goal."""
        if found := self.near(joints):
            self._allowed.append((joints, found))

    def forget(self) -> None:
        """Allow nothing that was allowed."""
        self._allowed = []

    def free(self, joints: Array, keep: float | None = None) -> bool:
        """Whether everything keeps its distance: the clearance, or `keep`, or less where that is allowed."""
        found = self.near(joints)
        if not found:
            return True
        keep = self.clearance if keep is None else keep
        allowed = [pairs for there, pairs in self._allowed if moved_at_most(there, joints) < _AROUND]
        return all(
            distance >= min([keep, *(pairs.get(pair, keep) for pairs in allowed)]) - _ENOUGH
            for pair, distance in found.items()
        )

    def overlap(self, joints: Array, most: float) -> str | None:
        """What overlaps by more than `most` metres, in words."""
        return self._in_words(self.near(joints), most)

    def overlap_of_arm(self, joints: Array, most: float, acts_on: str | None) -> str | None:
        """Likewise of the arm, without what it holds and what it acts on: a body with all that is fixed to it."""
        model = self._model
        root = -1 if acts_on is None else int(model.body_rootid[model.body(acts_on).id])
        found = {
            pair: distance
            for pair, distance in self.near(joints).items()
            if all(
                model.body_rootid[body] != root and model.body(body).name != self.held for body in self._bodies(pair)
            )
        }
        return self._in_words(found, most)

    def _in_words(self, found: Mapping[Pair, float], most: float) -> str | None:
        deep = [(distance, pair) for pair, distance in found.items() if distance < -most]
        if not deep:
            return None
        distance, pair = min(deep)
        first, second = (self._model.body(body).name for body in self._bodies(pair))
        return f"{first} and {second} overlap by {-1000.0 * distance:.1f} mm"

    def _bodies(self, pair: Pair) -> list[int]:
        return [int(self._model.geom_bodyid[geom]) for geom in pair]

    def _carry(self, site: int, held: _Held) -> None:
        data, column = self._data, held.column
        hand = np.empty(4)
        mujoco.mju_mat2Quat(hand, data.site_xmat[site])
        pos, quat = np.empty(3), np.empty(4)
        mujoco.mju_mulPose(pos, quat, data.site_xpos[site], hand, *held.in_hand)
        data.qpos[column : column + 3] = pos
        data.qpos[column + 3 : column + 7] = quat


def _relative(data: mujoco.MjData, site: int, body: int) -> tuple[Array, Array]:
    """Position and wxyz quaternion of a body in a site's frame."""
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, data.site_xmat[site])
    away, back = np.empty(3), np.empty(4)
    mujoco.mju_negPose(away, back, data.site_xpos[site], quat)
    pos, turn = np.empty(3), np.empty(4)
    mujoco.mju_mulPose(pos, turn, away, back, data.xpos[body], data.xquat[body])
    return pos, turn


def _mover(scenes: Scenes, eef: str, data: mujoco.MjData, targets: npt.NDArray[np.floating]) -> _Mover:
    model, arm = scenes.model, scenes.arms[eef]
    columns = arm.columns(model)
    start = data.qpos[columns].copy()
    joints = np.concatenate((start[None], arm.follow(start, targets.astype(np.float64))))
    return _Mover(columns, arm.hand(model), joints, _held_object(model, data, arm, scenes.objects))


def _held_object(model: mujoco.MjModel, data: mujoco.MjData, arm: Arm, objects: tuple[str, ...]) -> _Held | None:
    """The object that both fingertips touch."""
    tips = [model.geom(f"{arm.prefix}panda_{side}finger_tip").id for side in ("left", "right")]
    for name in objects:
        body = model.body(name).id
        geoms = [g for g in range(model.ngeom) if model.geom_bodyid[g] == body and model.geom_contype[g]]
        if all(any(_distance(model, data, tip, geom) < _TOUCHING for geom in geoms) for tip in tips):
            column = int(model.jnt_qposadr[model.body(body).jntadr[0]])
            return _Held(name, column, _relative(data, arm.hand(model), body))
    return None


def _distance(model: mujoco.MjModel, data: mujoco.MjData, a: int, b: int) -> float:
    return float(mujoco.mj_geomDistance(model, data, a, b, 2.0 * _TOUCHING, None))


def _for_planning(model: mujoco.MjModel, arm: Arm, held: str | None, clearance: float) -> mujoco.MjModel:
    """A copy whose collision bits say what must not meet, and whose arm notices things within the clearance."""
    out = copy.copy(model)
    for geom in range(model.ngeom):
        body = int(model.geom_bodyid[geom])
        link = arm.link_of(model, body)
        solid = bool(model.geom_contype[geom] or model.geom_conaffinity[geom])
        contype, conaffinity = _bits(link, held is not None and model.body(body).name == held, solid)
        out.geom_contype[geom], out.geom_conaffinity[geom] = contype, conaffinity
        out.geom_margin[geom] = clearance if conaffinity else 0.0
    for body in range(model.nbody):
        mine = np.flatnonzero(model.geom_bodyid == body)
        out.body_contype[body] = np.bitwise_or.reduce(out.geom_contype[mine]) if len(mine) else 0
        out.body_conaffinity[body] = np.bitwise_or.reduce(out.geom_conaffinity[mine]) if len(mine) else 0
        out.body_margin[body] = out.geom_margin[mine].max() if len(mine) else 0.0
    return out


def _bits(link: int | None, is_held: bool, solid: bool) -> tuple[int, int]:
    """(contype, conaffinity) of a geom in the copy."""
    if is_held:
        return (_HELD, _SCENERY) if solid else (0, 0)
    if link is None:
        return (_SCENERY, 0) if solid else (0, 0)
    if link <= 2:
        return 0, _HAND | _HELD
    if link <= 4:
        return 0, _SCENERY | _HAND | _HELD
    if link == 5:
        return 0, _SCENERY | _HELD
    return _HAND, _SCENERY
