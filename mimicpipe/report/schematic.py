"""Drawings of an episode from poses alone, for envs that cannot render and machines without OpenGL.

Orthographic, looking down on the scene from one side: boxes, and the end effectors with the way they came.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from mimicpipe.report.look_back import Floats, Played
from mimicpipe.report.projection import view_axes

_OVERSAMPLING = 2
_MARGIN = 0.06
_FLOOR, _GRID, _EDGE, _EEF = (244, 244, 241), (222, 222, 216), (60, 60, 60), (0, 90, 160)
_PALETTE = ((214, 119, 58), (74, 140, 110), (150, 110, 170), (190, 160, 60), (90, 130, 180))
_FACES = (((0, 1, 3, 2), 0.72), ((4, 5, 7, 6), 0.72), ((0, 1, 5, 4), 0.86), ((2, 3, 7, 6), 0.86), ((0, 2, 6, 4), 0.6),
          ((1, 3, 7, 5), 1.0))  # fmt: skip
"""Corners of a box's faces, and how light each is; corner 4 a + 2 b + c is (+/-x, +/-y, +/-z)."""
_CORNERS = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=float)


class Schematic:
    """Draws episodes of one run, all in the same window.

    Args:
        episodes: what has to fit in.
        sizes: {object: half extents}, metres.
        image_size: (height, width), pixels.
    """

    def __init__(
        self,
        episodes: Sequence[Played],
        sizes: Mapping[str, tuple[float, float, float]],
        image_size: tuple[int, int],
    ) -> None:
        self._sizes = dict(sizes)
        self._shape = image_size
        self._axes = view_axes()
        points = np.concatenate([
            *(np.array(path) for episode in episodes for path in episode.eefs.values()),
            *(np.array(poses)[:, :3, 3] for episode in episodes for poses in episode.objects.values()),
        ])  # fmt: skip
        points = points[np.isfinite(points).all(axis=1)]
        self._low, self._high = points.min(axis=0) - _MARGIN, points.max(axis=0) + _MARGIN
        self._low[2] = min(float(self._low[2]), 0.0) if self._low[2] > -_MARGIN - 0.1 else float(self._low[2])
        corners = np.array([(x, y, z) for x in (self._low[0], self._high[0]) for y in (self._low[1], self._high[1])
                            for z in (self._low[2], self._high[2])]) @ self._axes[:2].T  # fmt: skip
        low, high = corners.min(axis=0), corners.max(axis=0)
        height, width = (n * _OVERSAMPLING for n in image_size)
        self._scale = min(width / (high[0] - low[0]), height / (high[1] - low[1]))
        self._centre, self._middle = (low + high) / 2, np.array([width / 2, height / 2])

    def render(self, episode: Played, frame: int) -> npt.NDArray[np.uint8]:
        """(H, W, 3) of one frame."""
        height, width = self._shape
        image = Image.new("RGB", (width * _OVERSAMPLING, height * _OVERSAMPLING), _FLOOR)
        draw = ImageDraw.Draw(image)
        self._grid(draw)
        shapes: list[tuple[float, str]] = [
            (float(poses[frame][:3, 3] @ self._axes[2]), name) for name, poses in episode.objects.items()
        ]
        for _, name in sorted(shapes):  # the nearest last
            self._box(draw, episode.objects[name][frame], self._sizes[name], list(self._sizes).index(name))
        for path in episode.eefs.values():
            self._eef(draw, path[: frame + 1])
        return np.asarray(image.resize((width, height), Image.Resampling.BOX))

    def _place(self, points: Floats) -> list[tuple[float, float]]:
        flat = (np.asarray(points) @ self._axes[:2].T - self._centre) * self._scale * (1, -1) + self._middle
        return [(float(x), float(y)) for x, y in flat]

    def _grid(self, draw: ImageDraw.ImageDraw) -> None:
        floor = max(0.0, float(self._low[2]))
        (x0, y0), (x1, y1) = self._low[:2], self._high[:2]
        for x in np.arange(math.ceil(x0 * 10), x1 * 10) / 10:
            draw.line(self._place(np.array([(x, y0, floor), (x, y1, floor)])), fill=_GRID, width=2)
        for y in np.arange(math.ceil(y0 * 10), y1 * 10) / 10:
            draw.line(self._place(np.array([(x0, y, floor), (x1, y, floor)])), fill=_GRID, width=2)

    def _box(self, draw: ImageDraw.ImageDraw, pose: Floats, half: tuple[float, float, float], number: int) -> None:
        if not np.isfinite(pose).all():
            return
        corners = _CORNERS * half @ pose[:3, :3].T + pose[:3, 3]
        places, depths = self._place(corners), corners @ self._axes[2]
        colour = _PALETTE[number % len(_PALETTE)]
        for face, light in sorted(_FACES, key=lambda item: float(depths[list(item[0])].sum()))[3:]:  # those one sees
            fill = tuple(int(light * part) for part in colour)
            draw.polygon([places[i] for i in face], fill=fill, outline=_EDGE)

    def _eef(self, draw: ImageDraw.ImageDraw, path: Sequence[Floats]) -> None:
        if not np.isfinite(path).all():
            return
        if len(path) > 1:
            draw.line(self._place(np.array(path)), fill=_EEF, width=2, joint="curve")
        tip = path[-1]
        (x, y), foot = self._place(np.array([tip, (tip[0], tip[1], max(0.0, float(self._low[2])))]))
        draw.line([(x, y), foot], fill=_EDGE, width=1)
        draw.ellipse([x - 6, y - 6, x + 6, y + 6], fill=_EEF)
