"""When a container that has served enough may be replaced. Pure; times are on the caller's clock."""

from __future__ import annotations

from .status import Status

DRAINED_S = 2.0  # who read the URL file before the container left it has connected by then


class Recycling:
    """One container's life: after `after` episodes it is spent, and done once it has been free for a while."""

    def __init__(self, after: int | None) -> None:
        self.spent = False
        self._after = after
        self._free_at: float | None = None

    def fault(self, status: Status) -> str:
        """Why a server cannot be recycled, "" when it can or need not be."""
        if self._after is None or (status.episodes is not None and status.leased is not None):
            return ""
        return "does not say in /health how many episodes it has begun, so it cannot be recycled after some"

    def look(self, status: Status, now: float) -> bool:
        """Take a healthy answer; whether the container may be replaced now."""
        if self._after is None or (status.episodes or 0) < self._after:
            return False
        self.spent = True
        if status.leased or status.active:
            self._free_at = None
        elif self._free_at is None:
            self._free_at = now
        return self._free_at is not None and now >= self._free_at + DRAINED_S
