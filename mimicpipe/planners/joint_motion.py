"""A way of one arm to a pose: from a request to one target pose a control step. Runs in the planner's processes.

    start ─► postures at the goal ─► RRT-Connect ─► corners cut ─► paced ─► targets ─► the arm follows them: still free?
             (inverse kinematics)                                                      (else once more, other numbers)

Other arms that are on their ways are met where they are at each step; where that leaves no way, the arm waits until
they have arrived.

The env is told poses, not joint positions, and its inverse kinematics has one joint more than it needs. So what is
checked last is not the path that was planned, but the one that the env's own control makes of it.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mimicpipe import rng
from mimicpipe.datagen.motion import MotionRequest
from mimicpipe.planners.arm import LEVERS, LOWER, SPEED_LIMITS, UPPER, moved_at_most
from mimicpipe.planners.collision import Collisions, Scenes
from mimicpipe.planners.pacing import fractions, turn_between
from mimicpipe.planners.rrt_connect import EdgeFree, rrt_connect, shorten

Array = npt.NDArray[np.float64]

_ROUNDS = 3
"""Searches, each with other random numbers, until the arm can follow what was found."""
_STEP = 0.4
"""Longest extension of a tree, metres that no point of the arm moves further than."""
_FEW = 8
"""Pieces of an edge that are looked at for its pace, for each 10 cm."""
_OVERLAP = 0.03
"""Overlap at the start that the arm may get out of, metres: contacts are soft, and a reset may put a fixture there."""
_TOUCH = 0.001
"""Likewise at the goal, and what the followed path keeps, metres."""
_ARRIVED = 0.02
"""How far the arm that follows may be from the goal in the end, metres and radians."""
_ASTRAY, _TURNED = 0.015, 0.1
"""How far an arm without lag may be from a skill's targets, metres and radians."""
_LATER_TRIES = 4
"""Postures to look for a later skill from."""
_BARRED = 0.002
"""Overlap of the arm with what a skill is not about, metres, with which the skill is not tried."""
_AROUND = 0.8
"""Every second sample is this near to the start or a goal in every joint, radians."""
_NUMBER_STRIDE, _ROUND_STRIDE, _SHORTCUTS, _POSTURES, _LATER = 1 << 48, 1 << 40, 1 << 32, 1 << 33, 1 << 34
"""Positions in stream MOTION."""


class NoWayError(Exception):
    """There is no way, or none was found; the message says which."""


@dataclass(frozen=True)
class Settings:
    """The keys of `planner=rrt` that a search needs."""

    fps: int
    max_speed: float
    max_turn: float
    joint_speed: float
    clearance: float
    max_iterations: int
    goal_tries: int
    shortcuts: int
    settle_steps: int


@dataclass(frozen=True)
class Motion:
    """A way."""

    targets: npt.NDArray[np.float32]
    """(T, 4, 4)."""
    joints: Array
    """(T, 7) joint positions that were planned for them, radians."""
    followed: Array
    """(T, 7) those of an arm without lag that the env leads to the targets."""
    checks: int
    """Joint positions looked at for collisions."""


