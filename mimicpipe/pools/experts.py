"""What scripted experts are made of: moves, goals, and the habits in which one demo differs from another.

An expert is a function from a task to its moves, or for several arms to {eef: its moves}. Those that come with the
package are in `mimicpipe.pools.scripts`; one of your own goes into `EXPERTS` under the task's name. A goal looks at the
scene when its move begins, so an expert takes up whatever the moves before it led to. All of it is batched and
elementwise: a demo's bits do not depend on the others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mimicpipe import poses, rng
from mimicpipe.envs.actions import GRIPPER_CLOSE, GRIPPER_OPEN
from mimicpipe.envs.tasks.base import ObjectSpec, Task


@dataclass(frozen=True, slots=True)
class Scene:
    """What an expert sees of K slots, in their own frames."""

    eef: Tensor
    """(K, 4, 4) measured pose of the grasp point, z the approach axis, y from finger to finger."""
    commanded: Tensor
    """(K, 4, 4) last target."""
    objects: Mapping[str, Tensor]
    """{object: (K, 4, 4)}."""


@dataclass(frozen=True, slots=True)
class Habits:
    """How one person does one demonstration: drawn once per demo (stream EXPERT)."""

    tempo: Tensor
    """(K,) factor on every speed."""
    approach_height: Tensor
    """(K,) metres above the grasp or the place before going down."""
    lift_height: Tensor
    """(K,) metres."""
    aim_error: Tensor
    """(K, 3) metres by which the first reach misses, and the carry by half as much."""
    aim_yaw: Tensor
    """(K,) tangent of the yaw by which they miss."""
    grasp_shift: Tensor
    """(K, 3) metres, in the eef's frame: where on the object the fingers close."""
    bow: Tensor
    """(K, 3) largest deviation of a bowed path from the straight one, per metre of its length."""


Goal = Callable[[Scene, Habits], Tensor]
"""Target poses (K, 4, 4) of a move, from the scene at its beginning."""


@dataclass(frozen=True)
class Move:
    """One movement: from the last target to the goal in a minimum-jerk profile, then a pause."""

    goal: Goal
    gripper: float
    """Gripper action during the move and its pause."""
    speed: float = 0.2
    """Mean speed at tempo 1, m/s."""
    pause: tuple[int, int] = (0, 3)
    """Range of the steps it stays after it has arrived; one value is drawn per demo and move."""
    tolerance: float = 0.004
    """Distance from the goal within which it has arrived, metres: wide for moves that only pass by."""
    bowed: bool = False
    """Whether the path curves, as a hand's does over a longer way."""
    label: str = ""
    """What other arms' moves can wait for: that this one is over."""
    after: str = ""
    """Label of another arm's move that must be over before this one begins; until then the arm stays where it is."""


Script = tuple[Move, ...] | Mapping[str, tuple[Move, ...]]
"""What an expert does: the moves of its only arm, or {eef: moves}."""


_RANGES = {
    "tempo": (0.9, 1.35),
    "approach_height": (0.06, 0.10),
    "lift_height": (0.14, 0.17),
    "aim_x": (-0.015, 0.015),
    "aim_y": (-0.015, 0.015),
    "aim_z": (0.0, 0.015),
    "aim_yaw": (-0.15, 0.15),
    "shift_x": (-0.003, 0.003),
    "shift_y": (0.0, 0.0),
    "shift_z": (0.003, 0.009),
    "bow_x": (-0.08, 0.08),
    "bow_y": (-0.08, 0.08),
    "bow_z": (0.0, 0.12),
}
"""Uniform ranges of the habits: a practised teleoperator's, who misses by 1-2 cm first and corrects. The grasp is a
little above the centre, so that fingers moved by action noise stay off the table. Chosen."""


def draw_habits(seeds: rng.Seeds, device: torch.device) -> Habits:
    """Habits of K demos from their seeds (K,)."""
    low, high = torch.tensor(list(_RANGES.values()), dtype=torch.float64).unbind(1)
    draws = torch.from_numpy(rng.uniforms(seeds, rng.Stream.EXPERT, len(_RANGES)))
    columns = (low + (high - low) * draws).to(device, torch.float32).unbind(1)
    values = dict(zip(_RANGES, columns, strict=True))

    def vector(name: str) -> Tensor:
        return torch.stack([values[f"{name}_{axis}"] for axis in "xyz"], dim=1)

    return Habits(
        tempo=values["tempo"],
        approach_height=values["approach_height"],
        lift_height=values["lift_height"],
        aim_error=vector("aim"),
        aim_yaw=values["aim_yaw"],
        grasp_shift=vector("shift"),
        bow=vector("bow"),
    )


