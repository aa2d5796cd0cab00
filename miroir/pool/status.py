"""What the containers of a fleet say of themselves, for people and for pools."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from .. import rest, wire
from ..columns import aligned
from ..errors import ConnectionFailed
from ..urls import endpoint

PARALLEL = 64
_CELL = 100  # characters of a server's text that a table shows
_COLUMNS = ("url", "healthy", "leased", "sessions", "env", "version", "boot id / reason")


@dataclass(frozen=True)
class Status:
    """One container's answer to GET `/health`; None and "" where it did not say."""

    url: str
    healthy: bool
    reason: str
    leased: bool | None = None
    active: int | None = None
    slots: int | None = None
    env: str = ""
    version: str = ""
    boot_id: str = ""
    episodes: int | None = None  # how many it has begun


def read_status(url: str, token: str | None = None, timeout_s: float = rest.HEALTH_TIMEOUT_S) -> Status:
    """Ask one container; one that cannot be asked is unhealthy, with the reason."""
    try:
        code, _, content = rest.fetch("GET", endpoint(url, "health"), token=token, timeout_s=timeout_s)
    except ConnectionFailed as error:
        return Status(url, False, rest.reason(error.__cause__ or error))
    health = wire.read_health(code, content)
    said = _object(content)
    env = said.get("env") if isinstance(said.get("env"), dict) else {}
    return Status(
        url,
        health.healthy,
        health.reason,
        health.leased,
        health.active,
        health.slots,
        _text(env, "name"),
        _text(env, "version"),
        _text(said, "boot_id"),
        said["episodes"] if isinstance(said.get("episodes"), int) else None,
    )


def read_statuses(urls: Sequence[str], token: str | None = None) -> list[Status]:
    """Ask every container at once, in the order of `urls`."""
    with ThreadPoolExecutor(min(PARALLEL, max(1, len(urls))), thread_name_prefix="miroir-status") as workers:
        return list(workers.map(lambda url: read_status(url, token), urls))


def table(statuses: Sequence[Status]) -> str:
    """A line for each container, under a line of names."""
    return aligned([_COLUMNS, *map(_row, statuses)])


def _row(status: Status) -> tuple[str, ...]:
    sessions = "-" if status.active is None else f"{status.active}/{'-' if status.slots is None else status.slots}"
    leased = {True: "yes", False: "no", None: "-"}[status.leased]
    said = (status.env, status.version, status.reason or status.boot_id)
    return (status.url, "yes" if status.healthy else "NO", leased, sessions, *map(_cell, said))


def _cell(text: str) -> str:
    """A server's text, fit for a terminal."""
    return "".join(c for c in text[:_CELL] if c.isprintable()) or "-"


def _object(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(holder: Any, name: str) -> str:
    value = holder.get(name)
    return value if isinstance(value, str) else ""
