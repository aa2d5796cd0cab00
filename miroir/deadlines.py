"""How long each kind of blocking call may take, in seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Deadlines:
    """The deadlines of a fleet's or a session's calls; every one can be set."""

    health_s: float = 2.0
    handshake_s: float = 30.0
    reset_s: float = 600.0
    step_s: float = 600.0  # where the episode has no `max_seconds`
    step_margin_s: float = 30.0  # what a step may take beyond the episode's `max_seconds`
    finish_s: float = 600.0
    coworker_s: float = 30.0
    idle_s: float = 20.0  # after which an idle session of a plain OpenEnv server is kept from being reaped
