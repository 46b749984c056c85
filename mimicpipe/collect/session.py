"""What happens between the start of a demo and its place in the file: scenes, the clock, success, and why not.

The clock stands still while nobody steers and nothing moves: a demo has no pauses in it, however long its maker thinks.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from mimicpipe import poses, rng
from mimicpipe.collect.controls import FIRST_SPEED, MOTION, RADIANS_PER_METRE, SPEEDS, View
from mimicpipe.collect.demo_file import DemoFile
from mimicpipe.collect.recording import Recording, Stillness
from mimicpipe.collect.steering import Steering
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.subtask import SubtaskConfigs
from mimicpipe.envs.base import MimicEnv
from mimicpipe.errors import SourceDemoError

FIRST_SCENE = 2**33
"""Attempt index of the first scene: beyond every run's own, and the scripted expert's."""
_REST_S = 0.4
"""Nothing has moved for this long: the scene is at rest. A gripper opens and closes in less."""
_LONGEST_REST_S = 3.0
"""The clock stops after this long without input even if something still moves."""
_NO_MOTION = (0.0,) * MOTION


@dataclass(frozen=True)
class Rules:
    """What a demo must meet, from the config of the runs that it is for."""

    hold_steps: int
    """Success must hold for so many steps, up to the last one."""
    max_steps: int
    """Steps of a demo, so that attempts made from it have time enough."""


@dataclass(frozen=True)
class Answer:
    """What came of a command."""

    ok: bool
    text: str


class Session:
    """One person at work in an env of one slot. All calls come from one thread.

    Args:
        env: the simulator; it is reset.
        subtasks: {eef: its subtasks}, which a demo must be fit for.
        file: where demos go.
        rules: what a demo must meet.
        seed: what scenes are drawn from.
    """

    def __init__(self, env: MimicEnv, subtasks: SubtaskConfigs, file: DemoFile, rules: Rules, seed: int) -> None:
        self._env = env
        self._subtasks = subtasks
        self._file = file
        self._rules = rules
        self._seed = seed
        self._level = FIRST_SPEED
        self._scene = -1
        self.resets = 0
        """How often a scene has been put in its place."""
        self._steering = Steering(env)
        self.recording: Recording | None = None
        self._over = ""
        """Why the recording has come to nothing."""
        self._full = False
        """It has as many steps as a demo may have."""
        self._next_scene()

    # -- time ---------------------------------------------------------------------------------------------------------

    def tick(self, motion: Sequence[float], view: View) -> bool:
        """Let one control step pass, unless the clock stands still; returns whether it has passed."""
        self._idle = 0 if any(motion) or self._touched else self._idle + 1
        self._touched = False
        self.running = not (self._over or self._full or self._may_rest())
        if self.running:
            self._step(motion, view)
        return self.running

    def _may_rest(self) -> bool:
        if self._idle == 0:
            return False
        if self._idle > _LONGEST_REST_S * self._env.fps:
            return True
        holding = self.recording is not None and 0 < self.recording.held < self._rules.hold_steps
        return self._at_rest and not holding

    def _step(self, motion: Sequence[float], view: View) -> None:
        action = self._steering.action(motion, SPEEDS[self._level], view)
        if self.recording is not None:
            self.recording.before_step(action)
        self._env.step(action)
        self._at_rest = self._stillness.after_step()
        self.success = bool(self._env.success()[0])
        if self.recording is not None:
            self.recording.after_step(self.success)
        if not bool(self._env.finite()[0]):
            self._over = "The simulation has diverged."
        elif self.recording is not None and self.recording.length >= self._rules.max_steps:
            self._full = True
            if self.recording.held < self._rules.hold_steps:
                self._over = (
                    f"{self._rules.max_steps} steps are over, all that task.max_episode_steps leaves to a demo. "
                    "Discard it; or collect, and run, with a larger task.max_episode_steps."
                )

    # -- commands -----------------------------------------------------------------------------------------------------

    def command(self, name: str) -> Answer:
        """Do what a button or a key asks for."""
        commands: Mapping[str, Callable[[], Answer]] = {
            "start": self.start,
            "save": self.save,
            "go_on": self.start if self.recording is None else self.save,
            "discard": self.discard,
            "next": self.next_scene,
            "gripper": self._gripper,
            "arm": self._arm,
            "faster": lambda: self._speed(1),
            "slower": lambda: self._speed(-1),
        }
        if name not in commands:
            return Answer(False, f"No such command: {name!r}; there are {', '.join(commands)}.")
        return commands[name]()

    def start(self) -> Answer:
        """Put the scene back and record from there."""
        if self.recording is not None:
            return Answer(False, "Already recording; save or discard it first.")
        self._reset()
        self.recording = Recording(self._env)
        return Answer(True, "Recording.")

    def discard(self) -> Answer:
        """Put the same scene back, unrecorded, so that difficult ones are not left out."""
        steps = self.recording.length if self.recording is not None else 0
        recorded = self.recording is not None
        self._reset()
        return Answer(True, f"Discarded {steps} steps; this is the same scene again." if recorded else "Scene reset.")

    def next_scene(self) -> Answer:
        """Show another scene."""
        if self.recording is not None:
            return Answer(False, "Still recording; save or discard it first.")
        self._next_scene()
        return Answer(True, "Another scene.")

    def save(self) -> Answer:
        """Append the recording to the file if generation can use it, and show another scene."""
        if self.recording is None:
            return Answer(False, "Not saved: nothing is being recorded.")
        if why := self._why_not():
            return Answer(False, f"Not saved: {why}")
        demo = self.recording.demo(f"demo_{len(self._file.saved)}")
        try:
            DataGenInfoPool(self._env, self._subtasks).add_demos([demo])
            saved = self._file.append(demo, self._scene_seed())
        except (SourceDemoError, OSError) as error:
            return Answer(False, f"Not saved: {error}")
        self._next_scene()
        return Answer(True, f"Saved {saved.name}, {saved.steps} steps.")

    def _why_not(self) -> str:
        assert self.recording is not None
        wanted, held = self._rules.hold_steps, self.recording.held
        if self._over:
            return self._over
        if held >= wanted:
            return ""
        if held:
            return f"success has held for {held} of {wanted} steps; wait a moment."
        return "success was lost again." if self.recording.reached else "the task is not done yet."

    def _gripper(self) -> Answer:
        self._steering.toggle_gripper()
        self._touched = True
        return Answer(True, "")

    def _arm(self) -> Answer:
        if len(self._env.eef_names) == 1:
            return Answer(False, "This task has one arm.")
        self._steering.next_arm()
        return Answer(True, f"Steering {' and '.join(self._steering.active)}.")

    def _speed(self, change: int) -> Answer:
        self._level = min(max(self._level + change, 0), len(SPEEDS) - 1)
        return Answer(True, f"Speed {self._level + 1} of {len(SPEEDS)}.")

    # -- scenes -------------------------------------------------------------------------------------------------------

    def _scene_seed(self) -> int:
        return int(rng.attempt_seeds(self._seed, np.array([FIRST_SCENE + self._scene]))[0])

    def _next_scene(self) -> None:
        """The next scene of which the file has no demo."""
        taken = {demo.seed for demo in self._file.saved}
        self._scene += 1
        while self._scene_seed() in taken:
            self._scene += 1
        self._reset()

    def _reset(self) -> None:
        self.resets += 1
        self.recording = None
        self._over, self._full = "", False
        self._env.reset(torch.zeros(1, dtype=torch.int64, device=self._env.device), np.array([self._scene_seed()]))
        self._steering.restart()
        self._stillness = Stillness(self._env, round(_REST_S * self._env.fps))
        self._at_rest, self._touched, self._idle, self.running = True, False, 1, False
        self.success = bool(self._env.success()[0])

    # -- what the page shows ------------------------------------------------------------------------------------------

    @property
    def active(self) -> tuple[str, ...]:
        """Arms that are being steered."""
        return self._steering.active

    def state(self) -> dict[str, Any]:
        """Everything that the page shows, as JSON has it; poses are metres and wxyz quaternions."""
        env, recording = self._env, self.recording
        phase = "practice" if recording is None else "recording"
        return {
            "phase": "ended" if self._over else phase,
            "why": self._over,
            "scene": {"number": self._scene, "seed": str(self._scene_seed())},
            "steps": 0 if recording is None else recording.length,
            "max_steps": self._rules.max_steps,
            "running": self.running,
            "success": self.success,
            "held": 0 if recording is None else min(recording.held, self._rules.hold_steps),
            "hold_steps": self._rules.hold_steps,
            "term_signals": {name: bool(value[0]) for name, value in env.get_subtask_term_signals().items()},
            "start_signals": {name: bool(value[0]) for name, value in env.get_subtask_start_signals().items()},
            "active": list(self._steering.active),
            "arms": {name: {**_pose(env.get_robot_eef_pose(name)), "closed": self._steering.closed[name]}
                     for name in env.eef_names},
            "objects": {name: _pose(pose) for name, pose in env.get_object_poses().items()},
            "speed": {"level": self._level, "levels": len(SPEEDS), "metres": SPEEDS[self._level],
                      "radians": SPEEDS[self._level] * RADIANS_PER_METRE},
            "file": str(self._file.path),
            "saved": [{**asdict(demo), "seed": str(demo.seed)} for demo in self._file.saved],
        }  # fmt: skip


def _pose(pose: torch.Tensor) -> dict[str, list[float | None]]:
    """A pose (1, 4, 4) as rounded numbers; null where it is not finite, which JSON does not know."""
    quat = poses.quat_from_matrix(pose[0, :3, :3])
    parts = {"position": pose[0, :3, 3], "quaternion": quat}
    return {name: [round(x, 5) if math.isfinite(x) else None for x in part.tolist()] for name, part in parts.items()}
