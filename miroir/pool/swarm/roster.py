"""Which tasks of a Swarm service may be leased, from what Swarm and their servers say. Pure; the caller's clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..engine import Change, Event
from ..slot import Timing
from ..status import Status
from .task import Task


@dataclass
class _Seat:
    """A task that runs: what is known of its server."""

    task: Task
    url: str
    boot_id: str | None = None  # of its first healthy answer
    misses: int = 0
    fault: str = "its server has not answered"
    ready: bool = False


class Told(NamedTuple):
    """An event, and the task that it is about."""

    event: Event
    task: str


class Roster:
    """The tasks of a service; every change is returned as events, whose names are `prefix`.slot."""

    def __init__(self, prefix: str, timing: Timing) -> None:
        self._prefix = prefix
        self._timing = timing
        self._since: dict[str, float] = {}  # when each slot was first seen
        self._seats: dict[str, _Seat] = {}  # by task
        self._last: dict[str, str] = {}  # the last thing told of each slot, so that a loop is told once
        self._begun: set[str] = set()  # slots that were ready once, or have failed

    def ready(self) -> list[str]:
        """The base URLs of the tasks that may be leased."""
        return [seat.url for seat in self._seats.values() if seat.ready]

    def task(self, name: str) -> str | None:
        """The task that is behind an event's name now."""
        return next((seat.task.id for seat in self._seats.values() if self._name(seat.task) == name), None)

    def probed(self) -> dict[str, tuple[str, bool]]:
        """Each task that runs: its URL, and whether it may be leased."""
        return {task: (seat.url, seat.ready) for task, seat in self._seats.items()}

    def see(self, tasks: Sequence[Task], addresses: Mapping[str, str], now: float) -> list[Told]:
        """Take what Swarm says; `addresses` are the nodes'. A task that it does not want any more leaves at once."""
        running = {task.id: task for task in tasks if task.runs and task.node in addresses}
        known = {task.id: task for task in tasks}
        told = []
        for gone in self._seats.keys() - running.keys():
            seat = self._seats.pop(gone)
            if seat.ready:
                story = _story(known.get(gone))
                told += self._tell(Change.DOWN, seat.task, f"{seat.url} left: Swarm has it {story}")
        for task in running.values():
            if task.id not in self._seats:
                self._seats[task.id] = _Seat(task, task.url(addresses[task.node]))
        for task in tasks:
            late = now >= self._since.setdefault(task.slot, now) + self._timing.start_s
            if task.state in {"failed", "rejected"}:
                told += self._fail(task, f"has {task.story}")
            elif late and task.wanted:
                told += self._fail(task, f"was not ready within {self._timing.start_s:g} s ({self._why(task)})")
        return told

    def hear(self, task: str, status: Status) -> list[Told]:
        """Take what the server of a task answered to a probe."""
        seat = self._seats.get(task)
        if seat is None:
            return []
        seat.fault = status.reason if not status.healthy else ""
        if not seat.fault and seat.boot_id not in (None, status.boot_id):
            seat.fault = "another server answers at its URL"
        if not seat.fault:
            seat.misses, seat.boot_id = 0, status.boot_id
            if seat.ready:
                return []
            seat.ready = True
            self._begun.add(seat.task.slot)
            return self._tell(Change.READY, seat.task, seat.url)
        seat.misses += 1
        if not seat.ready or seat.misses < self._timing.misses:
            return []
        seat.ready = False
        return self._tell(
            Change.DOWN,
            seat.task,
            f"was unhealthy {seat.misses} times in a row ({seat.fault}); it is out until it is well",
        )

    def _why(self, task: Task) -> str:
        seat = self._seats.get(task.id)
        return f"it is {task.story}" + (f", and {seat.url}: {seat.fault}" if seat else "")

    def _fail(self, task: Task, detail: str) -> list[Told]:
        """A failure that counts against the pool's start, once for each slot; later ones are only told."""
        if task.slot in self._begun:
            return []
        self._begun.add(task.slot)
        return self._tell(Change.FAILED, task, detail)

    def _tell(self, change: Change, task: Task, detail: str) -> list[Told]:
        if self._last.get(task.slot) == f"{change} {detail}":
            return []
        self._last[task.slot] = f"{change} {detail}"
        return [Told(Event(self._name(task), change, detail), task.id)]

    def _name(self, task: Task) -> str:
        return f"{self._prefix}.{task.slot}"


def _story(task: Task | None) -> str:
    if task is None:
        return "removed"
    return f"no longer wanted ({task.story})" if not task.ended and not task.wanted else task.story
