"""Paths of the end effectors in 3D, as an SVG that a few lines of script turn; without script it stands still."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from mimicpipe.report.projection import AZIMUTH, ELEVATION, view_axes
from mimicpipe.report.svg import ticks

SIZE = 400
"""Of the figure, in its own units."""
_FILL = 0.84
"""Share of it that the scene's diagonal has, which fits however it is turned."""
_CUT = 28
"""Left out above and below: only names of axes need room, and those at the sides."""
Point = Sequence[float]


class _Scene:
    """Elements of the figure, with the points they belong to: metres from the middle of what is shown."""

    def __init__(self) -> None:
        self.points: list[list[Point]] = []
        self.elements: list[str] = []

    def line(self, style: str, points: Sequence[Point], title: str = "") -> None:
        self._add(f'<polyline class="{style}"', points, "polyline", title)

    def dot(self, style: str, at: Point, title: str = "") -> None:
        self._add(f'<circle class="{style}" r="3.5"', [at], "circle", title)

    def text(self, at: Point, words: str) -> None:
        self._add('<text class="tick mid"', [at], "text", words)

    def _add(self, start: str, points: Sequence[Point], kind: str, words: str) -> None:
        inner = escape(words) if kind == "text" else f"<title>{escape(words)}</title>" if words else ""
        self.points.append([list(point) for point in points])
        self.elements.append(f"{start}{{place}}>{inner}</{kind}>")


def scene(episodes: Sequence[Mapping[str, Any]]) -> str:
    """The figure and the data that turns it, as HTML; empty where there is no path.

    Args:
        episodes: as `report.episodes.look_back` gives them; positions in metres, z up.
    """
    shown = [(episode, path) for episode in episodes for path in episode["eefs"].values() if _whole(path)]
    if not shown:
        return ""
    places = [place for episode, _ in shown for ends in episode["objects"].values() for place in ends]
    everything = np.array([*(p for _, path in shown for p in path), *(p for p in places if _whole([p]))])
    low, high = everything.min(axis=0), everything.max(axis=0)
    low[2] = min(low[2], 0.0) if low[2] < 0.2 else low[2]
    picture = _Scene()
    _floor(picture, low, high)
    for episode, path in shown:
        kind = "ok" if episode["success"] else "bad"
        title = f"attempt {episode['attempt']}: {episode['reason']}"
        picture.line(f"path {kind}", path, title)
        if _to_the_end(episode):
            picture.dot(f"dot {kind}", path[-1], f"{title}, end")
    for episode, _ in shown:
        for name, (first, last) in episode["objects"].items():
            if _whole([first, last]):
                picture.dot("start", first, f"{name}, start of attempt {episode['attempt']}")
                if _to_the_end(episode):
                    picture.dot("stop", last, f"{name}, end of attempt {episode['attempt']}")
    return _html(picture, low, high)


def _to_the_end(episode: Mapping[str, Any]) -> bool:
    return episode.get("played", episode["steps"]) >= episode["steps"]


def _whole(points: Sequence[Sequence[float | None]]) -> bool:
    return all(value is not None for point in points for value in point)


def _floor(picture: _Scene, low: Any, high: Any) -> None:
    z = float(low[2])
    for x in ticks(low[0], high[0], 5):
        picture.line("grid", [(x, low[1], z), (x, high[1], z)])
    for y in ticks(low[1], high[1], 5):
        picture.line("grid", [(low[0], y, z), (high[0], y, z)])
    picture.line("axis", [(low[0], low[1], z), (high[0], low[1], z)])
    picture.line("axis", [(low[0], low[1], z), (low[0], high[1], z)])
    picture.line("axis", [(low[0], low[1], z), (low[0], low[1], high[2])])
    centimetres = [f"{100 * (high[i] - low[i]):.0f} cm" for i in range(3)]
    picture.text((high[0] + 0.03, low[1], z), f"x, {centimetres[0]}")
    picture.text((low[0], high[1] + 0.03, z), f"y, {centimetres[1]}")
    picture.text((low[0], low[1], high[2] + 0.02), f"z, {centimetres[2]}")


def _html(picture: _Scene, low: Any, high: Any) -> str:
    middle = (low + high) / 2
    scale = _FILL * SIZE / float(np.linalg.norm(high - low))
    axes = view_axes()
    points = [[[round(float(v), 4) for v in np.subtract(point, middle)] for point in part] for part in picture.points]
    drawn = []
    for element, part in zip(picture.elements, points, strict=True):
        flat = [(SIZE / 2 + scale * float(axes[0] @ p), SIZE / 2 - scale * float(axes[1] @ p)) for p in part]
        drawn.append(element.replace("{place}", _place(element, flat)))
    data = {"azimuth": AZIMUTH, "elevation": ELEVATION, "scale": scale, "points": points}
    return (
        f'<svg id="scene" viewBox="0 {_CUT} {SIZE} {SIZE - 2 * _CUT}" role="img" tabindex="0" '
        f'aria-label="Paths of the end effectors in 3D; drag, or use the arrow keys, to turn">{"".join(drawn)}</svg>'
        f'<script type="application/json" id="scene-data">{json.dumps(data, separators=(",", ":"))}</script>'
    )


def _place(element: str, flat: Sequence[tuple[float, float]]) -> str:
    (x, y), *_ = flat
    if element.startswith("<polyline"):
        return f' points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in flat)}"'
    return f' x="{x:.1f}" y="{y:.1f}"' if element.startswith("<text") else f' cx="{x:.1f}" cy="{y:.1f}"'
