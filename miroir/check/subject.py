"""The server under test: how to reach it, and what it says of itself."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .. import rest, wire
from ..errors import ConnectionFailed, InvalidArgument
from .evidence import Evidence
from .link import Link, within

NO_TOOL = "no_such_tool_of_the_check"
_HTTP_S = 15.0
SETTLE_S = 5.0
_FAMILY, _VERSION = wire.PROTOCOL.split("/")


@dataclass(frozen=True)
class Answer:
    """An HTTP answer: its status, and its JSON (None where it is none)."""

    status: int
    body: Any


@dataclass
class Subject:
    """One server; `token` and `task_id` as the author gave them. After `deadline` whatever is asked is OutOfTime."""

    url: str
    token: str | None = None
    task_id: str | None = None
    evidence: Evidence = field(default_factory=Evidence)
    deadline: float = math.inf

    def __post_init__(self) -> None:
        self.url = self.url.rstrip("/")

    # HTTP

    def get(self, path: str, **how: Any) -> Answer:
        """The answer to a GET."""
        return self._fetch("GET", path, None, **how)

    def post(self, path: str, body: Any, **how: Any) -> Answer:
        """The answer to a POST of JSON."""
        return self._fetch("POST", path, body, **how)

    def rpc(self, method: str, *, query: str = "", **params: Any) -> Any:
        """The JSON-RPC reply of `/mcp`."""
        answer = self.post(f"mcp{query}", {"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
        return answer.body if isinstance(answer.body, dict) else {}

    def _fetch(
        self, method: str, path: str, body: Any, *, token: str | None = "", headers: Mapping[str, str] | None = None
    ) -> Answer:
        shown = "" if body is None else f" {json.dumps(body)}"
        self.evidence.sent(f"{method} /{path}{shown}")
        try:
            status, _, content = rest.fetch(
                method,
                f"{self.url}/{path}",
                body=body,
                token=self.token if token == "" else token,
                headers=headers,
                timeout_s=within(_HTTP_S, self.deadline),
            )
        except ConnectionFailed as error:
            within(_HTTP_S, self.deadline)
            self.evidence.received(error.message)
            return Answer(0, None)
        self.evidence.received(f"HTTP {status} {content[:1000].decode(errors='replace')}")
        try:
            return Answer(status, json.loads(content))
        except (ValueError, RecursionError):
            return Answer(status, None)

    # WebSocket

    def open(self, *, token: str | None = "", waiting: str | None = None) -> Link:
        """A connection, which its caller closes; Refused when the handshake is."""
        return Link(self.url, self.token if token == "" else token, self.evidence, self.deadline, waiting)

    @contextlib.contextmanager
    def link(self, *, token: str | None = "", waiting: str | None = None) -> Iterator[Link]:
        """The same for the length of a block."""
        opened = self.open(token=token, waiting=waiting)
        try:
            yield opened
        finally:
            opened.close()

    @contextlib.contextmanager
    def lease(self, *, waiting: str | None = None) -> Iterator[Link]:
        """A connection that is a lease, once the session of the one before it is free."""
        self.until(self.free)
        with self.link(waiting=waiting) as link:
            link.first = link.ask("state")
            yield link

    @contextlib.contextmanager
    def episode(self, **options: Any) -> Iterator[Link]:
        """A lease on which an episode of the task has begun."""
        with self.lease() as link:
            self.reset(link, **options)
            yield link

    def reset(self, link: Link, **options: Any) -> dict[str, Any]:
        """The reply to a reset of the task, under a new episode id."""
        link.episode_id = f"check-{time.monotonic_ns():x}"
        known = {"task_id": self.task["id"]} if self.task else {}
        link.begun = link.ask("reset", {**known, "episode_id": link.episode_id, **options})
        return link.begun

    def call(self, link: Link, tool: str, **arguments: Any) -> dict[str, Any]:
        """The reply to a tool call."""
        return link.ask("step", {"type": "call_tool", "tool_name": tool, "arguments": arguments})

    def free(self) -> bool:
        """Whether a slot is free, as far as the server tells."""
        body = self.get("health").body
        return not (isinstance(body, dict) and body.get("leased") is True)

    def until(self, met: Callable[[], bool], seconds: float | None = None) -> bool:
        """Whether `met()` became true within `seconds` (default: SETTLE_S)."""
        deadline = time.monotonic() + (SETTLE_S if seconds is None else seconds)
        while not met():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    # What it says of itself

    def introduce(self) -> None:
        """Read its health; ConnectionFailed when it is no environment server, InvalidArgument when it is too new."""
        answer = self.get("health")
        if answer.status == 0:
            raise ConnectionFailed(f"{self.url}: {self.evidence.last_received}", url=self.url)
        if not isinstance(answer.body, dict) or "status" not in answer.body:
            raise ConnectionFailed(
                f"{self.url}/health answered HTTP {answer.status} and no health; is this an environment server?",
                url=self.url,
                status=answer.status,
            )
        self.health: dict[str, Any] = answer.body
        family, _, version = str(self.health.get("protocol") or "").partition("/")
        if family == _FAMILY and version != _VERSION:
            raise InvalidArgument(
                f"{self.url} speaks {family}/{version}, this check knows {wire.PROTOCOL}; update miroir"
            )

    @property
    def protocol(self) -> str | None:
        """The protocol that it says it speaks; None for a plain OpenEnv server."""
        said = self.health.get("protocol")
        return said if isinstance(said, str) else None

    @property
    def plain(self) -> bool:
        """Whether it is a plain OpenEnv server, which names no protocol."""
        return self.protocol is None

    @property
    def slots(self) -> int:
        """How many sessions it has, as far as it tells."""
        sessions = self.health.get("sessions")
        most = sessions.get("max") if isinstance(sessions, dict) else None
        return most if isinstance(most, int) and most > 0 else 1

    @cached_property
    def env(self) -> dict[str, Any]:
        """Name and version of its environment."""
        env = self.health.get("env")
        if not isinstance(env, dict):
            env = self.get("metadata").body
        return {key: env.get(key) for key in ("name", "version")} if isinstance(env, dict) else {}

    @cached_property
    def name(self) -> str:
        """The first environment that it lists, "" when it lists none."""
        names = self.get("list_environments").body
        return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else ""

    @cached_property
    def splits(self) -> list[str]:
        """The names of its splits."""
        listed = self.get(f"{self.name}/splits").body
        rows = listed if isinstance(listed, list) else []
        return [row["name"] for row in rows if isinstance(row, dict) and isinstance(row.get("name"), str)]

    def tasks(self, split: str) -> list[dict[str, Any]]:
        """The tasks of a split, those that are objects with an id."""
        body = self.post(f"{self.name}/tasks", {"split": split}).body
        rows = body.get("tasks") if isinstance(body, dict) else None
        return [row for row in rows or [] if isinstance(row, dict) and "id" in row]

    @cached_property
    def task(self) -> dict[str, Any]:
        """The task that is played: the one that the author named, else the first; {} where none is listed."""
        listed = (task for split in self.splits for task in self.tasks(split))
        if self.task_id is None:
            return next(listed, {})
        return next((task for task in listed if task["id"] == self.task_id), {"id": self.task_id})

    @cached_property
    def tools(self) -> list[dict[str, Any]]:
        """The tools that it lists."""
        result = self.rpc("tools/list").get("result")
        listed = result.get("tools") if isinstance(result, dict) else None
        return [tool for tool in listed or [] if isinstance(tool, dict) and isinstance(tool.get("name"), str)]
