"""Writes the parts of README.md that come from other files: `python -m mimicpipe.tools.readme_tables [--check]`.

A part stands between two comment lines, `<!-- from: KIND ARGUMENT -->` and `<!-- end -->`. Kinds:

* `keys GROUP`: every key of the group's options in conf/, or of config.yaml where GROUP is `run`;
* `file PATH`: a whole file;
* `code PATH NAME`: one function, class or method (`Class.method`) of a Python file;
* `results FOLDER`: the pages in FOLDER/results;
* `tasks FOLDER`: the tasks of conf/task, with their pictures in FOLDER.
"""

import ast
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

from mimicpipe.errors import ConfigError
from mimicpipe.tools.config_keys import group_section, run_section, tasks_section
from mimicpipe.tools.exits import exit_code, tool_parser

ROOT = Path(__file__).resolve().parents[2]
_PART = re.compile(r"(<!-- from: (\w+) ([^\n]*?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def render(text: str, root: Path) -> str:
    """The text with every part written anew.

    Args:
        text: Markdown.
        root: the project's folder, which the parts' paths are relative to.

    Raises:
        ConfigError: a part whose kind, file or name does not exist.
    """

    def replace(match: re.Match[str]) -> str:
        opening, kind, argument, _, closing = match.groups()
        if kind not in _KINDS:
            raise ConfigError(f"<!-- from: {kind} -->: no such kind; valid: {', '.join(_KINDS)}")
        try:
            body = _KINDS[kind](root, *argument.split())
        except (OSError, TypeError) as error:
            raise ConfigError(f"<!-- from: {kind} {argument} -->: {error}") from error
        return f"{opening}\n{body.strip()}\n\n{closing}"

    if text.count("<!-- from: ") != len(_PART.findall(text)):
        raise ConfigError("a part is not closed: every '<!-- from: KIND ARGUMENT -->' needs its '<!-- end -->'")
    return _PART.sub(replace, text)


def _keys(root: Path, group: str) -> str:
    return run_section(root / "conf") if group == "run" else group_section(root / "conf", group)


def _file(root: Path, path: str) -> str:
    return _fenced(path, (root / path).read_text(encoding="utf-8"))


def _code(root: Path, path: str, name: str) -> str:
    source = (root / path).read_text(encoding="utf-8")
    node: ast.AST = ast.parse(source)
    for part in name.split("."):
        found = [n for n in ast.iter_child_nodes(node) if getattr(n, "name", None) == part]
        if not found:
            raise ConfigError(f"{path}: no {name}")
        node = found[0]
    segment = ast.get_source_segment(source, node, padded=True)
    assert segment is not None
    return _fenced(path, textwrap.dedent(segment))


def _fenced(path: str, text: str) -> str:
    language = {".py": "python", ".yaml": "yaml"}.get(Path(path).suffix, "")
    return f"```{language}\n{text.strip()}\n```"


def _results(root: Path, folder: str) -> str:
    pages = sorted((root / folder / "results").glob("*.md"))
    if not pages:
        return f"Not measured yet; `python -m {folder.replace('/', '.')}` does it."
    return "\n\n".join(_nested(page.read_text(encoding="utf-8")) for page in pages)


def _nested(page: str) -> str:
    """A page below a third-level heading: without its title, other headings two levels down."""
    lines = [line for line in page.strip().splitlines() if not line.startswith("# ")]
    return "\n".join(f"##{line}" if re.match(r"#+ ", line) else line for line in lines).strip()


def _tasks(root: Path, pictures: str) -> str:
    return tasks_section(root / "conf", pictures)


_KINDS: dict[str, Callable[..., str]] = {
    "keys": _keys,
    "file": _file,
    "code": _code,
    "results": _results,
    "tasks": _tasks,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code: 1 where --check finds parts that are out of date."""
    parser = tool_parser(
        "readme_tables", __doc__, exit_codes="Exit code: 0 done, 1 --check: it is out of date, 2 a part names nothing."
    )
    parser.add_argument("--check", action="store_true", help="change nothing; fail if something would change")
    parser.add_argument(
        "path",
        nargs="?",
        type=Path,
        default=ROOT / "README.md",
        help="the page to bring up to date (default: README.md)",
    )
    args = parser.parse_args(argv)

    def work() -> int:
        if not args.path.is_file():
            raise ConfigError(f"{args.path}: no such file")
        before = args.path.read_text(encoding="utf-8")
        after = render(before, ROOT)
        if after == before:
            return 0
        if args.check:
            print(f"{args.path} is out of date; run python -m mimicpipe.tools.readme_tables", file=sys.stderr)
            return 1
        args.path.write_text(after, encoding="utf-8")
        return 0

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
