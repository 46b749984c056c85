"""The endpoints of the page.

GET  /bindings.json   what keys and gamepad do
GET  /state?after=N   state as JSON, once it is newer than version N, or after two seconds
GET  /frame.jpg       the newest frame
POST /input           {"order": number, "keys": [code], "axes": [] or 6 numbers, "view": [azimuth, elevation, zoom]}
POST /command         {"name": "start"}; answers {"ok": bool, "text": str}
"""

import math
from dataclasses import asdict
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from mimicpipe.collect.controls import MOTION, View, bindings
from mimicpipe.collect.hub import Closed, Hub, PageInput
from mimicpipe.local_page import BadRequest, Get, Gone, LocalServer, Post, Reply, as_json, as_text, integer

FIRST_PORT = 8410
_WAIT_S = 2.0


def serve_hub(hub: Hub, port: int | None) -> LocalServer:
    """A server of a hub, not started; `port` as `LocalServer` has it.

    Raises:
        ConfigError: the port cannot be had.
    """
    gets: dict[str, Get] = {
        "/bindings.json": lambda _: as_json(bindings()),
        "/state": lambda query: _state(hub, integer(query.get("after", "0"))),
        "/frame.jpg": lambda _: _frame(hub),
    }
    posts: dict[str, Post] = {"/input": partial(_input, hub), "/command": partial(_command, hub)}
    return LocalServer(Path(__file__).parent / "page", gets, posts, port, FIRST_PORT)


def _state(hub: Hub, after: int) -> Reply:
    try:
        return Reply(hub.state(after, _WAIT_S).encode())
    except Closed:
        raise Gone("collecting has ended") from None


def _frame(hub: Hub) -> Reply:
    frame = hub.frame()
    return Reply(frame, "image/jpeg") if frame else as_text(HTTPStatus.NOT_FOUND, "no frame yet")


def _input(hub: Hub, body: dict[str, Any]) -> Reply:
    keys = body.get("keys")
    if not (isinstance(keys, list) and all(isinstance(key, str) for key in keys)):
        raise BadRequest("keys: expected a list of codes")
    (order,) = _numbers({"order": [body.get("order")]}, "order", (1,))
    axes, view = _numbers(body, "axes", (0, MOTION)), View(*_numbers(body, "view", (3,)))
    hub.put_input(PageInput(order, frozenset(keys), axes, view))
    return as_json({})


def _command(hub: Hub, body: dict[str, Any]) -> Reply:
    try:
        return as_json(asdict(hub.ask(str(body.get("name", "")))))
    except Closed:
        raise Gone("collecting has ended") from None
    except TimeoutError:
        raise Gone("the simulator does not answer") from None


def _numbers(body: dict[str, Any], key: str, lengths: tuple[int, ...]) -> tuple[float, ...]:
    values = body.get(key)
    fits = isinstance(values, list) and len(values) in lengths
    if not fits or not all(isinstance(v, int | float) and math.isfinite(v) for v in values):
        raise BadRequest(f"{key}: expected {' or '.join(map(str, lengths))} finite numbers")
    return tuple(float(v) for v in values)
