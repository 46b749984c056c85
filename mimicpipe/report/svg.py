"""Small figures as inline SVG: lines over time, and points seen from above. Colours are the page's CSS variables."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 360, 165
"""Of a figure, in its own units: about the width of a phone, so that text has nearly its nominal size there."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 10, 10, 34


@dataclass(frozen=True)
class Line:
    """One curve."""

    name: str
    style: str
    """CSS class, "c1", "c2", ..."""
    xs: Sequence[float]
    ys: Sequence[float]


@dataclass(frozen=True)
class Points:
    """Points of one kind."""

    name: str
    style: str
    """CSS class: "ok" circles, "bad" crosses."""
    at: Sequence[tuple[float, float]]
    titles: Sequence[str]
    """Shown when the pointer rests on a point."""


def ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Round numbers between two bounds."""
    if not high > low:
        return [low]
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * n for n in (1, 2, 5, 10) if power * n >= raw * 0.999)
    found = _multiples(step, low, high)
    # A range just short of two steps may lie between two multiples of a step; half the step has one inside.
    return found or _multiples(step / 2, low, high)


def _multiples(step: float, low: float, high: float) -> list[float]:
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def tick_text(value: float, step: float) -> str:
    """A tick's number with as many digits as its neighbours need, thousands as k and millions as M."""
    for limit, unit in ((1e6, "M"), (1e4, "k")):
        if abs(value) >= limit or (step >= limit / 10 and value):
            scale = 1e6 if unit == "M" else 1e3
            return f"{value / scale:g}{unit}"
    digits = max(0, -math.floor(math.log10(step) + 1e-9)) if 0 < step < 1 else 0
    return f"{value:,.{digits}f}"


def line_chart(
    label: str,
    lines: Sequence[Line],
    x_label: str,
    *,
    right: float,
    limit: tuple[float, str] | None = None,
    band: tuple[float, str] | None = None,
) -> str:
    """Curves over time, from zero.

    Args:
        label: what a screen reader says.
        lines: the curves; their names stand in a legend of the page's.
        x_label: with the unit.
        right: where the axis ends.
        limit: a level to draw across, with its name.
        band: where the run's last part begins, and what it is.
    """
    tops = [y for line in lines for y in line.ys] + ([limit[0]] if limit else [])
    top = (max(tops, default=1.0) or 1.0) * 1.06
    plot = _Plot((0.0, right), (0.0, top))
    parts = []
    if band:
        x = plot.x(band[0])
        parts.append(f'<rect class="band" x="{x}" y="{_TOP}" width="{max(0.0, plot.x(right) - x):.1f}" '
                     f'height="{HEIGHT - _TOP - _BOTTOM}"><title>{escape(band[1])}</title></rect>')  # fmt: skip
    parts.append(plot.axes(x_label))
    if limit:
        y = plot.y(limit[0])
        parts.append(f'<line class="limit" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="tick" x="{_LEFT + 4}" y="{y + 12:.1f}">{escape(limit[1])}</text>')
    for line in lines:
        points = " ".join(f"{plot.x(x)},{plot.y(y)}" for x, y in zip(line.xs, line.ys, strict=True))
        parts.append(f'<polyline class="line {line.style}" points="{points}"><title>{escape(line.name)}</title>'
                     "</polyline>")  # fmt: skip
        if len(line.xs) < 3:  # hardly a line
            parts += [f'<circle class="dot {line.style}" cx="{plot.x(x)}" cy="{plot.y(y)}" r="3"/>'
                      for x, y in zip(line.xs, line.ys, strict=True)]  # fmt: skip
    return figure(label, parts)


def top_view(label: str, groups: Sequence[Points], bounds: tuple[float, float, float, float]) -> str:
    """Points in the plane, with the same scale along both axes.

    Args:
        label: what a screen reader says.
        groups: circles (style "ok") and crosses (any other).
        bounds: x0, x1, y0, y1 of what has to be seen, in centimetres.
    """
    x0, x1, y0, y1 = bounds
    width, height = WIDTH - _LEFT - _RIGHT, WIDTH - _LEFT - _TOP - _BOTTOM
    scale = min(width / (x1 - x0), height / (y1 - y0))
    grow_x, grow_y = (width / scale - (x1 - x0)) / 2, (height / scale - (y1 - y0)) / 2
    tall = height + _TOP + _BOTTOM
    plot = _Plot((x0 - grow_x, x1 + grow_x), (y0 - grow_y, y1 + grow_y), tall)
    parts = [plot.axes("x, cm", "y, cm")]
    for group in groups:
        for (x, y), title in zip(group.at, group.titles, strict=True):
            mark = f"<title>{escape(title)}</title>"
            px, py = plot.x(x), plot.y(y)
            if group.style == "ok":
                parts.append(f'<circle class="mark ok" cx="{px}" cy="{py}" r="3">{mark}</circle>')
            else:
                d = f"M{px - 4:.1f} {py - 4:.1f}l8 8m0 -8l-8 8"
                parts.append(f'<path class="mark {group.style}" d="{d}">{mark}</path>')
    return figure(label, parts, tall, "above")


def figure(label: str, parts: Iterable[str], height: float = HEIGHT, style: str = "chart") -> str:
    """An SVG element that is as wide as its place."""
    return (
        f'<svg class="{style}" viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(label, quote=True)}">'
        f"{''.join(parts)}</svg>"
    )


class _Plot:
    """The plotting area: from values to the figure's units."""

    def __init__(self, xs: tuple[float, float], ys: tuple[float, float], height: float = HEIGHT) -> None:
        self._xs, self._ys, self._height = xs, ys, height

    def x(self, value: float) -> float:
        low, high = self._xs
        return round(_LEFT + (value - low) / (high - low) * (WIDTH - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        low, high = self._ys
        return round(self._height - _BOTTOM - (value - low) / (high - low) * (self._height - _TOP - _BOTTOM), 1)

    def axes(self, x_label: str, y_label: str = "") -> str:
        """Grid, ticks and names."""
        parts, floor = [], self._height - _BOTTOM
        xs, ys = ticks(*self._xs), ticks(*self._ys)
        for value in ys:
            y = self.y(value)
            parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>')
            parts.append(f'<text class="tick end" x="{_LEFT - 6}" y="{y + 4:.1f}">{tick_text(value, _step(ys))}</text>')
        for value in xs:
            x = self.x(value)
            parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{floor}" y2="{floor + 4}"/>')
            parts.append(f'<text class="tick mid" x="{x}" y="{floor + 16}">{tick_text(value, _step(xs))}</text>')
        parts.append(f'<text class="tick end" x="{WIDTH - _RIGHT}" y="{self._height - 3:g}">{escape(x_label)}</text>')
        if y_label:
            parts.append(f'<text class="tick" x="4" y="{_TOP}">{escape(y_label)}</text>')
        return "".join(parts)


def _step(values: Sequence[float]) -> float:
    return values[1] - values[0] if len(values) > 1 else 1.0
