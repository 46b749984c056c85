"""What is found out after a run about its episodes: preview.gif, and the part of report.json that the page draws."""

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mimicpipe.envs.base import MimicEnv
from mimicpipe.report.look_back import Floats, Played, box_sizes, play, start_positions
from mimicpipe.report.sample import Take
from mimicpipe.report.tally import tally

_LEAST_S, _SHARE = 0.6, 0.02
"""Time for finding where objects started, and for drawing episodes: this, or this share of the run if that is more."""
_PLAY_S = 4.0
"""The same of playing episodes, where a picture is worth little without the end."""
_MOST_POINTS = 60
"""Of a path on the page."""
PREVIEW = "preview.gif"
Report = dict[str, Any]


def look_back(env: MimicEnv, takes: Sequence[Take], folder: Path, wall_s: float, pictures: bool) -> Report:
    """Play the sampled episodes, draw them, and find where objects started.

    Args:
        env: the run's, or one like it; its state is lost.
        takes: what to play.
        folder: the run's output folder, with attempts.jsonl; preview.gif goes there.
        wall_s: how long the run took, which bounds what this may take.
        pictures: whether to draw.

    Returns:
        "starts": {"attempts", "success", "objects": {object: [[x, y] metres]}},
        "episodes": [{"attempt", "success", "reason", "steps", "played": how many of them, "eefs": {eef: [[x, y, z]]},
        "objects": {object: [first and last [x, y, z]]}, "clip" and "still": data: addresses, if drawn}], "fps" of the
        control steps, "pictures": how they were drawn, or why there are none, and "seconds" that all of it took.
    """
    began = time.monotonic()
    seconds = max(_LEAST_S, _SHARE * wall_s)
    starts = _starts(env, folder, seconds)
    played = play(env, takes, max(_PLAY_S, _SHARE * wall_s))
    episodes = [_episode(episode) for episode in played]
    why = "preview=false" if not pictures else None if takes else "no episode was recorded"
    if why is None:
        from mimicpipe.report.preview import as_clip, as_still, film, write_gif  # and with it the imaging library

        clips, schematic = film(env, played, seconds)
        for episode, clip in zip(episodes, clips, strict=True):
            episode["clip"], episode["still"] = as_clip(clip), as_still(clip)
        write_gif(folder / PREVIEW, clips)
        why = "rendered" if schematic is None else f"schematic drawings: {schematic}"
    return {
        "fps": env.fps,
        "box_sizes": box_sizes(env),
        "starts": starts,
        "episodes": episodes,
        "pictures": why,
        "seconds": round(time.monotonic() - began, 2),
    }


def _starts(env: MimicEnv, folder: Path, seconds: float) -> dict[str, Any]:
    chosen = tally(folder / "attempts.jsonl").starts
    # Failures last: they are drawn on top, and are what one looks for. But first in time, if there is little of it.
    rows = [(attempt, seed, success) for success in (False, True) for attempt, seed in chosen[success]]
    found = start_positions(env, [seed for _, seed, _ in rows], seconds)
    count = min((len(positions) for positions in found.values()), default=0)
    return {
        "attempts": [attempt for attempt, _, _ in rows[:count]],
        "success": [success for _, _, success in rows[:count]],
        "objects": {name: _rounded(positions[:count, :2]) for name, positions in found.items()},
    }


def _episode(episode: Played) -> dict[str, Any]:
    take = episode.take
    at = np.unique(np.linspace(0, episode.frames - 1, _MOST_POINTS).round().astype(int))
    ends = [0, episode.frames - 1]
    return {
        "attempt": take.attempt,
        "success": take.success,
        "reason": take.reason,
        "steps": len(take.actions),
        "played": episode.frames - 1,
        "eefs": {name: _rounded(np.array(path)[at]) for name, path in episode.eefs.items()},
        "objects": {name: _rounded(np.array(poses)[ends, :3, 3]) for name, poses in episode.objects.items()},
    }


def _rounded(positions: Floats) -> list[list[float | None]]:
    """To tenths of a millimetre; a number that is not finite is null."""
    return [[round(float(v), 4) if math.isfinite(v) else None for v in row] for row in positions]
