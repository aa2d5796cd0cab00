"""An ORS server (Open Reward Standard, as `openreward` serves it) over HTTP: what it offers, and its sessions."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Any

from ... import rest, sse
from ...errors import ConnectionFailed, HttpError

LIST_S = 60.0
CREATE_S = 600.0  # a sandbox may take minutes to be set up
DELETE_S = 10.0
PING_S = 10.0
SILENCE_S = 30.0  # a server that runs a tool sends a comment every 10 s
RESUME_S = 30.0  # how long a stream that dropped is taken up again; its result is kept for 60 s
TRIES = 3
PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10.0
_BUSY = frozenset({429, 502, 503, 504})


class CallFailed(Exception):
    """A tool failed on the server, or what came of its call cannot be known."""


class OrsServer:
    """One environment of an ORS server. `key` is the server's API key; `env` is its first environment by default."""

    def __init__(self, url: str, env: str | None = None, key: str | None = None) -> None:
        self._url = url.rstrip("/")
        self._headers = {"X-API-Key": key} if key else {}
        self.env = self._known(env)

    def _known(self, env: str | None) -> str:
        names = self.ask("GET", "list_environments")
        if not isinstance(names, list) or not names:
            raise ConnectionFailed(f"{self._url} lists no environment; is it an ORS server?", url=self._url)
        if env is None:
            return str(names[0])
        if env.lower() not in names:
            raise ConnectionFailed(f"{self._url} has no environment {env!r}; it has {', '.join(names)}", url=self._url)
        return env.lower()

    def version(self) -> str:
        """The build of the server where it tells, else the version of its library."""
        said = self.ask("GET", "version")
        return str(said.get("build_sha") or said.get("version"))

    def splits(self) -> dict[str, str]:
        """The splits by name, each with its type."""
        return {split["name"]: split["type"] for split in self.ask("GET", f"{self.env}/splits")}

    def tasks(self, split: str) -> list[Any]:
        """The tasks of a split, in the order of their indices."""
        try:
            answer = self.ask("POST", f"{self.env}/tasks", {"split": split})
        except HttpError as error:
            if error.status != 400:
                raise
            answer = self.ask("POST", f"{self.env}/task_range", {"split": split})  # it only has tasks by index
        return list(answer["tasks"])

    def tools(self) -> dict[str, Any]:
        """The answer about the tools that every task has."""
        answer: dict[str, Any] = self.ask("GET", f"{self.env}/tools")
        return answer

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        limit_s: float = LIST_S,
    ) -> Any:
        """The JSON answer to a request that may be sent again; HttpError or ConnectionFailed.

        A server that is overloaded is asked thrice, one that says that it is starting until `limit_s` seconds are over.
        """
        url, deadline = f"{self._url}/{path}", time.monotonic() + limit_s
        for attempt in itertools.count(1):
            left_s = max(0.001, deadline - time.monotonic())
            sent = {**self._headers, **(headers or {})}
            status, said, content = rest.fetch(method, url, body=body, headers=sent, timeout_s=left_s)
            pause_s = _pause(status, said, attempt)
            if pause_s is None or time.monotonic() + pause_s >= deadline:
                return rest.parse(url, status, said, content)
            time.sleep(pause_s)
        raise AssertionError("the loop above ends by returning")

    @contextlib.contextmanager
    def stream(self, path: str, body: Any, headers: Mapping[str, str], deadline: float) -> Any:
        """The server-sent events that a POST answers; HttpError or ConnectionFailed, also while they are read."""
        url = f"{self._url}/{path}"
        left_s = max(0.001, deadline - time.monotonic())
        with rest.send("POST", url, body=body, headers={**self._headers, **headers}, timeout_s=left_s) as response:
            pieces = rest.chunks(response, url, deadline, silence_s=SILENCE_S)
            if response.status_code != 200:
                rest.raise_for_status(url, response.status_code, b"".join(pieces))
            yield sse.events(pieces)


