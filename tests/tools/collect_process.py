"""`python -m mimicpipe.tools.collect` in a process of its own, spoken to over HTTP."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class Collecting:
    """A running collect.

    Args:
        out: the file for demos.
        overrides: keys of the config.
    """

    def __init__(self, out: Path, *overrides: str) -> None:
        command = [sys.executable, "-m", "mimicpipe.tools.collect", *overrides, "--out", str(out), "--port", "0"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command, cwd=out.parent, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self._process.stdout is not None
        first = self._process.stdout.readline()
        if not first.startswith("http"):
            raise AssertionError(first + "".join(self._process.communicate()))
        self.url = first.split()[0]

    def stop(self, number: signal.Signals = signal.SIGINT) -> tuple[int, str, str]:
        """End it by a signal; exit code, and what it has printed since."""
        self._process.send_signal(number)
        out, err = self._process.communicate(timeout=20)
        return self._process.returncode, out, err

    def kill(self) -> None:
        """End it where a test has failed."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def request(
        self, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes, dict[str, str]]:
        """Status, content and headers of an answer, whatever it is."""
        sent = {"X-Mimicpipe": "test"} if headers is None else headers
        content = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(
                urllib.request.Request(self.url + path.lstrip("/"), data=content, headers=sent), timeout=20
            ) as answer:
                return answer.status, answer.read(), dict(answer.headers)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read(), dict(error.headers)

    def state(self) -> dict[str, Any]:
        """What the page shows now."""
        status, content, _ = self.request("/state")
        assert status == 200, content
        return json.loads(content)

    def hold(self, *keys: str) -> None:
        """Hold these keys, as a page says it every 150 ms."""
        view = self.state()["view"]
        body = {"order": time.monotonic() * 1e3, "keys": list(keys), "axes": [], "view": view}
        assert self.request("/input", body)[0] == 200

    def command(self, name: str) -> dict[str, Any]:
        """The answer to a command."""
        status, content, _ = self.request("/command", {"name": name})
        assert status == 200, content
        return json.loads(content)

    def until(self, what: Callable[[dict[str, Any]], bool], seconds: float = 20.0) -> dict[str, Any]:
        """The first state of which `what` is true."""
        deadline = time.monotonic() + seconds
        while not what(state := self.state()):
            assert time.monotonic() < deadline, state
            time.sleep(0.03)
        return state
