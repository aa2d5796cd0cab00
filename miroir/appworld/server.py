"""One AppWorld environment server over HTTP: a connection for each call, bounded in time and size, each fault told.

The routes and their replies are those of appworld 0.1.3.post1 (`appworld/serve/environment.py`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from .. import rest
from ..errors import AppWorldError, ConnectionFailed

MAX_BODY_BYTES = 64 * 1024 * 1024
_SHOW_TIMEOUT_S = 30.0
_ENVELOPE_SHOWN = 500  # characters of a reply that cannot be read
_TAIL_LINES = 20
_TAIL_FIRST_S = 0.2  # the server writes its traceback after it has answered
_TAIL_MOST_S = 1.0
# uvicorn closes a connection after a 500, and now and then resets the request that follows on it.
_HEADERS = {"Connection": "close"}


class Unanswered(AppWorldError):
    """No answer came, or not a whole one: the server is dead, hangs, or is reached no more."""


class Unreadable(AppWorldError):
    """An answer that is not of AppWorld's shape."""


class TooLong(AppWorldError):
    """An answer larger than 64 MiB, which was not read to its end."""


class Refused(AppWorldError):
    """An answer with a `status` that is not 2xx."""

    def __init__(self, message: str, *, status: int, log: tuple[str, ...] = ()) -> None:
        super().__init__(message, log=log)
        self.status = status


class Server:
    """The server at `base_url`, which a session holds alone; `timeout_s` bounds a whole call.

    `logs` gives its last lines, for the text of faults: its own answer to every fault is a bare 500.
    """

    def __init__(self, base_url: str, *, timeout_s: float, logs: Callable[[], Sequence[str]] = tuple) -> None:
        self.base_url = base_url
        self.fault: str | None = None  # why no further session should get this server
        self._timeout_s = timeout_s
        self._logs = logs

    def call(self, path: str, body: Mapping[str, Any], *, timeout_s: float | None = None) -> Any:
        """The `output` that a POST answers; AppWorldError when there is none, however that comes."""
        status, content = self._exchange("POST", path, body, self._timeout_s if timeout_s is None else timeout_s)
        if not 200 <= status < 300:
            raise self._refused(path, status, content)
        return self._output(path, content)

    def shows(self, task_id: str) -> bool:
        """Whether the server can load the task, which it can even where it can start no world any more."""
        try:
            status, _ = self._exchange("GET", f"/tasks/{quote(task_id, safe='')}", None, _SHOW_TIMEOUT_S)
        except AppWorldError:
            return False
        return status == 200

    def blame(self, fault: str) -> None:
        """Remember the first thing for which the server, and not its client, is to blame."""
        self.fault = self.fault or fault

    def _exchange(self, method: str, path: str, body: object, timeout_s: float) -> tuple[int, bytes]:
        url = f"{self.base_url}{path}"
        deadline = time.monotonic() + timeout_s
        try:
            with rest.send(method, url, body=body, headers=_HEADERS, timeout_s=timeout_s) as response:
                return response.status_code, _bounded(path, rest.chunks(response, url, deadline))
        except ConnectionFailed as error:
            cause = error.__cause__ or error
            text = f"{path} did not complete: {type(cause).__name__}: {rest.reason(cause)}"
            self.blame(text)
            raise Unanswered(f"{text}; the server at {self.base_url} has died, hangs or was stopped") from cause

    def _output(self, path: str, content: bytes) -> Any:
        try:
            envelope = json.loads(content)
        except (ValueError, RecursionError):
            envelope = None
        if not isinstance(envelope, dict) or "output" not in envelope:
            text = f'{path} answered no JSON object with "output"'
            self.blame(text)
            shown = content.decode(errors="replace")[:_ENVELOPE_SHOWN] or "nothing"
            raise Unreadable(f"{text} but {shown}; is {self.base_url} an AppWorld environment server?")
        return envelope["output"]

    def _refused(self, path: str, status: int, content: bytes) -> Refused:
        said = content.decode(errors="replace").strip()[: rest.BODY_SHOWN] or "(no body)"
        log = self._tail() if status >= 500 else ()
        shown = "".join(f"\n    {line}" for line in log[-_TAIL_LINES:])
        why = f"its log ends:{shown}" if log else f"the log of the server at {self.base_url} says why"
        return Refused(f"{path} answered {status}: {said}; {why}", status=status, log=log)

    def _tail(self) -> tuple[str, ...]:
        """The server's last lines, once no more are added."""
        deadline = time.monotonic() + _TAIL_MOST_S
        time.sleep(_TAIL_FIRST_S)
        lines = tuple(self._logs())
        while lines and time.monotonic() < deadline:
            time.sleep(_TAIL_FIRST_S / 2)
            before, lines = lines, tuple(self._logs())
            if lines == before:
                break
        return lines


def _bounded(path: str, chunks: Iterator[bytes]) -> bytes:
    content = bytearray()
    for chunk in chunks:
        content += chunk
        if len(content) > MAX_BODY_BYTES:
            raise TooLong(f"{path} answered more than {MAX_BODY_BYTES} bytes; have the code print less")
    return bytes(content)
