"""The page and its endpoints, on this machine's loopback only.

    GET  /                page.html, /page.css, /page.js, /bindings.json
    GET  /state?after=N   state as JSON, once it is newer than version N, or after two seconds
    GET  /frame.jpg       the newest frame
    POST /input           {"order": number, "keys": [code], "axes": [] or 6 numbers, "view": [azimuth, elevation, zoom]}
    POST /command         {"name": "start"}; answers {"ok": bool, "text": str}

A page of another origin cannot use it: requests must be addressed to a name of the loopback (no DNS rebinding), and a
POST needs a header that a browser sends to other origins only after asking, which is never granted.
"""

import errno
import json
import math
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mimicpipe.collect.controls import MOTION, View, bindings
from mimicpipe.collect.hub import Closed, Hub, PageInput
from mimicpipe.errors import ConfigError

ADDRESS = "127.0.0.1"
HEADER = "X-Mimicpipe"
FIRST_PORT = 8410
_PAGE = Path(__file__).parent / "page"
_FILES = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob: data:"
_WAIT_S = 2.0
_MAX_BODY = 10_000


class CollectServer(ThreadingHTTPServer):
    """Serves a hub to browsers of this machine.

    Args:
        hub: what is served.
        port: None is `FIRST_PORT`, or any other if that is taken; 0 is any.

    Raises:
        ConfigError: the port cannot be had.
    """

    daemon_threads = False
    block_on_close = True

    def __init__(self, hub: Hub, port: int | None = None) -> None:
        self.hub = hub
        self._connections: set[socket.socket] = set()
        self._guard = threading.Lock()
        try:
            super().__init__((ADDRESS, FIRST_PORT if port is None else port), _Handler)
        except (OSError, OverflowError) as error:
            if port is not None:
                raise ConfigError(f"--port={port}: {error}; --port=0 takes any that is free") from error
            if not (isinstance(error, OSError) and error.errno == errno.EADDRINUSE):
                raise
            super().__init__((ADDRESS, 0), _Handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.1,), name="mimicpipe-collect")

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://{ADDRESS}:{self.server_port}/"

    def start(self) -> None:
        """Serve, in threads of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Close every connection; no thread is left."""
        self.hub.close()
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

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection, which `stop` can end."""
        with self._guard:
            self._connections.add(request)
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._guard:
                self._connections.discard(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no error."""
        import sys

        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class BadRequest(Exception):  # noqa: N818 - an answer to the browser
    """What is wrong with a request."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def _hub(self) -> Hub:
        server = self.server
        assert isinstance(server, CollectServer)
        return server.hub

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def _answer(self, handle: Any) -> None:
        try:
            if urlsplit(f"//{self.headers.get('Host', '')}").hostname not in (ADDRESS, "localhost"):
                self._send(HTTPStatus.FORBIDDEN, "text/plain", b"ask for 127.0.0.1 or localhost\n")
                return
            handle()
        except BadRequest as error:
            self._send(HTTPStatus.BAD_REQUEST, "text/plain", f"{error}\n".encode())
        except Closed:
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", b"collecting has ended\n")
        except TimeoutError:
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", b"the simulator does not answer\n")

    def _get(self) -> None:
        url = urlsplit(self.path)
        if url.path in _FILES:
            name, kind = _FILES[url.path]
            self._send(HTTPStatus.OK, f"{kind}; charset=utf-8", (_PAGE / name).read_bytes())
        elif url.path == "/bindings.json":
            self._send(HTTPStatus.OK, "application/json", json.dumps(bindings()).encode())
        elif url.path == "/state":
            after = _integer(parse_qs(url.query).get("after", ["0"])[0])
            self._send(HTTPStatus.OK, "application/json", self._hub.state(after, _WAIT_S).encode())
        elif url.path == "/frame.jpg" and (frame := self._hub.frame()):
            self._send(HTTPStatus.OK, "image/jpeg", frame)
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"no such page\n")

    def _post(self) -> None:
        if self.headers.get(HEADER) is None:
            self.close_connection = True  # the body stays unread
            self._send(HTTPStatus.FORBIDDEN, "text/plain", f"the header {HEADER} is missing\n".encode())
            return
        body = self._body()
        if self.path == "/input":
            self._hub.put_input(_page_input(body))
            self._send(HTTPStatus.OK, "application/json", b"{}")  # 204 counts as a failed load in Chromium
        elif self.path == "/command":
            answer = self._hub.ask(str(body.get("name", "")))
            text = json.dumps({"ok": answer.ok, "text": answer.text}).encode()
            self._send(HTTPStatus.OK, "application/json", text)
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"no such page\n")

    def _body(self) -> dict[str, Any]:
        length = _integer(self.headers.get("Content-Length", "0"))
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

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: twenty requests a second would hide everything else."""


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadRequest(f"{text!r} is no integer") from None


def _numbers(body: dict[str, Any], key: str, lengths: tuple[int, ...]) -> tuple[float, ...]:
    values = body.get(key)
    fits = isinstance(values, list) and len(values) in lengths
    if not fits or not all(isinstance(v, int | float) and math.isfinite(v) for v in values):
        raise BadRequest(f"{key}: expected {' or '.join(map(str, lengths))} finite numbers")
    return tuple(float(v) for v in values)


def _page_input(body: dict[str, Any]) -> PageInput:
    keys = body.get("keys")
    if not (isinstance(keys, list) and all(isinstance(key, str) for key in keys)):
        raise BadRequest("keys: expected a list of codes")
    (order,) = _numbers({"order": [body.get("order")]}, "order", (1,))
    return PageInput(order, frozenset(keys), _numbers(body, "axes", (0, MOTION)), View(*_numbers(body, "view", (3,))))