def draw_pauses(seeds: rng.Seeds, moves: tuple[Move, ...], device: torch.device, first: int = 0) -> Tensor:
    """(K, moves) int64 steps of pause of every move, from the demos' seeds (K,); `first` moves are of other arms."""
    low, high = torch.tensor([move.pause for move in moves]).unbind(1)
    draws = torch.from_numpy(rng.uniforms(seeds, rng.Stream.EXPERT, len(moves), offset=len(_RANGES) + first))
    return (low + ((high - low + 1) * draws).floor().long()).to(device)


# -- goals

Yaw = tuple[Tensor, Tensor]
"""Cosine and sine, both (K,), of a rotation about the vertical."""

_PLACE_GAP = 0.002
"""Height over the lower box at which the upper one is let go, metres."""
_FINGER_REACH = 0.048
"""Grasp point to the middle of an open finger, metres (Franka Hand: half its stroke and half a fingertip)."""
_FINGER_RADIUS = 0.012
"""Circle around a finger seen from above, metres."""
_ENOUGH_ROOM = 0.005
"""Metres."""
PASSING = 0.02
"""Tolerance of moves that only lead to the next one, metres."""


def _square_yaw(pose: Tensor) -> Yaw:
    """The yaw within 45 degrees of zero that a square box at `pose` looks the same from."""
    cos, sin = pose[:, 0, 0], pose[:, 1, 0]
    along = cos.abs() >= sin.abs()
    # A quarter turn takes (cos, sin) to (sin, -cos); half a turn flips both signs.
    cos, sin = torch.where(along, cos, sin), torch.where(along, sin, -cos)
    sin = torch.where(cos < 0, -sin, sin)
    cos = cos.abs()
    length = torch.sqrt(cos * cos + sin * sin)
    return cos / length, sin / length


def _quarter_turned(yaw: Yaw) -> Yaw:
    """The yaw a quarter turn away that is nearer to zero."""
    cos, sin = yaw
    return sin.abs(), torch.where(sin < 0, cos, -cos)


def _finger_room(scene: Scene, position: Tensor, yaw: Yaw, others: Sequence[ObjectSpec]) -> Tensor:
    """Distance (K,) from open fingers around `position` (K, 3) to the nearest of other boxes, seen from above."""
    cos, sin = yaw
    room = torch.full_like(cos, float("inf"))
    for box in others:
        pose = scene.objects[box.name]
        for side in (_FINGER_REACH, -_FINGER_REACH):
            x = position[:, 0] + side * sin - pose[:, 0, 3]
            y = position[:, 1] - side * cos - pose[:, 1, 3]
            beyond_x = ((x * pose[:, 0, 0] + y * pose[:, 1, 0]).abs() - box.half_size[0]).clamp(min=0.0)
            beyond_y = ((x * pose[:, 0, 1] + y * pose[:, 1, 1]).abs() - box.half_size[1]).clamp(min=0.0)
            room = torch.minimum(room, torch.sqrt(beyond_x * beyond_x + beyond_y * beyond_y) - _FINGER_RADIUS)
    return room


def pointing_down(yaw: Yaw, position: Tensor) -> Tensor:
    """Poses (K, 4, 4) at `position` (K, 3) with the approach axis down and a yaw."""
    cos, sin = yaw
    zero, one = torch.zeros_like(cos), torch.ones_like(cos)
    entries = (cos, sin, zero, sin, -cos, zero, zero, zero, -one)
    return poses.make_pose(position, torch.stack(entries, dim=1).reshape(-1, 3, 3))


def _raised(pose: Tensor, height: Tensor) -> Tensor:
    pose = pose.clone()
    pose[:, 2, 3] += height
    return pose


def _missed(pose: Tensor, habits: Habits, part: float) -> Tensor:
    """The pose as it is aimed at first."""
    tangent = part * habits.aim_yaw
    cos = 1.0 / torch.sqrt(1.0 + tangent * tangent)
    sin = tangent * cos
    # Rotate the columns' xy by the yaw error.
    rot = pose[:, :3, :3].clone()
    rot[:, 0] = cos[:, None] * pose[:, 0, :3] - sin[:, None] * pose[:, 1, :3]
    rot[:, 1] = sin[:, None] * pose[:, 0, :3] + cos[:, None] * pose[:, 1, :3]
    return poses.make_pose(pose[:, :3, 3] + part * habits.aim_error, rot)


