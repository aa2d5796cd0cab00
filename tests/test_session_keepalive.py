"""Idle sessions are kept from being reaped, and busy ones left alone."""

from __future__ import annotations

import time
from typing import Any, cast

from processes import until

from miroir.session.dialogue import Dialogue
from miroir.session.keepalive import Keepalive


class Idle:
    """A dialogue that is idle for as long as it says."""

    def __init__(self, busy: bool = False) -> None:
        self.busy = busy
        self.ended = False
        self.pings: list[dict[str, Any]] = []
        self._asked_at = time.monotonic()

    @property
    def idle_s(self) -> float:
        """0 while it is busy."""
        return 0.0 if self.busy else time.monotonic() - self._asked_at

    def ping(self, frame: dict[str, Any], expected: str, timeout_s: float) -> None:
        """Take a ping."""
        assert expected == "mcp"
        self._asked_at = time.monotonic()
        self.pings.append(frame)


def test_an_idle_dialogue_is_pinged_again_and_again() -> None:
    """By a frame that servers count as life, until it is stopped."""
    dialogue = Idle()
    keepalive = Keepalive(cast("Dialogue", dialogue), 0.02)
    assert until(lambda: len(dialogue.pings) >= 3)
    keepalive.stop()
    assert dialogue.pings[0]["type"] == "mcp"
    assert dialogue.pings[0]["data"]["method"] == "ping"


def test_a_busy_dialogue_is_not() -> None:
    """A call that runs is life enough."""
    dialogue = Idle(busy=True)
    keepalive = Keepalive(cast("Dialogue", dialogue), 0.02)
    time.sleep(0.1)
    keepalive.stop()
    assert dialogue.pings == []


def test_it_ends_with_the_dialogue() -> None:
    """Nobody need stop it."""
    dialogue = Idle()
    keepalive = Keepalive(cast("Dialogue", dialogue), 0.02)
    dialogue.ended = True
    assert until(lambda: not keepalive._thread.is_alive())
