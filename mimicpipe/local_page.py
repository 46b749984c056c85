"""A page for one person at this machine: its files and endpoints, served on the loopback only.

A page of another origin cannot use it: requests must be addressed to a name of the loopback (no DNS rebinding), and a
POST needs a header that a browser sends to other origins only after asking, which is never granted.
"""

import errno
import json
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mimicpipe.errors import ConfigError

ADDRESS = "127.0.0.1"
HEADER = "X-Mimicpipe"
_FILES = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob: data:"
_MAX_BODY = 100_000


@dataclass(frozen=True)
class Reply:
    """What an endpoint answers."""

    content: bytes
    kind: str = "application/json"
    status: HTTPStatus = HTTPStatus.OK


Get = Callable[[Mapping[str, str]], Reply]
"""Takes the query, {key: its first value}."""
Post = Callable[[dict[str, Any]], Reply]
"""Takes the body, a JSON object."""


class BadRequest(Exception):  # noqa: N818 - an answer to the browser
    """What is wrong with a request: status 400."""


class Gone(Exception):  # noqa: N818 - likewise
    """Why there is no answer: status 503."""


def as_json(value: Any) -> Reply:
    """A value as JSON."""
    return Reply(json.dumps(value).encode())


def as_text(status: HTTPStatus, text: str) -> Reply:
    """A line for people."""
    return Reply(f"{text}\n".encode(), "text/plain; charset=utf-8", status)


def integer(text: str) -> int:
    """An integer of a query; BadRequest otherwise."""
    try:
        return int(text)
    except ValueError:
        raise BadRequest(f"{text!r} is no integer") from None


class LocalServer(ThreadingHTTPServer):
    """Serves a page and its endpoints to browsers of this machine; each connection has a thread.

    Args:
        folder: has page.html, page.css and page.js.
        gets: {path: endpoint}, called in the connection's thread.
        posts: likewise.
        port: 0 is any that is free; None is `first_port`, or any if that is taken.
        first_port: see `port`.

    Raises:
        ConfigError: the port cannot be had.
    """

    daemon_threads = False
    block_on_close = True

    def __init__(
        self,
        folder: Path,
        gets: Mapping[str, Get],
        posts: Mapping[str, Post],
        port: int | None = None,
        first_port: int = 0,
    ) -> None:
        self.folder = folder
        self.gets, self.posts = gets, posts
        self._connections: set[socket.socket] = set()
        self._guard = threading.Lock()
        try:
            super().__init__((ADDRESS, first_port if port is None else port), _Handler)
        except (OSError, OverflowError) as error:
            if port is not None:
                raise ConfigError(f"--port={port}: {error}; --port=0 takes any that is free") from error
            if not (isinstance(error, OSError) and error.errno == errno.EADDRINUSE):
                raise
            super().__init__((ADDRESS, 0), _Handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.1,), name="mimicpipe-page")

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://{ADDRESS}:{self.server_port}/"

    def start(self) -> None:
        """Serve, in threads of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Close every connection; no thread is left. Endpoints that wait must have been told to end."""
        if self._thread.ident is not None:
            self.shutdown()
            self._thread.join()
        with self._guard:
            for connection in self._connections:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # the browser was quicker
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin a connection, which `stop` can end."""
        with self._guard:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End a connection."""
        with self._guard:
            self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def _mine(self) -> LocalServer:
        assert isinstance(self.server, LocalServer)
        return self.server

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def _answer(self, handle: Callable[[], Reply]) -> None:
        try:
            if urlsplit(f"//{self.headers.get('Host', '')}").hostname not in (ADDRESS, "localhost"):
                self.close_connection = True  # a body stays unread
                reply = as_text(HTTPStatus.FORBIDDEN, f"ask for {ADDRESS} or localhost")
            else:
                reply = handle()
        except BadRequest as error:
            reply = as_text(HTTPStatus.BAD_REQUEST, str(error))
        except Gone as error:
            reply = as_text(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        self._send(reply)

    def _get(self) -> Reply:
        url = urlsplit(self.path)
        if url.path in _FILES:
            name, kind = _FILES[url.path]
            return Reply((self._mine.folder / name).read_bytes(), f"{kind}; charset=utf-8")
        endpoint = self._mine.gets.get(url.path)
        if endpoint is None:
            return as_text(HTTPStatus.NOT_FOUND, "no such page")
        return endpoint({key: values[0] for key, values in parse_qs(url.query).items()})

    def _post(self) -> Reply:
        if self.headers.get(HEADER) is None:
            self.close_connection = True
            return as_text(HTTPStatus.FORBIDDEN, f"the header {HEADER} is missing")
        body = self._body()
        endpoint = self._mine.posts.get(self.path)
        return as_text(HTTPStatus.NOT_FOUND, "no such page") if endpoint is None else endpoint(body)

    def _body(self) -> dict[str, Any]:
        length = integer(self.headers.get("Content-Length", "0"))
        if not 0 <= length <= _MAX_BODY:
            self.close_connection = True
            raise BadRequest(f"a body of {length} bytes; at most {_MAX_BODY}")
        try:
            body = json.loads(self.rfile.read(length))
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise BadRequest("the body is no JSON object")
        return body

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.kind)
        self.send_header("Content-Length", str(len(reply.content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(reply.content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a line for every frame would hide everything else."""
