"""A session's world: one `Environment`, made, called and closed on a thread of its own."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

from .environment import Environment
from .worker import Outcome, Worker

CALL_LIMIT_S = 600.0  # a call that no episode's deadline bounds
CLOSE_LIMIT_S = 30.0
RESET_PARAMETERS = frozenset({"task", "episode_id", "seed", "max_seconds", "coworkers", "surface"})

T = TypeVar("T")
Factory = Callable[[], Environment]

_log = logging.getLogger("miroir.serve")
_numbers = itertools.count(1)


class StillRunning(Exception):
    """A call has not returned within its limit; the world can serve nothing else until it does."""


class World:
    """An environment and its thread. Every method belongs to the event loop; one call at a time."""

    def __init__(self, factory: Factory, *, allow_code: bool = False) -> None:
        self._factory = factory
        self._allow_code = allow_code
        self._worker = Worker(f"miroir-world-{next(_numbers)}")
        self._environment: Environment | None = None
        self._running: asyncio.Future[Any] | None = None
        self._due = 0.0
        self._closing = False

    async def open(self) -> BaseException | None:
        """Make the environment; the error that kept it from being made."""
        try:
            outcome = await self._ask(self._make, CALL_LIMIT_S)
        except StillRunning as error:
            return error
        return outcome.error

    def _make(self) -> None:
        environment = self._factory()
        environment.allow_code = self._allow_code
        self._environment = environment

    @property
    def environment(self) -> Environment:
        """The environment, once it is made; only its attributes may be read off its thread."""
        assert self._environment is not None
        return self._environment

    @property
    def stuck(self) -> bool:
        """Whether a call is still running."""
        return self._running is not None and not self._running.done()

    def overdue_s(self) -> float:
        """For how many seconds a call has outlived both its client and its limit; 0 when none has."""
        return max(0.0, time.monotonic() - self._due) if self._closing and self.stuck else 0.0

    async def call(self, use: Callable[[Environment], T], limit_s: float = CALL_LIMIT_S) -> Outcome[T]:
        """What `use` makes of the environment, on its thread; StillRunning when it takes over `limit_s` seconds."""
        environment = self.environment
        return await self._ask(lambda: use(environment), limit_s)

    async def _ask(self, function: Callable[[], T], limit_s: float) -> Outcome[T]:
        if self.stuck:
            raise StillRunning("an earlier call is still running; close this session and lease another container")
        self._due = time.monotonic() + limit_s
        future = self._worker.call(function)
        self._running = future
        done, _ = await asyncio.wait((future,), timeout=limit_s)
        if not done:
            raise StillRunning(f"the call still runs after {limit_s:.0f} s")
        return future.result()

    async def close(self) -> None:
        """Drop the environment once its running call has ended, and end the thread, also when the wait is cut short."""
        self._closing = True
        closing = self._worker.call(self._drop)
        self._worker.stop()
        if self._running is not None:
            await asyncio.wait((self._running,))
        self._running, self._due = closing, time.monotonic() + CLOSE_LIMIT_S
        outcome = await closing
        if outcome.error is not None:
            _log.warning("closing the environment failed: %s", reason(outcome.error), exc_info=outcome.error)

    def _drop(self) -> None:
        if self._environment is not None:
            self._environment.close()


def options(environment: Environment) -> frozenset[str] | None:
    """The names of the free options that the environment's `reset` takes; None when it takes any."""
    parameters = inspect.signature(environment.reset).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters) - RESET_PARAMETERS


def reason(error: BaseException) -> str:
    """An author's error in words: its type, and its text where it has one."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
