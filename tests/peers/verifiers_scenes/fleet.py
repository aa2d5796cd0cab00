"""The stage whose containers and model a script's arguments name, seen from a process that plays on it."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests

from miroir.broker import shared
from miroir.deadlines import Deadlines

*URLS, ALONE = json.loads(sys.argv[1])  # the last container has a single session
MODEL, OUT = sys.argv[2], Path(sys.argv[3])


def say(word: str) -> None:
    """Tell the stage to wake, or to mend."""
    requests.post(f"{MODEL}/chat/completions", json={"model": word, "messages": []}, timeout=10)


def wake() -> None:
    """End whatever sleeps on the stage."""
    say("wake")


def stats(urls: list[str]) -> dict[str, Any]:
    """The statistics of this process's leases."""
    return shared(list(urls), None, Deadlines()).stats()


def held(urls: list[str]) -> int:
    """How many leases this process has."""
    return sum(node["held"] for node in stats(urls)["urls"].values())


def active(urls: list[str]) -> int:
    """How many sessions the containers have."""
    return sum(requests.get(f"{url}/health", timeout=5).json()["sessions"]["active"] for url in urls)


async def until(condition: Callable[[], bool], within_s: float = 30.0) -> float:
    """Wait until the condition is true; how many seconds that took. TimeoutError after `within_s`."""
    began = time.monotonic()
    while not await asyncio.to_thread(condition):
        if time.monotonic() - began > within_s:
            raise TimeoutError("it did not become so")
        await asyncio.sleep(0.01)
    return time.monotonic() - began
