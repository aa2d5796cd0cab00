"""When a container that went down may start again. Pure; times are on the caller's clock."""

from __future__ import annotations

from collections import deque

FIRST_DELAY_S = 1.0
LAST_DELAY_S = 30.0
STEADY_S = 60.0  # who was up for so long begins again with the first delay
BUDGET = 10
BUDGET_S = 600.0


class Restarts:
    """The restarts of one container: delays of 1 s, doubled to 30 s, and at most 10 within 10 minutes."""

    def __init__(self) -> None:
        self._delay_s = FIRST_DELAY_S
        self._times: deque[float] = deque()

    def delay(self, up_s: float, now: float) -> float | None:
        """Seconds to wait before the next start of a container that was up for `up_s`; None when it is given up."""
        if up_s >= STEADY_S:
            self._delay_s = FIRST_DELAY_S
        while self._times and self._times[0] <= now - BUDGET_S:
            self._times.popleft()
        if len(self._times) >= BUDGET:
            return None
        self._times.append(now)
        delay_s = self._delay_s
        self._delay_s = min(2 * delay_s, LAST_DELAY_S)
        return delay_s
