"""The leases of this process: one waiting line for each Spec, and what is played on it."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import threading
import weakref
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from ..errors import InvalidArgument, MiroirError, NoFreeContainer
from ..fleet import Fleet
from ..session import Session
from ..wire import Record
from .plan import Plan, rank

BRIEF_S = 3.0  # how long the next one waits after one has waited in vain
SHOWN = 3  # containers that an error names


class _Playing(Protocol):
    def free(self) -> None:
        """Give the container back, whatever is played there."""


class Leases:
    """Leases for the rollouts of this process."""

    def __init__(self, plan: Plan) -> None:
        self._fleet = Fleet(plan.urls, plan.token, deadlines=plan.deadlines)
        self._lease_s = plan.lease_s
        self._vain = False  # whether the last one waited in vain
        self._closed = False
        self._lock = threading.Lock()  # guards what is below
        self._playing: weakref.WeakSet[_Playing] = weakref.WeakSet()
        self._trials: defaultdict[str, Iterator[int]] = defaultdict(_trials)
        self._void = 0  # episodes in a row
        self._void_reason: str | None = None

    def lease(self) -> Session:
        """A session on a free container; NoFreeContainer when none comes free in time."""
        if self._closed:
            raise InvalidArgument("this Spec is closed; make another for another training")
        try:
            session = self._fleet.lease(timeout_s=min(BRIEF_S, self._lease_s) if self._vain else self._lease_s)
        except NoFreeContainer:
            self._vain = True
            raise
        self._vain = False
        return session

    def trial(self, task_id: str) -> int:
        """The number of the task's next rollout; no other process of the training run counts it."""
        with self._lock:
            return next(self._trials[task_id])

    def add(self, playing: _Playing) -> None:
        """Free this one too when all ends; it is not kept alive for that."""
        with self._lock:
            self._playing.add(playing)

    def count(self, record: Record) -> None:
        """Take in how an episode ended."""
        with self._lock:
            self._void = self._void + 1 if record["reward"] is None else 0
            self._void_reason = record["metadata"].get("void_reason")

    def require(self, episodes: int) -> None:
        """Raise MiroirError (ALL_VOID) when as many of the last episodes were all void: nothing is learnt any more."""
        with self._lock:
            void, reason = self._void, self._void_reason
        if void >= episodes:
            raise MiroirError(
                "ALL_VOID",
                f"the last {void} episodes of this process were all void, at last because of: {reason}; "
                f"{state(self._fleet.stats())}; mend the fleet, and go on from the last checkpoint",
            )

    def close(self) -> None:
        """Free every container, and lease none any more; RecordError afterwards for a record that was not saved."""
        self._closed = True
        with self._lock:
            playing = list(self._playing)
        with contextlib.ExitStack() as stack:  # it goes on where one raises
            stack.callback(self._fleet.close)  # last: who waits in it learns that nobody wants its episode any more
            for one in playing:
                stack.callback(one.free)


def leases_of(plan: Plan) -> Leases:
    """This process's leases for the plan, made at the first call."""
    with _lock:
        if plan.key not in _leases:
            _leases[plan.key] = Leases(plan)
        return _leases[plan.key]


def state(stats: Mapping[str, Any]) -> str:
    """A fleet's state in words: how many containers are in which, and some of those that are not well."""
    nodes: Mapping[str, Mapping[str, Any]] = stats["urls"]
    kinds = sorted({str(node["state"]) for node in nodes.values()})
    counts = ", ".join(f"{sum(node['state'] == kind for node in nodes.values())} {kind}" for kind in kinds)
    unwell = [f"{url}: {node['reason']}" for url, node in nodes.items() if node["reason"]]
    return f"the fleet of {len(nodes)}: {counts}{''.join(f'; {one}' for one in unwell[:SHOWN])}"


def _trials() -> Iterator[int]:
    first, processes = rank()
    return itertools.count(first, processes)


def _close_all() -> None:
    for leases in list(_leases.values()):
        leases.close()


def _begin_anew() -> None:
    global _lock
    _lock = threading.Lock()
    _leases.clear()  # what the parent holds is the parent's


_leases: dict[str, Leases] = {}
_lock = threading.Lock()  # guards the table
atexit.register(_close_all)
os.register_at_fork(after_in_child=_begin_anew)
