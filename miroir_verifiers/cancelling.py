"""Waiting for a rollout's blocking calls on an event loop that may stop waiting at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from .rollout import Rollout
from .threads import threads

T = TypeVar("T")


async def waited(rollout: Rollout, call: Callable[[], T]) -> T:
    """The result of a blocking call of the rollout; when the await is cancelled, a call that still runs is woken."""
    try:
        return await threads.call(call)
    except asyncio.CancelledError:
        if rollout.halt():
            threads.submit(rollout.close)
        raise
