"""Plays an expert's moves in K slots at once, each slot at its own point of the script.

Each arm has a player of its own; where a move waits for another arm's, the ensemble tells it when that is over.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from mimicpipe import poses, rng
from mimicpipe.pools.experts import Habits, Move, Scene, draw_habits, draw_pauses

_TURN_SPEED = 0.9
"""Mean turning speed at tempo 1, rad/s."""
_SHORTEST_MOVE = 4
"""Control steps of the shortest movement."""
_TURN_TOLERANCE = 8.0
"""Radians of rotation allowed per metre of a move's tolerance."""
_PATIENCE = 20
"""Steps after which the next move begins although the eef has not arrived."""


@dataclass(slots=True)
class Command:
    """What the expert wants in the next step."""

    target: Tensor
    """(K, 4, 4) eef poses."""
    gripper: Tensor
    """(K, 1)"""


class ScriptPlayer:
    """One arm of an expert at work in K slots.

    Args:
        moves: the arm's moves.
        seeds: (K,) seeds of the demos; habits and pauses depend on nothing else.
        final_hold: steps that the last move's pause lasts at least.
        fps: control rate, Hz.
        eef: (K, 4, 4) poses to start from.
        first: moves of other arms whose pauses are drawn before these.
    """

    def __init__(
        self, moves: tuple[Move, ...], seeds: rng.Seeds, final_hold: int, fps: int, eef: Tensor, first: int = 0
    ) -> None:
        count, device = eef.shape[0], eef.device
        self._moves = moves
        self._fps = fps
        self._habits = draw_habits(seeds, device)
        self._pauses = draw_pauses(seeds, moves, device, first)
        self._pauses[:, -1] += final_hold
        self._move = torch.zeros(count, dtype=torch.int64, device=device)
        self._fresh = torch.ones(count, dtype=torch.bool, device=device)
        self._step = torch.zeros(count, dtype=torch.int64, device=device)
        self._waited = torch.zeros(count, dtype=torch.int64, device=device)
        self._duration = torch.ones(count, dtype=torch.int64, device=device)
        self._start = eef.clone()
        self._goal = eef.clone()
        self._target = eef.clone()
        self._bow = torch.zeros(count, 3, device=device)
        self._gripper = torch.zeros(count, 1, device=device)
        self._tolerance = torch.zeros(count, device=device)
        self.done = torch.zeros(count, dtype=torch.bool, device=device)
        """(K,) bool: the script is over; its slot keeps the last command."""

    def act(self, eef: Tensor, objects: dict[str, Tensor]) -> Command:
        """The command of the next step, given measured poses (K, 4, 4); the script waits for nobody."""
        self.advance(eef)
        return self.command(eef, objects)

    def is_over(self, label: str) -> Tensor | None:
        """(K,) bool: the move with a label is over; None if there is no such move."""
        for index, move in enumerate(self._moves):
            if move.label == label:
                return (self._move > index) | self.done
        return None

    def command(
        self, eef: Tensor, objects: dict[str, Tensor], is_over: Callable[[str], Tensor] | None = None
    ) -> Command:
        """The command of the next step, after `advance`; `is_over` says where others' labelled moves are over."""
        if bool(self._fresh.any()):
            self._begin_moves(Scene(eef, self._target, objects), is_over)
        self._step += 1
        fraction = (self._step / self._duration).clamp(max=1.0)
        smooth = _minimum_jerk(fraction)
        self._target = poses.interpolate(self._start, self._goal, smooth)
        # Zero at both ends, one in the middle.
        self._target[:, :3, 3] += self._bow * (4.0 * smooth * (1.0 - smooth))[:, None]
        return Command(self._target.clone(), self._gripper.clone())

    def advance(self, eef: Tensor) -> None:
        """Count the pauses of slots that have arrived, and go on to the next move after them."""
        late = self._step >= self._duration + _PATIENCE
        arrived = (self._step >= self._duration) & (_near(eef, self._goal, self._tolerance) | late | (self._waited > 0))
        pause = self._pauses.gather(1, self._move[:, None])[:, 0]
        over = arrived & (self._waited >= pause) & ~self._fresh
        self._waited += arrived
        last = self._move == len(self._moves) - 1
        self.done |= over & last
        self._fresh |= over & ~last
        self._move += over & ~last

    def _begin_moves(self, scene: Scene, is_over: Callable[[str], Tensor] | None) -> None:
        """Set out on the moves that begin now."""
        begins = torch.zeros_like(self._fresh)
        for index, move in enumerate(self._moves):
            now = self._fresh & (self._move == index)
            if move.after and is_over is not None:
                now &= is_over(move.after)
            rows = torch.nonzero(now)[:, 0]
            if rows.numel():
                self._begin(rows, move, _take_scene(scene, rows))
            begins |= now
        self._step.masked_fill_(begins, 0)
        self._waited.masked_fill_(begins, 0)
        self._fresh &= ~begins

    def _begin(self, rows: Tensor, move: Move, scene: Scene) -> None:
        habits = _take_habits(self._habits, rows)
        goal = move.goal(scene, habits)
        way = poses.vector_norm(goal[:, :3, 3] - scene.commanded[:, :3, 3])
        turn = poses.compose_rotations(goal[:, :3, :3], scene.commanded[:, :3, :3].transpose(1, 2))
        angle = poses.vector_norm(poses.axis_angle_from_matrix(turn))
        seconds = torch.maximum(way / move.speed, angle / _TURN_SPEED)[:, 0] / habits.tempo
        self._duration[rows] = (seconds * self._fps).ceil().long().clamp(min=_SHORTEST_MOVE)
        self._start[rows] = scene.commanded
        self._goal[rows] = goal
        self._bow[rows] = habits.bow * way if move.bowed else torch.zeros_like(habits.bow)
        self._gripper[rows] = move.gripper
        self._tolerance[rows] = move.tolerance