class OrsSession:
    """A session of the server on one task; it is kept alive until it is closed."""

    def __init__(self, server: OrsServer, split: str, index: int, secrets: Mapping[str, str]) -> None:
        self._server = server
        self._headers = {"X-Session-ID": uuid.uuid4().hex}
        self._closing = threading.Event()
        body = {"env_name": server.env, "split": split, "index": index}
        server.ask("POST", "create", body, headers={**self._headers, **_secret(secrets)}, limit_s=CREATE_S)
        self._pinging = threading.Thread(target=self._ping, name="miroir-ors-ping", daemon=True)
        self._pinging.start()

    def prompt(self) -> list[dict[str, Any]]:
        """The blocks of the task's prompt, once the environment is set up."""
        blocks: list[dict[str, Any]] = self._get("prompt")
        return blocks

    def tools(self) -> dict[str, Any]:
        """The answer about the tools of this task."""
        answer: dict[str, Any] = self._get("task_tools")
        return answer

    def _get(self, what: str) -> Any:
        return self._server.ask("GET", f"{self._server.env}/{what}", headers=self._headers, limit_s=CREATE_S)

    def call(self, name: str, arguments: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        """What came of a tool call, `{"ok": true, "output"}` or `{"ok": false, "error", "reason"}`; CallFailed.

        It is sent once. A stream that drops is taken up again by its token.
        """
        call = _Call(self._server, self._headers, {"name": name, "input": dict(arguments)}, limit_s)
        return call.result()

    def close(self) -> None:
        """End it; a server that cannot be reached ends it by itself after its idle time."""
        self._closing.set()
        with contextlib.suppress(HttpError, ConnectionFailed):
            self._server.ask("POST", "delete", headers=self._headers, limit_s=DELETE_S)
        self._pinging.join()

    def _ping(self) -> None:
        while not self._closing.wait(PING_S):
            try:
                self._server.ask("POST", "ping", headers=self._headers, limit_s=PING_S)
            except HttpError:
                return  # it is gone, as the next call will be told
            except ConnectionFailed:
                continue


class _Call:
    """One call on its way: its stream, and the token by which a dropped one is taken up again."""

    def __init__(self, server: OrsServer, headers: Mapping[str, str], body: Mapping[str, Any], limit_s: float) -> None:
        self._server = server
        self._headers = headers
        self._body = dict(body)
        self._deadline = time.monotonic() + limit_s
        self._give_up_at = float("inf")

    def result(self) -> dict[str, Any]:
        """What came of it."""
        while True:
            try:
                return self._read()
            except ConnectionFailed as error:
                now = time.monotonic()
                self._give_up_at = min(self._give_up_at, now + RESUME_S)
                if "task_id" not in self._body or now >= min(self._give_up_at, self._deadline):
                    raise CallFailed(f"{self._body['name']}: its result was lost: {error.message}") from error
            time.sleep(PAUSE_S)

    def _read(self) -> dict[str, Any]:
        parts = []
        path = f"{self._server.env}/call"
        with self._server.stream(path, self._body, self._headers, self._deadline) as events:
            for event in events:
                self._give_up_at = float("inf")
                if event.name == "task_id":
                    self._body["task_id"] = event.data
                elif event.name == "error":
                    raise CallFailed(f"{self._body['name']}: {event.data}")
                elif event.name in ("chunk", "end"):
                    parts.append(event.data)
                if event.name == "end":
                    return _result("".join(parts))
        raise ConnectionFailed("the stream ended before the result; is the server overloaded?")


def _result(text: str) -> dict[str, Any]:
    try:
        result = json.loads(text)
    except ValueError as error:
        raise ConnectionFailed("the result was cut off; is the server overloaded?") from error
    if not isinstance(result, dict) or not isinstance(result.get("ok"), bool):
        raise CallFailed("the server answered no tool result; is it an ORS server?")
    return result


def _pause(status: int, headers: Mapping[str, str], attempt: int) -> float | None:
    """How long to wait before asking again; None when the answer is the last word."""
    if status not in _BUSY:
        return None
    starting = headers.get("x-backend-state", "").lower() == "starting"
    if not starting and attempt >= TRIES:
        return None
    asked = headers.get("retry-after", "")
    return min(float(asked) if asked.isdigit() else PAUSE_S * 2**attempt, _LONGEST_PAUSE_S)


def _secret(secrets: Mapping[str, str]) -> dict[str, str]:
    """The header that carries the secrets to the environment, in ORS's form."""
    if not secrets:
        return {}
    payload = json.dumps({name: {"value": value} for name, value in secrets.items()})
    return {"X-Secrets": base64.b64encode(payload.encode()).decode()}
