"""Moving pictures of a few episodes: preview.gif, a grid of them, and a small clip of each for the page."""

import base64
import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from mimicpipe.envs.base import MimicEnv
from mimicpipe.errors import ConfigError
from mimicpipe.report.look_back import Played, box_sizes
from mimicpipe.report.schematic import Schematic

TILE = 144
"""Height and width of a tile, pixels."""
FEWEST_FRAMES, MOST_FRAMES = 8, 30
"""Of an episode, evenly over its length."""
PLAY_MS, REST_MS = 2400, 1000
"""How long a clip plays, however many frames it has, and how long its end can be seen."""
COLUMNS = 4
SUCCESS, FAILURE = (0, 158, 115), (213, 94, 0)
"""Bluish green and vermilion of the palette of Okabe and Ito (2008), told apart whatever one's colour vision."""
_BORDER, _CAPTION = 3, 13

Frames = npt.NDArray[np.uint8]


@dataclass
class Clip:
    """One episode's pictures."""

    episode: Played
    frames: list[Frames]
    """(TILE, TILE, 3) each; the last one shows how the episode ended."""


def film(env: MimicEnv, episodes: Sequence[Played], seconds: float) -> tuple[list[Clip], str | None]:
    """Draw episodes; as many frames as fit into about `seconds`, but `FEWEST_FRAMES` in any case.

    Returns:
        The clips, and why they are schematic drawings; None where the env has rendered them.
    """
    if not episodes:
        return [], None
    try:
        renderer = env.frame_renderer((TILE, TILE))
    except ConfigError as error:
        cause = error.__cause__ or error
        return _schematic(env, episodes, seconds), f"no OpenGL ({' '.join(str(cause).split())})"
    if renderer is None:
        return _schematic(env, episodes, seconds), "this env does not render"
    try:
        return _film(episodes, lambda episode, frame: renderer.render(episode.states[frame][None])[0], seconds), None
    finally:
        renderer.close()


def _schematic(env: MimicEnv, episodes: Sequence[Played], seconds: float) -> list[Clip]:
    return _film(episodes, Schematic(episodes, box_sizes(env), (TILE, TILE)).render, seconds)


def _film(episodes: Sequence[Played], draw: Callable[[Played, int], Frames], seconds: float) -> list[Clip]:
    """The ends of all episodes first: what one takes decides how many of the others there are."""
    draw(episodes[0], 0)  # the first frame of a renderer takes long
    began = time.monotonic()
    ends = [draw(episode, episode.frames - 1) for episode in episodes]
    each = max((time.monotonic() - began) / len(episodes), 1e-6)
    count = int(min(MOST_FRAMES, max(FEWEST_FRAMES, seconds / each / len(episodes))))
    clips = []
    for episode, end in zip(episodes, ends, strict=True):
        at = np.unique(np.linspace(0, episode.frames - 1, count).round().astype(int))[:-1]
        clips.append(Clip(episode, [*(draw(episode, int(frame)) for frame in at), end]))
    return clips


def write_gif(path: Path, clips: Sequence[Clip]) -> None:
    """A grid of clips that play at the same time and rest on their last frames; the border's colour is the outcome."""
    if not clips:
        return
    length = max(len(clip.frames) for clip in clips)
    pages = [_page(clips, frame) for frame in range(length)]
    # One palette for all, from first, middle and last page, by where colours lie and not by how often they occur,
    # or a small red cube would turn as brown as the table. Dithering would not compress.
    mixture = Image.fromarray(np.concatenate([np.asarray(pages[i]) for i in (0, length // 2, length - 1)]))
    palette = mixture.quantize(128, method=Image.Quantize.FASTOCTREE)
    flat = [page.quantize(palette=palette, dither=Image.Dither.NONE) for page in pages]
    partial = path.with_name(f".{path.name}.partial")
    durations = _durations(length)
    try:
        flat[0].save(partial, "GIF", save_all=True, append_images=flat[1:], duration=durations, loop=0, optimize=False)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _durations(frames: int) -> list[int]:
    """Milliseconds for each frame."""
    return [PLAY_MS // max(frames - 1, 1)] * (frames - 1) + [REST_MS]


def _page(clips: Sequence[Clip], frame: int) -> Image.Image:
    columns = min(COLUMNS, len(clips))
    rows = -(-len(clips) // columns)
    width, height = TILE + 2 * _BORDER, TILE + 2 * _BORDER + _CAPTION
    page = Image.new("RGB", (columns * width, rows * height), (255, 255, 255))
    draw = ImageDraw.Draw(page)
    for number, clip in enumerate(clips):
        take, x, y = clip.episode.take, number % columns * width, number // columns * height
        draw.rectangle([x, y, x + width - 2, y + height - 2], fill=SUCCESS if take.success else FAILURE)
        page.paste(Image.fromarray(clip.frames[min(frame, len(clip.frames) - 1)]), (x + _BORDER, y + _BORDER))
        words = f"attempt {take.attempt}: {take.reason}"[:26]
        draw.text((x + _BORDER + 1, y + TILE + _BORDER), words, fill=(255, 255, 255))
    return page


def as_clip(clip: Clip) -> str:
    """An animated WebP that repeats, as a data: address; a tenth of a GIF's size."""
    images = [Image.fromarray(frame) for frame in clip.frames]
    durations = _durations(len(images))
    file = io.BytesIO()
    images[0].save(
        file, "WEBP", save_all=True, append_images=images[1:], duration=durations, loop=0, quality=60, method=0
    )
    return _data("webp", file)


def as_still(clip: Clip) -> str:
    """Its last frame, for paper and for those who want nothing to move."""
    file = io.BytesIO()
    Image.fromarray(clip.frames[-1]).save(file, "WEBP", quality=70, method=0)
    return _data("webp", file)


def _data(kind: str, file: io.BytesIO) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"