class ScriptEnsemble:
    """All arms of an expert at work in K slots; one person moves them, with the same habits.

    Args:
        scripts: {eef: its moves}.
        seeds, final_hold, fps: as of `ScriptPlayer`.
        eefs: {eef: (K, 4, 4)} poses to start from.

    Raises:
        ValueError: a move waits for one that no other arm makes.
    """

    def __init__(
        self,
        scripts: Mapping[str, tuple[Move, ...]],
        seeds: rng.Seeds,
        final_hold: int,
        fps: int,
        eefs: Mapping[str, Tensor],
    ) -> None:
        self._players: dict[str, ScriptPlayer] = {}
        first = 0
        for eef, moves in scripts.items():
            others = {move.label for other, theirs in scripts.items() if other != eef for move in theirs}
            if unknown := sorted({move.after for move in moves} - others - {""}):
                raise ValueError(
                    f"a move of {eef} waits for {', '.join(unknown)}; no move of another arm has this label"
                )
            self._players[eef] = ScriptPlayer(moves, seeds, final_hold, fps, eefs[eef], first)
            first += len(moves)

    @property
    def done(self) -> Tensor:
        """(K,) bool: all scripts are over."""
        first, *others = (player.done for player in self._players.values())
        for each in others:
            first = first & each
        return first

    def act(self, eefs: Mapping[str, Tensor], objects: dict[str, Tensor]) -> dict[str, Command]:
        """The commands of the next step, given measured poses {eef: (K, 4, 4)}."""
        for eef, player in self._players.items():
            player.advance(eefs[eef])
        return {eef: player.command(eefs[eef], objects, self._is_over) for eef, player in self._players.items()}

    def _is_over(self, label: str) -> Tensor:
        states = (player.is_over(label) for player in self._players.values())
        return next(state for state in states if state is not None)


def _minimum_jerk(fraction: Tensor) -> Tensor:
    """Part of the way after a part of the time (Flash and Hogan, J. Neuroscience 5(7), 1985)."""
    return fraction * fraction * fraction * (10.0 + fraction * (6.0 * fraction - 15.0))


def _near(pose: Tensor, goal: Tensor, tolerance: Tensor) -> Tensor:
    """(K,) bool: the eef has arrived."""
    way = poses.vector_norm(pose[:, :3, 3] - goal[:, :3, 3])[:, 0]
    turn = poses.compose_rotations(goal[:, :3, :3], pose[:, :3, :3].transpose(1, 2))
    angle = poses.vector_norm(poses.axis_angle_from_matrix(turn))[:, 0]
    return (way < tolerance) & (angle < _TURN_TOLERANCE * tolerance)


def _take_scene(scene: Scene, rows: Tensor) -> Scene:
    objects = {name: pose[rows] for name, pose in scene.objects.items()}
    return Scene(scene.eef[rows], scene.commanded[rows], objects)


def _take_habits(habits: Habits, rows: Tensor) -> Habits:
    return Habits(*(getattr(habits, name)[rows] for name in Habits.__slots__))
