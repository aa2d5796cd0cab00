"""Keeps an idle session from being reaped: a plain OpenEnv server counts neither pings nor `state` as life."""

from __future__ import annotations

import threading

from .dialogue import Dialogue

PING_S = 60.0  # a server that serves one frame at a time may be late, and is alive
PING = {"type": "mcp", "data": {"jsonrpc": "2.0", "id": 0, "method": "ping", "params": {}}}


class Keepalive:
    """A thread that sends an `mcp` ping whenever the dialogue has been idle for `idle_s` seconds."""

    def __init__(self, dialogue: Dialogue, idle_s: float) -> None:
        self._dialogue = dialogue
        self._idle_s = idle_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="miroir-keepalive", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it. One that nobody stops ends with the dialogue, at the latest at its next ping."""
        self._stopped.set()

    def _watch(self) -> None:
        wait_s = self._idle_s
        while not self._stopped.wait(min(wait_s, threading.TIMEOUT_MAX)) and not self._dialogue.ended:
            idle_s = self._dialogue.idle_s
            if idle_s >= self._idle_s:
                self._dialogue.ping(PING, "mcp", PING_S)
                idle_s = 0.0
            wait_s = self._idle_s - idle_s
