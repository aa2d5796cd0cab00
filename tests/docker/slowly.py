"""The office's reference solution, played so slowly that a test can break the fleet meanwhile."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from miroir.envs.office import reference


class _Slow:
    """A session whose calls take a while."""

    def __init__(self, session: Any, pause_s: float) -> None:
        self._session = session
        self._pause_s = pause_s

    def step(self, tool: str, arguments: dict[str, Any]) -> Mapping[str, Any]:
        """Wait, then call."""
        time.sleep(self._pause_s)
        answer: Mapping[str, Any] = self._session.step(tool, arguments)
        return answer


def play(session: Any, task: Mapping[str, Any], tools: Sequence[Any], *, pause_s: float = 0.2, **_: Any) -> None:
    """An agent for `load_agent`."""
    reference(_Slow(session, pause_s), task, tools)
