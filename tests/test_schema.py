"""Plain containers against dataclasses."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from mimicpipe.errors import ConfigError
from mimicpipe.schema import conform, show, suggest, value_at

Color = StrEnum("Color", ["red", "green"])


@dataclass
class Inner:
    size: int = field(default=1, metadata={"min": 1, "max": 9})
    color: Color = Color["red"]


@dataclass
class Outer:
    share: float = field(default=0.5, metadata={"min": 0, "below": 1})
    limit: int | None = None
    names: list[str] = field(default_factory=list)
    span: list[int] = field(default_factory=lambda: [0, 0], metadata={"interval": True})
    free: dict[str, Any] = field(default_factory=dict)
    one: Inner = field(default_factory=Inner)
    many: dict[str, list[Inner]] = field(default_factory=dict)


def test_defaults_are_filled_in_at_every_depth():
    assert conform(Outer, {"many": {"a": [{"size": 3}, {}]}}) == {
        "share": 0.5,
        "limit": None,
        "names": [],
        "span": [0, 0],
        "free": {},
        "one": {"size": 1, "color": "red"},
        "many": {"a": [{"size": 3, "color": "red"}, {"size": 1, "color": "red"}]},
    }


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"share": 1}, "x.share=1: expected a number >= 0 and < 1"),
        ({"share": float("inf")}, "x.share=inf: expected a number >= 0 and < 1"),
        ({"limit": "a"}, "x.limit=a: expected an integer or null"),
        ({"names": "a"}, "x.names=a: expected a list of strings"),
        ({"span": [2, 1]}, "x.span=[2,1]: expected two integers [low, high] with low <= high"),
        ({"span": [2]}, "x.span=[2]: expected two integers [low, high] with low <= high"),
        ({"free": 3}, "x.free=3: expected a mapping"),
        ({"one": {"size": 10}}, "x.one.size=10: expected an integer >= 1 and <= 9"),
        ({"one": {"color": "blue"}}, "x.one.color=blue: expected one of red, green"),
        ({"one": None}, "x.one=null: expected a mapping"),
        ({"many": {"a": [{}, {"siz": 1}]}}, "x.many.a[1].siz: no such key; did you mean size? valid: size, color"),
        ({"shar": 1}, "x.shar: no such key; did you mean share? valid: share, limit, names, span, free, one, many"),
    ],
)
def test_faults(node, message):
    with pytest.raises(ConfigError) as raised:
        conform(Outer, node, "x")
    assert str(raised.value) == message


def test_an_open_schema_passes_other_keys_as_they_are():
    assert conform(Inner, {"size": 2, "extra": {"a": [1]}}, closed=False) == {
        "size": 2,
        "color": "red",
        "extra": {"a": [1]},
    }


@given(st.integers())
def test_limits_are_inclusive(size):
    if 1 <= size <= 9:
        assert conform(Inner, {"size": size})["size"] == size
    else:
        with pytest.raises(ConfigError, match=f"size={size}"):
            conform(Inner, {"size": size})


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text("abcxyz", min_size=1),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3),
    max_leaves=6,
)


@given(plain)
def test_show_is_what_is_typed(value):
    assert OmegaConf.to_container(OmegaConf.create(f"key: {_spaced(show(value))}")) == {"key": value}


def _spaced(text: str) -> str:
    """YAML wants a blank after the colon of a flow mapping; Hydra's grammar does not."""
    return text.replace(":", ": ")


def test_suggest():
    assert suggest("pikc", ["stack", "pick"]) == "did you mean pick? valid: stack, pick"
    assert suggest("zzz", ["pick", "_target_"]) == "valid: pick"
    assert suggest("zzz", []) == "nothing is valid here"


def test_value_at():
    node = {"a": [{"b": 3}]}
    assert value_at(node, "a[0].b") == 3
    assert value_at(node, "a[1].b") is None
    assert value_at(node, "a.b.c") is None
