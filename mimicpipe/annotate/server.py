"""The endpoints of the page for marks by hand.

GET  /state                  `HandSession.state`, JSON
GET  /frame?demo=I&step=T    JPEG
POST /marks                  {"demo": I, "marks": {eef: [steps]}}
POST /skip                   {"demo": I}
POST /finish                 {}; these answer {"ok": bool, "text": str, "state": as above}
"""

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from mimicpipe.annotate.by_hand import Answer, HandSession
from mimicpipe.local_page import BadRequest, Get, LocalServer, Post, Reply, as_json, as_text, integer

FIRST_PORT = 8411


def serve_session(session: HandSession, port: int | None) -> LocalServer:
    """A server of a session, not started; `port` as `LocalServer` has it.

    Raises:
        ConfigError: the port cannot be had.
    """

    def answered(answer: Answer) -> Reply:
        return as_json({"ok": answer.ok, "text": answer.text, "state": session.state()})

    gets: dict[str, Get] = {
        "/state": lambda _: as_json(session.state()),
        "/frame": lambda query: _frame(session, query),
    }
    posts: dict[str, Post] = {
        "/marks": lambda body: answered(session.submit(_index(body), _marks(body))),
        "/skip": lambda body: answered(session.skip(_index(body))),
        "/finish": lambda _: answered(session.finish()),
    }
    return LocalServer(Path(__file__).parent / "page", gets, posts, port, FIRST_PORT)


def _frame(session: HandSession, query: Mapping[str, str]) -> Reply:
    frame = session.frame(integer(query.get("demo", "")), integer(query.get("step", "")))
    return Reply(frame, "image/jpeg") if frame else as_text(HTTPStatus.NOT_FOUND, "no such frame")


def _index(body: dict[str, Any]) -> int:
    index = body.get("demo")
    if not isinstance(index, int):
        raise BadRequest("demo: expected an integer")
    return index


def _marks(body: dict[str, Any]) -> dict[str, list[int]]:
    marks = body.get("marks")
    fits = isinstance(marks, dict) and all(
        isinstance(steps, list) and all(isinstance(step, int) for step in steps) for steps in marks.values()
    )
    if not fits:
        raise BadRequest("marks: expected {eef: [steps]}")
    return marks
