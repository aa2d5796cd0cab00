"""What a pool asks of an engine, whatever its containers are: start, ready, logs, stop, events."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from queue import SimpleQueue
from typing import Protocol


class Change(Enum):
    """What can happen to a container."""

    READY = "ready"
    DOWN = "down"  # it is being replaced
    FAILED = "failed"  # it never became ready
    GIVEN_UP = "given up"  # it went down too often


@dataclass(frozen=True)
class Event:
    """One change of one container, in words: `str()` is one line. `log` holds its last lines where it went down."""

    name: str
    change: Change
    detail: str
    log: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} {self.change.value}: {self.detail}"


class Engine(Protocol):
    """Starts containers and keeps them running; it is used once."""

    events: SimpleQueue[Event]

    def start(self, n: int) -> None:
        """Begin n containers and return; what becomes of them arrives in `events`."""

    def cancel(self) -> None:
        """Have a `start` that still prepares give up. Safe in a signal handler."""

    def ready(self) -> list[str]:
        """The base URLs of the containers that are ready now."""

    def logs(self, name: str) -> tuple[str, ...]:
        """The last lines that a container wrote."""

    def stop(self) -> None:
        """Stop every container, with some grace, and return when none is left."""

    def kill(self) -> None:
        """Take the grace from a `stop` that runs or comes. Safe in a signal handler."""