def grasp(box: ObjectSpec, others: Sequence[ObjectSpec] = ()) -> Goal:
    """Fingers around a box, from above, along its sides; the other way round where `others` leave them no room."""

    def goal(scene: Scene, habits: Habits) -> Tensor:
        pose = scene.objects[box.name]
        position = pose[:, :3, 3]
        yaw = _square_yaw(pose)
        turned = _quarter_turned(yaw)
        room = _finger_room(scene, position, yaw, others)
        turn = (room < _ENOUGH_ROOM) & (_finger_room(scene, position, turned, others) > room)
        target = pointing_down((torch.where(turn, turned[0], yaw[0]), torch.where(turn, turned[1], yaw[1])), position)
        shift = poses.rotate(target[:, :3, :3], habits.grasp_shift)
        return poses.make_pose(position - shift, target[:, :3, :3])

    return goal


def place(box: ObjectSpec, base: ObjectSpec) -> Goal:
    """The box in the hand just over another one, sides aligned."""
    height = box.half_size[2] + base.half_size[2] + _PLACE_GAP

    def goal(scene: Scene, _habits: Habits) -> Tensor:
        held, below = scene.objects[box.name], scene.objects[base.name]
        target = pointing_down(_square_yaw(below), below[:, :3, 3])
        in_hand = poses.compose(poses.invert(scene.eef), held)[:, :3, 3]
        centre = below[:, :3, 3].clone()
        centre[:, 2] += height
        return poses.make_pose(centre - poses.rotate(target[:, :3, :3], in_hand), target[:, :3, :3])

    return goal


def above(goal: Goal) -> Goal:
    """Over another goal, by the approach height."""
    return lambda scene, habits: _raised(goal(scene, habits), habits.approach_height)


def roughly(goal: Goal, part: float = 1.0) -> Goal:
    """Another goal, missed by `part` of the aim error."""
    return lambda scene, habits: _missed(goal(scene, habits), habits, part)


def stay(scene: Scene, _habits: Habits) -> Tensor:
    """Where the last move went to."""
    return scene.commanded


def lift(scene: Scene, habits: Habits) -> Tensor:
    """Straight up from there, by the lift height."""
    return _raised(scene.commanded, habits.lift_height)


def retreat(scene: Scene, habits: Habits) -> Tensor:
    """Straight up from there, by the approach height and a bit."""
    return _raised(scene.commanded, habits.approach_height + 0.03)


# -- pieces of experts


def take(box: ObjectSpec, others: Sequence[ObjectSpec] = ()) -> tuple[Move, ...]:
    """Reach, correct, go down, close."""
    return take_at(grasp(box, others))


def take_at(around: Goal) -> tuple[Move, ...]:
    """Reach a grasp from above, correct, go down, close."""
    return (
        Move(above(roughly(around)), GRIPPER_OPEN, speed=0.25, tolerance=PASSING, bowed=True),
        Move(above(around), GRIPPER_OPEN, speed=0.10, tolerance=0.008),
        Move(around, GRIPPER_OPEN, speed=0.12, pause=(1, 3)),
        Move(stay, GRIPPER_CLOSE, pause=(4, 7)),
    )


def put(box: ObjectSpec, base: ObjectSpec) -> tuple[Move, ...]:
    """Carry the box in the hand over another one, correct, put it down, let go and move away."""
    on_top = place(box, base)
    return (
        Move(above(roughly(on_top, 0.5)), GRIPPER_CLOSE, speed=0.25, tolerance=PASSING, bowed=True),
        Move(above(on_top), GRIPPER_CLOSE, speed=0.10, tolerance=0.008),
        Move(on_top, GRIPPER_CLOSE, speed=0.12, pause=(1, 4)),
        Move(stay, GRIPPER_OPEN, pause=(2, 5)),
        Move(retreat, GRIPPER_OPEN, speed=0.20, tolerance=PASSING),
    )


EXPERTS: dict[str, Callable[[Task], Script]] = {}
"""{task: its expert}, of tasks that do not come with the package."""
