"""The keys of conf/ as Markdown tables: defaults and meanings from the YAML files, what is valid from the schemas."""

import ast
import inspect
import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from mimicpipe.config import GROUPS, RunConfig, SubtaskConfig, schema_of
from mimicpipe.datagen.subtask import DataGenConfig, SubTaskConfig
from mimicpipe.errors import ConfigError
from mimicpipe.schema import describe, show

_HIDDEN = ("_target_", "_convert_", "defaults", "hydra")


@dataclass(frozen=True)
class Key:
    """One key of one option."""

    name: str
    """Dotted."""
    default: str
    valid: str
    meaning: str


def group_section(conf: Path, group: str) -> str:
    """The options of a group, each in a line, and a table of their keys.

    Raises:
        ConfigError: no such group.
    """
    files = sorted((conf / group).glob("*.yaml"))
    if not files:
        raise ConfigError(f"{conf}: no group {group}")
    chosen = _defaults(conf).get(group)
    files.sort(key=lambda file: file.stem != chosen)
    lines = [f"* `{group}={file.stem}`{' (default)' if file.stem == chosen else ''}: {_about(file)}" for file in files]
    if group not in GROUPS:
        return "\n".join(lines)
    keys = {file.stem: _keys_of(file, group) for file in files}
    parts = ["\n".join(lines)]
    if any(keys.values()):
        parts.append(_table(keys))
    if group == "task":
        parts.append("Each item of `task.subtasks.<eef>`:\n\n" + _table({"": _fields_of(SubtaskConfig, SubTaskConfig)}))
    return "\n\n".join(parts)


def tasks_section(conf: Path, pictures: str) -> str:
    """A table of the tasks: what each is, its reset distributions, its subtasks with the object of each, a picture.

    Args:
        conf: the folder of the groups.
        pictures: folder of <task>.png, from the project's root.
    """
    lines = ["| task | variants | object of each subtask | a source demo |", "| --- | --- | --- | --- |"]
    for file in sorted((conf / "task").glob("*.yaml")):
        node = _load(file)
        if not node["subtasks"]:  # the env has them
            continue
        arms = len(node["subtasks"]) > 1
        steps = [
            f"{f'{eef}: ' if arms else ''}{', '.join(subtask['object_ref'] or '(none)' for subtask in subtasks)}"
            for eef, subtasks in node["subtasks"].items()
        ]
        picture = f'<img src="{pictures}/{file.stem}.png" width="435" alt="{file.stem}">'
        cells = (f"`{file.stem}`: {_about(file)}", ", ".join(node["variants"]), "; ".join(steps), picture)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def run_section(conf: Path) -> str:
    """A table of the keys of config.yaml."""
    file = conf / "config.yaml"
    content, comments = _load(file), _comments(file)
    return _table({"": _walk(content, RunConfig, "", comments, {})})


def _defaults(conf: Path) -> dict[str, str]:
    """{group: the option chosen by default}."""
    entries = _load(conf / "config.yaml")["defaults"]
    return {group: option for entry in entries if isinstance(entry, dict) for group, option in entry.items()}


def _load(file: Path) -> dict[str, Any]:
    return typing.cast(dict[str, Any], OmegaConf.to_container(OmegaConf.load(file), resolve=False))


def _about(file: Path) -> str:
    """The first comment of a file that is not an instruction to Hydra."""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("# ") and not line.startswith("# @"):
            return re.sub(r":? {2,}(python .*)", r" (`\1`)", line[2:].strip())
    raise ConfigError(f"{file}: begin with a comment that says what the option is")


def _comments(file: Path) -> dict[str, str]:
    """{dotted key: the comment on its line}; items of lists are left out."""
    found, path = {}, []
    for line in file.read_text(encoding="utf-8").splitlines():
        match = re.match(r"( *)(\w+):(?:.*? # (.*))?", line)
        if match is None:
            continue
        depth = len(match[1]) // 2
        path[depth:] = [match[2]]
        if match[3]:
            found[".".join(path)] = match[3].strip()
    return found


def _keys_of(file: Path, group: str) -> list[Key]:
    content = _load(file)
    schema = schema_of(group, content.get("_target_")) or GROUPS[group]
    docs = {f"datagen.{name}": text for name, text in field_docs(DataGenConfig).items()} if group == "task" else {}
    return _walk(content, schema, group, _comments(file), docs)


def _walk(node: Mapping[str, Any], schema: Any, prefix: str, comments: Mapping[str, str], docs: Any) -> list[Key]:
    hints = typing.get_type_hints(schema)
    limits = {f.name: f.metadata for f in fields(schema)}
    keys: list[Key] = []
    for name, value in node.items():
        hint = hints.get(name)
        if name in _HIDDEN or hint is None:
            continue
        full = f"{prefix}.{name}" if prefix else name
        if isinstance(hint, type) and is_dataclass(hint):
            inner = {k.removeprefix(f"{name}."): v for k, v in comments.items() if k.startswith(f"{name}.")}
            inner_docs = {k.removeprefix(f"{name}."): v for k, v in docs.items() if k.startswith(f"{name}.")}
            keys += _walk(value, hint, full, inner, inner_docs)
            continue
        default = "see below" if hint is not None and _holds_mapping(hint) else f"`{show(value)}`"
        keys.append(Key(full, default, describe(hint, limits[name]), comments.get(name) or docs.get(name, "")))
    return keys


def _holds_mapping(hint: Any) -> bool:
    return typing.get_origin(hint) is dict


def _fields_of(schema: Any, documented: type) -> list[Key]:
    """Keys of a dataclass that has no YAML of its own; their meanings stand in another one with the same fields."""
    hints, docs, defaults = typing.get_type_hints(schema), field_docs(documented), schema()
    keys = []
    for item in fields(schema):
        default = getattr(defaults, item.name)
        text = "`''`" if default == "" else f"`{show(default)}`"
        meaning = re.sub(r"\bNone\b", "null", docs[item.name])
        keys.append(Key(item.name, text, describe(hints[item.name], item.metadata), meaning))
    return keys


def field_docs(documented: type) -> dict[str, str]:
    """{field: the string below it in the source of a class}, on one line."""
    (node,) = ast.parse(inspect.getsource(documented)).body
    assert isinstance(node, ast.ClassDef)
    docs = {}
    for item, following in zip(node.body, node.body[1:], strict=False):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and isinstance(following, ast.Expr):
            docs[item.target.id] = " ".join(str(ast.literal_eval(following.value)).split())
    return docs


def _table(keys: Mapping[str, list[Key]]) -> str:
    """One row a key; where options differ, their defaults side by side."""
    several = len(keys) > 1
    names = list(dict.fromkeys(key.name for option in keys.values() for key in option))
    header = ["key", *(["options"] if several else []), "default", "valid", "meaning"]
    lines = [f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}"]
    for name in names:
        having = {option: key for option, found in keys.items() for key in found if key.name == name}
        first = next(iter(having.values()))
        defaults = {key.default for key in having.values()}
        default = first.default
        if len(defaults) > 1:
            default = ", ".join(f"{key.default} ({option})" for option, key in having.items())
        options = "all" if len(having) == len(keys) else ", ".join(having)
        meaning = next((key.meaning for key in having.values() if key.meaning), "")
        cells = [f"`{name}`", *([options] if several else []), default, first.valid, meaning]
        lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(lines)