class Search:
    """The search for one request."""

    def __init__(self, scenes: Scenes, request: MotionRequest, settings: Settings) -> None:
        self._request, self._settings = request, settings
        self._goal = request.goal.astype(np.float64)
        self.collisions = Collisions(
            scenes, request.eef, request.state, closing=bool(request.gripper[0] < 0.0), clearance=settings.clearance,
            others=request.others,
        )  # fmt: skip
        self._waits = 0
        """Steps that the arm stays where it is before it goes."""
        self._arm = self.collisions.arm
        self._base = request.number * _NUMBER_STRIDE

    def run(self) -> Motion:
        """The way.

        Raises:
            NoWayError: why there is none.
        """
        try:
            return self._search()
        except NoWayError:
            self._waits = self.collisions.last
            if not self._waits:
                raise
        self.collisions.forget()
        motion, held = self._search(), np.repeat(self._request.start[None], self._waits, axis=0)
        still = np.repeat(self.collisions.start[None], self._waits, axis=0)
        return Motion(
            np.concatenate((held, motion.targets)),
            np.concatenate((still, motion.joints)),
            np.concatenate((still, motion.followed)),
            motion.checks,
        )

    def _search(self) -> Motion:
        self.collisions.at(self._waits)
        start = np.minimum(np.maximum(self.collisions.start, LOWER), UPPER)
        overlap = self.collisions.overlap(start, _OVERLAP)
        if overlap is not None:
            raise NoWayError(f"the way starts in a collision: {overlap}")
        self.collisions.allow(start)
        goals = self._postures(start)
        self._look_ahead(goals[0])
        for number in range(_ROUNDS):
            self.collisions.at(self._waits)
            path = self._path(start, goals, number)
            if path is None:
                raise NoWayError(f"no way was found in max_iterations={self._settings.max_iterations}")
            motion = self._paced(path)
            if self._can_follow(start, motion):
                return motion
        raise NoWayError("the arm cannot follow the ways that were found without a collision")

    def _uniforms(self, count: int, offset: int) -> Array:
        return rng.uniforms(self._request.seed, rng.Stream.MOTION, count, offset=self._base + offset)[0]

    def _postures(self, start: Array) -> list[Array]:
        """Joint positions at the goal without collision: what the start leads to first, then others by distance."""
        found: list[Array] = []
        why = "the goal is out of reach"
        draws = self._uniforms(7 * self._settings.goal_tries, _POSTURES).reshape(-1, 7)
        for seed in (start, *(LOWER + (UPPER - LOWER) * draws)):
            posture = self._arm.reach(seed, self._goal)
            if posture is None or ((posture < LOWER) | (posture > UPPER)).any():
                continue
            overlap = self.collisions.overlap(posture, _TOUCH)
            if overlap is not None:
                why = f"the way ends in a collision: {overlap}"
            elif (hindrance := self._hindrance(posture, None)) is not None:
                why = hindrance
            elif all(float(np.max(np.abs(posture - other))) > 0.05 for other in found):
                found.append(posture)
                if seed is start:
                    break  # nearest, and where the env's own control leads to
        if not found:
            raise NoWayError(why)
        for posture in found:
            self.collisions.allow(posture)
        return sorted(found, key=lambda posture: _length(start, posture))

    def _look_ahead(self, posture: Array) -> None:
        """Refuse a demo one of whose later skills the arm could not do, where its object stands already."""
        draws = self._uniforms(7 * _LATER_TRIES, _LATER).reshape(-1, 7)
        seeds = (posture, *(LOWER + (UPPER - LOWER) * draws))
        for alternatives in self._request.later:
            if not any(self._is_possible(skill.astype(np.float64), seeds) for skill in alternatives):
                raise NoWayError("the arm could not do a later skill of the demo")

    def _is_possible(self, targets: Array, seeds: Sequence[Array]) -> bool:
        """Whether the arm can follow targets (L, 4, 4) from some posture that one of the seeds leads to."""
        for seed in seeds:
            there = self._arm.reach(seed, targets[0])
            if there is not None and self._follows(there, targets) is not None:
                return True
        return False

    def _follows(self, posture: Array, targets: Array) -> Array | None:
        """(L, 7) joint positions of an arm that follows a skill's targets (L, 4, 4); None where it strays."""
        followed = self._arm.follow(posture, targets)
        done = self._arm.poses(followed)
        away = np.sqrt(((done[:, :3, 3] - targets[:, :3, 3]) ** 2).sum(axis=1))
        turned = [turn_between(a[:3, :3], b[:3, :3]) for a, b in zip(done, targets, strict=True)]
        return None if float(away.max()) > _ASTRAY or max(turned) > _TURNED else followed

    def _hindrance(self, posture: Array, begins: int | None) -> str | None:
        """Why the arm cannot do the skill from here, which was shown elsewhere; None if it can. It may meet its limits,
        or something that the skill is not about. The skill begins behind so many steps; None: other arms stand still.
        """
        targets = self._request.skill.astype(np.float64)
        if not len(targets):
            return None
        followed = self._follows(posture, targets)
        if followed is None:
            return "the arm cannot follow the skill behind the way"
        for step, joints in enumerate(followed):
            if begins is not None:
                self.collisions.at(begins + step)
            overlap = self.collisions.overlap_of_arm(joints, _BARRED, self._request.acts_on)
            if overlap is not None:
                return f"something is in the way of the skill: {overlap}"
        return None

    def _path(self, start: Array, goals: Sequence[Array], number: int) -> list[Array] | None:
        settings, offset = self._settings, number * _ROUND_STRIDE
        draws = self._uniforms(7 * settings.max_iterations, offset).reshape(-1, 7)
        ends = np.stack((start, *goals))
        low = np.maximum(ends.min(axis=0) - _AROUND, LOWER)
        high = np.minimum(ends.max(axis=0) + _AROUND, UPPER)
        samples = LOWER + (UPPER - LOWER) * draws
        samples[::2] = low + (high - low) * draws[::2]
        # From the second round on, not straight: that was tried.
        direct = number == 0
        edge_free = self._edge_free if direct else _refusing_first(self._edge_free, len(goals))
        path = rrt_connect(start, goals, samples, edge_free, _STEP, LEVERS)
        if path is None:
            return None
        cuts = self._uniforms(2 * settings.shortcuts, offset + _SHORTCUTS).reshape(-1, 2)
        return shorten(path, cuts, self._edge_free, _length) if direct else path

    def _edge_free(self, a: Array, b: Array) -> bool:
        """The straight way between two joint positions. Between two of those looked at no point of the arm moves
        further than twice the clearance, so what keeps the clearance at both does not touch anything in between."""
        pieces = max(1, math.ceil(moved_at_most(a, b) / (2.0 * self._settings.clearance)))
        return all(self.collisions.free(a + (b - a) * (k / pieces)) for k in _coarse_to_fine(pieces))

    def _paced(self, path: Sequence[Array]) -> Motion:
        settings = self._settings
        points = [path[0][None]]
        for a, b in itertools.pairwise(path):
            pieces = max(2, math.ceil(_FEW * moved_at_most(a, b) / 0.1))
            points.append(a + (b - a) * (np.arange(1, pieces + 1) / pieces)[:, None])
        joints = np.concatenate(points)
        poses = self._arm.poses(joints)
        takes = np.zeros(len(joints))
        for k in range(1, len(joints)):
            way = float(np.sqrt(((poses[k, :3, 3] - poses[k - 1, :3, 3]) ** 2).sum()))
            turn = turn_between(poses[k, :3, :3], poses[k - 1, :3, :3])
            rate = np.abs(joints[k] - joints[k - 1]) / (settings.joint_speed * SPEED_LIMITS)
            takes[k] = max(way / settings.max_speed, turn / settings.max_turn, float(rate.max()))
        when = np.cumsum(takes)
        at = fractions(float(when[-1]), settings.fps) * when[-1]
        chosen = np.stack([np.interp(at, when, joints[:, joint]) for joint in range(7)], axis=1)
        chosen = np.concatenate((chosen, np.repeat(path[-1][None], settings.settle_steps, axis=0)))
        targets = self._arm.poses(chosen).astype(np.float32)
        targets[len(at) - 1 :] = self._request.goal
        followed = self._arm.follow(path[0], targets.astype(np.float64))
        return Motion(targets, chosen, followed, self.collisions.checks)

    def _can_follow(self, start: Array, motion: Motion) -> bool:
        """Whether the arm that the env leads along the targets gets there, touches nothing, and can do the skill."""
        end = self._arm.poses(motion.followed[-1:])[0]
        away = float(np.sqrt(((end[:3, 3] - self._goal[:3, 3]) ** 2).sum()))
        if max(away, turn_between(end[:3, :3], self._goal[:3, :3])) > _ARRIVED:
            return False
        before = start
        for step, joints in enumerate(motion.followed):
            self.collisions.at(self._waits + step + 1)
            pieces = max(1, math.ceil(moved_at_most(before, joints) / (2.0 * self._settings.clearance)))
            if not all(
                self.collisions.free(before + (joints - before) * (k / pieces), _TOUCH) for k in range(1, pieces + 1)
            ):
                return False
            before = joints
        return self._hindrance(motion.followed[-1], self._waits + len(motion.followed)) is None


def _length(a: Array, b: Array) -> float:
    apart = LEVERS * (b - a)
    return float(np.sqrt((apart * apart).sum()))


def _coarse_to_fine(pieces: int) -> list[int]:
    """1 to `pieces`, such that a way that is barred is soon found to be: the end, the middle, the quarters, ..."""
    stride = 1 << max(0, pieces - 1).bit_length()
    order, seen = [pieces], {pieces}
    while stride:
        order += [k for k in range(stride, pieces, stride) if k not in seen]
        seen.update(range(stride, pieces, stride))
        stride //= 2
    return order


def _refusing_first(edge_free: EdgeFree, count: int) -> EdgeFree:
    """Refuses the first `count` ways it is asked about, and is as another one then."""
    left = [count]

    def refusing(a: Array, b: Array) -> bool:
        if left[0]:
            left[0] -= 1
            return False
        return edge_free(a, b)

    return refusing
