"""Pieces of a page: escaped text, tables, figures, and the document around them, with everything in one file."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

Cell = str | int | float


def text(value: object) -> str:
    """Anything as text that is safe in a page."""
    return escape(str(value), quote=True)


def document(title: str, body: str) -> str:
    """A whole page, with style and script in it."""
    assets = files("mimicpipe.report") / "assets"
    style = (assets / "page.css").read_text(encoding="utf-8")
    script = (assets / "scene.js").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{text(title)}</title>\n<link rel="icon" href="data:,">\n<style>\n{style}</style>\n</head>\n'
        f"<body>\n<main>\n{body}\n</main>\n<script>\n{script}</script>\n</body>\n</html>\n"
    )


def write_page(path: Path, page: str) -> None:
    """Write a page whole or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_text(page, encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def section(title: str, *parts: str) -> str:
    """A section; empty if none of its parts says anything."""
    inner = "\n".join(part for part in parts if part)
    return f"<section>\n<h2>{text(title)}</h2>\n{inner}\n</section>" if inner else ""


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """A table of names and values; values are HTML, and empty ones are left out."""
    inner = "".join(f"<tr><th>{text(name)}</th><td>{value}</td></tr>" for name, value in rows if value)
    return f'<table class="pairs"><tbody>{inner}</tbody></table>' if inner else ""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table; cells are HTML, columns `numbers` stand to the right. A head that begins with "|" is a bar's."""

    def cells(kind: str, row: Sequence[str]) -> str:
        classes = ["num" if i in numbers else "bar" if heads[i].startswith("|") else "" for i in range(len(row))]
        return "".join(
            f"<{kind}{f' class={c}' if c else ''}>{cell}</{kind}>" for c, cell in zip(classes, row, strict=True)
        )

    head = cells("th", [text(name.removeprefix("|")) for name in heads])
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def bar(share: float, style: str = "") -> str:
    """A bar of this share of its cell; nothing for zero."""
    if share <= 0.0:
        return ""
    return f'<span class="{style}" style="width:{100 * min(1.0, max(0.0, share)):.1f}%"></span>'


def captioned(title: str, picture: str, caption: str = "") -> str:
    """A figure with its title above and what there is to know below."""
    below = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f"<figure><h3>{text(title)}</h3>{picture}{below}</figure>"


def figures(*parts: str) -> str:
    """Figures beside each other where there is room."""
    return f'<div class="figures">{"".join(parts)}</div>' if any(parts) else ""


def key(entries: Iterable[tuple[str, str]]) -> str:
    """A legend: (CSS class of the mark, HTML)."""
    return f'<ul class="key">{"".join(f"<li><i class={style}></i>{words}</li>" for style, words in entries)}</ul>'


def commands(items: Iterable[tuple[str, str]]) -> str:
    """Command lines, each with what it does."""
    inner = "".join(f"<div><p>{text(what)}</p><pre>{text(line)}</pre></div>" for what, line in items)
    note = '<p class="note">From the project\'s folder; a click selects a whole command.</p>'
    return f'{note}<div class="commands">{inner}</div>'


def folded(summary: str, inner: str) -> str:
    """Something one opens with a click."""
    return f"<details><summary>{text(summary)}</summary>{inner}</details>" if inner else ""


def flat(value: object, prefix: str = "") -> list[tuple[str, str]]:
    """{"a": {"b": 1}} as [("a.b", "1")], for a table of a config."""
    if isinstance(value, Mapping) and value:
        return [row for name, item in value.items() for row in flat(item, f"{prefix}.{name}" if prefix else str(name))]
    return [(prefix, f'<span class="mono">{text("null" if value is None else value)}</span>')]
