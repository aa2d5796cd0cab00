"""What the tests of training with TRL share: a Spec on troubled containers, and whether these are free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import requests
from processes import until

from miroir.trl import Spec

QUICK: dict[str, Any] = {"lease_s": 1.0, "wait_s": 1.0}


def held(urls: Sequence[str], count: int) -> bool:
    """Whether so many sessions come to be open on the containers."""
    return until(lambda: _open(urls) == count, 5)


def free(urls: Sequence[str]) -> bool:
    """Whether every container comes to be free."""
    return held(urls, 0)


def _open(urls: Sequence[str]) -> int:
    return sum(requests.get(f"{url}/health", timeout=5).json()["sessions"]["active"] for url in urls)


def environment(spec: Spec, task_id: str | None = None, *, name: str = "tools-1", graded: bool = False) -> Any:
    """An environment of the Spec, reset to the task; `name` chooses among several sets of tools."""
    factories = spec.async_environment_factory if graded else spec.environment_factory
    made = (factories[name] if isinstance(factories, dict) else factories)()
    if task_id is not None:
        made.reset(task_id=task_id)
    return made
