"""What the environment offers: its splits, tasks and tools, each asked for once, of an instance of its own."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from ..wire import Task
from . import contract
from .environment import Environment
from .frames import invalid
from .tools import Toolbox
from .world import Factory, StillRunning, World, reason

RETRY_S = 5.0

T = TypeVar("T")


class CatalogError(Exception):
    """The environment could not say what it offers, or what it said cannot be served."""


class UnknownSplit(Exception):
    """A split that the environment does not have; the message names the ones it has."""


class Catalog:
    """The lists of one environment, kept for the server's life."""

    def __init__(self, factory: Factory, *, allow_code: bool = False) -> None:
        self._factory = factory
        self._allow_code = allow_code
        self._world: World | None = None
        self._lock = asyncio.Lock()  # one instance, one call at a time
        self._lists: dict[tuple[str, str], Any] = {}
        self._retry: asyncio.Task[None] | None = None
        self._failed_at = 0.0
        self.failure: str | None = None  # why no instance could be made, the last time that one was needed
        self.name: str = getattr(factory, "name", Environment.name)
        self.version: str = getattr(factory, "version", Environment.version)
        self.description: str = getattr(factory, "description", Environment.description)
        self.surfaces: Sequence[str] = getattr(factory, "surfaces", Environment.surfaces)

    async def open(self) -> None:
        """Make the instance and learn its name, unless that is done; CatalogError when it cannot be made."""
        async with self._lock:
            await self._open()

    async def _open(self) -> World:
        if self._world is None:
            world = World(self._factory, allow_code=self._allow_code)
            error = await world.open()
            if error is not None:
                await world.close()
                self.failure, self._failed_at = f"the environment could not be made: {reason(error)}", time.monotonic()
                raise CatalogError(self.failure) from error
            self._world, self.failure = world, None
            made = world.environment
            self.name, self.version, self.description = made.name, made.version, made.description
            self.surfaces = tuple(made.surfaces)
        return self._world

    def retry(self) -> None:
        """Try again to make an instance, in the background; nothing to do where there is one, or one was just tried."""
        trying = self._retry is not None and not self._retry.done()
        if self.failure is not None and not trying and time.monotonic() >= self._failed_at + RETRY_S:
            self._retry = asyncio.create_task(self._try())

    async def _try(self) -> None:
        with contextlib.suppress(CatalogError):  # it stays the failure
            await self.open()

    async def close(self) -> None:
        """Drop the instance."""
        if self._world is not None:
            await self._world.close()

    async def splits(self) -> dict[str, str]:
        """The splits by name, each with its type."""
        return await self._once(("splits", ""), lambda env: contract.splits(env.splits()))

    async def tasks(self, split: str) -> list[Task]:
        """The tasks of a split; UnknownSplit."""
        splits = await self.splits()
        if split not in splits:
            raise UnknownSplit(f"no split {split!r}; the splits are {', '.join(splits)}")
        return await self._once(("tasks", split), lambda env: contract.tasks(split, env.tasks(split)))

    async def task(self, task_id: str) -> Task | None:
        """The task of that id, of any split; None where there is none."""
        index: dict[str, Task] | None = self._lists.get(("index", ""))
        if index is None:
            index = {}
            for split in await self.splits():
                for task in await self.tasks(split):
                    index.setdefault(task["id"], task)
            self._lists["index", ""] = index
        return index.get(task_id)

    async def toolbox(self, surface: str | None) -> Toolbox:
        """The tools of a surface, by default of the first; Refusal when there is no such surface."""
        chosen = self.surfaces[0] if surface is None else surface
        if chosen not in self.surfaces:
            raise invalid(f"no surface {chosen!r}; the surfaces are {', '.join(self.surfaces)}", ("data", "surface"))
        return await self._once(("tools", chosen), lambda env: contract.toolbox(env.tools(chosen)))

    async def _once(self, key: tuple[str, str], ask: Callable[[Environment], T]) -> T:
        if key not in self._lists:
            async with self._lock:
                if key not in self._lists:
                    world = await self._open()
                    self._lists[key] = await _answer(world, key, ask)
        return cast(T, self._lists[key])


async def _answer(world: World, key: tuple[str, str], ask: Callable[[Environment], T]) -> T:
    what = " ".join(filter(None, key))
    try:
        outcome = await world.call(ask)
    except StillRunning as error:
        raise CatalogError(f"listing the environment's {what} took too long: {error}") from error
    if outcome.error is not None:
        raise CatalogError(f"listing the environment's {what} failed: {reason(outcome.error)}") from outcome.error
    return cast(T, outcome.value)
