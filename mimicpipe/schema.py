"""Plain containers against a dataclass: types, limits and unknown keys, each fault one line that says what is valid.

A field's limits stand in its metadata: `min`, `max`, `above` and `below` (exclusive), `length` of a list, `interval`
([low, high] with low <= high); or `words`, what is valid where its type does not say it.
"""

import difflib
import math
import operator
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields, is_dataclass
from enum import Enum
from typing import Any

from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from mimicpipe.errors import ConfigError

_Limits = Mapping[str, Any]
_EMPTY = object()
"""Stands for a field that the node does not give: an empty mapping or list, whichever the field takes."""


def at_least(low: float, default: Any = MISSING) -> Any:
    """A field with a lower limit."""
    return field(default=default, metadata={"min": low})


def within(low: float, high: float, default: Any = MISSING) -> Any:
    """A field with two limits."""
    return field(default=default, metadata={"min": low, "max": high})


def timeout(default: float) -> Any:
    """A field of seconds that something may take: more than none, and few enough for a timer."""
    return field(default=default, metadata={"above": 0, "max": 1_000_000})


def show(value: Any) -> str:
    """A value as it is typed on the command line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{k}:{show(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ",".join(map(show, value)) + "]"
    return str(value)


def suggest(name: str, valid: Iterable[Any]) -> str:
    """The valid names in words, led by the one that `name` is most like."""
    names = [str(v) for v in valid if not str(v).startswith("_")]
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{hint}valid: {', '.join(names)}" if names else "nothing is valid here"


def conform(schema: Any, node: Mapping[str, Any], prefix: str = "", *, closed: bool = True) -> dict[str, Any]:
    """Merge `node` into the defaults of a dataclass.

    Args:
        schema: the dataclass; an Enum field takes its members' names.
        node: values, without interpolations.
        prefix: dotted key of the node, for messages.
        closed: refuse keys that the dataclass lacks; otherwise they pass as they are.

    Returns:
        Plain containers, converted to the fields' types.

    Raises:
        ConfigError: names the key, the value and what is valid.
    """
    hints = typing.get_type_hints(schema)
    limits = {f.name: f.metadata for f in fields(schema)}
    if closed and (unknown := next((key for key in node if key not in hints), None)):
        raise ConfigError(f"{_join(prefix, unknown)}: no such key; {suggest(unknown, hints)}")
    nested = [key for key, hint in hints.items() if _holds_dataclass(hint)]
    flat = {key: value for key, value in node.items() if key in hints and key not in nested}
    checked = _merge(schema, flat, prefix, hints, limits)
    for key, value in checked.items():
        if not _within(value, limits[key]):
            given = show(flat.get(key, value))
            raise ConfigError(f"{_join(prefix, key)}={given}: expected {describe(hints[key], limits[key])}")
    extra = {key: value for key, value in node.items() if key not in hints}
    inner = {key: _conform_value(hints[key], node.get(key, _EMPTY), _join(prefix, key)) for key in nested}
    return {**checked, **inner, **extra}


def _merge(
    schema: Any, node: dict[str, Any], prefix: str, hints: Mapping[str, Any], limits: Mapping[str, _Limits]
) -> dict[str, Any]:
    """The fields that hold no dataclass: defaults and the values of `node`, converted to the fields' types."""
    try:
        merged = OmegaConf.merge(OmegaConf.structured(schema), node)
        masked = OmegaConf.masked_copy(
            typing.cast(DictConfig, merged), [key for key in hints if not _holds_dataclass(hints[key])]
        )
        plain = OmegaConf.to_container(masked, resolve=True, enum_to_str=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        raise ConfigError(f"{_join(prefix, error.full_key)}: a value is required") from None
    except OmegaConfBaseException as error:
        key = _parts(error.full_key)[0]
        expected = describe(hints[key], limits[key])
        raise ConfigError(f"{_join(prefix, key)}={show(node[key])}: expected {expected}") from None
    return typing.cast(dict[str, Any], plain)


def _holds_dataclass(hint: Any) -> bool:
    return is_dataclass(hint) or any(_holds_dataclass(a) for a in typing.get_args(hint))


def _conform_value(hint: Any, value: Any, key: str) -> Any:
    """Conform a dataclass, or a list or dict of them (OmegaConf does not fill in their defaults)."""
    if isinstance(hint, type) and is_dataclass(hint) and (value is _EMPTY or isinstance(value, dict)):
        return conform(hint, {} if value is _EMPTY else value, key)
    if typing.get_origin(hint) is list and (value is _EMPTY or isinstance(value, list)):
        items = () if value is _EMPTY else value
        return [_conform_value(typing.get_args(hint)[0], item, f"{key}[{i}]") for i, item in enumerate(items)]
    if typing.get_origin(hint) is dict and (value is _EMPTY or isinstance(value, dict)):
        values = {} if value is _EMPTY else value
        return {name: _conform_value(typing.get_args(hint)[1], v, _join(key, name)) for name, v in values.items()}
    raise ConfigError(f"{key}={show(value)}: expected {describe(hint, {})}")


def _within(value: Any, limits: _Limits) -> bool:
    if value is None:
        return True
    items = value if isinstance(value, list) else [value]
    if "interval" in limits and not (len(items) == 2 and items[0] <= items[1]):
        return False
    if len(items) != limits.get("length", len(items)):
        return False
    tests = {"min": operator.ge, "max": operator.le, "above": operator.gt, "below": operator.lt}
    return all(
        not (isinstance(item, float) and not math.isfinite(item))
        and all(test(item, limits[name]) for name, test in tests.items() if name in limits)
        for item in items
    )


def _parts(key: Any) -> list[str]:
    return [p for p in str(key).replace("[", ".").replace("]", "").split(".") if p]


def value_at(node: Any, key: Any) -> Any:
    """The value at a dotted key of plain containers; None where there is none."""
    for part in _parts(key):
        if isinstance(node, Mapping):
            node = node.get(part)
        elif isinstance(node, list) and part.isdigit() and int(part) < len(node):
            node = node[int(part)]
        else:
            return None
    return node


def _bare(hint: Any) -> Any:
    """The type without `| None`."""
    if isinstance(hint, types.UnionType):
        return next(a for a in typing.get_args(hint) if a is not type(None))
    return hint


_WORDS = {
    int: ("an integer", "integers"),
    float: ("a number", "numbers"),
    bool: ("true or false", "true or false"),
    str: ("a string", "strings"),
}


def describe(hint: Any, limits: Mapping[str, Any]) -> str:
    """What a field of this type and with these limits takes, in words."""
    bare = _bare(hint)
    optional = "" if bare is hint else " or null"
    if "words" in limits:
        return limits["words"]
    if "interval" in limits:
        return "two integers [low, high] with low <= high"
    signs = {"min": ">=", "above": ">", "max": "<=", "below": "<"}
    bounds = " and".join(f" {sign} {limits[name]}" for name, sign in signs.items() if name in limits)
    is_list = typing.get_origin(bare) is list
    item = typing.get_args(bare)[0] if is_list else bare
    if isinstance(item, type) and issubclass(item, Enum):
        words = f"{'any' if is_list else 'one'} of {', '.join(item.__members__)}"
    else:
        words = _WORDS.get(item, ("a mapping", "mappings"))[is_list]
    if not is_list:
        return f"{words}{bounds}{optional}"
    length = limits.get("length")
    if length == 0:
        return "an empty list"
    return f"a list of {'' if length is None else f'{length} '}{words}{bounds}{optional}"


def _join(prefix: str, key: Any) -> str:
    return f"{prefix}.{key}" if prefix else str(key)


def first_line(error: BaseException) -> str:
    """The first line of an exception's message."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
