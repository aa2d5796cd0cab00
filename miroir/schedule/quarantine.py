"""What containers did wrong is remembered: each is left alone for a while, longer every time. Pure."""

from __future__ import annotations

import errno
import random
from collections import Counter, deque

from .node import Fault, Node

BACKOFF_S = 0.5
DOWN_LIMIT_S = 5.0  # asking a container that is down is cheap, and a fleet may start late
SICK_LIMIT_S = 30.0
JITTER = (0.8, 1.2)
SUSPECT_S = 10.0
SUSPECT_LEAST = 4
LOCAL_ERRNOS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})


class Quarantine:
    """Puts containers aside with the reason, and notices when so many fail that the cause may be this process."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._recent: deque[tuple[float, Node, str]] = deque()  # when, who, and the errno's name or the reason
        self.local = False  # the last answer failed for want of something of our own

    def put(
        self, node: Node, fault: Fault, reason: str, now: float, *, status: int | None = None, code: int | None = None
    ) -> None:
        """Set a container aside: for half a second, twice as long each time, at most 5 s when down, else 30 s."""
        node.seen_at, node.fault, node.reason, node.status, node.spare = now, fault, reason, status, 0
        limit_s = DOWN_LIMIT_S if fault is Fault.DOWN else SICK_LIMIT_S
        times = max(node.failures, node.unfit - 1)
        wait_s = limit_s if fault is Fault.REFUSED else min(limit_s, BACKOFF_S * 2 ** min(times, 10))
        self.local = code in LOCAL_ERRNOS
        if self.local:  # no reason to keep away from the container
            wait_s = BACKOFF_S
        else:
            node.failures += 1
        node.retry_at = now + wait_s * self._dice.uniform(*JITTER)
        self._forget(now)
        self._recent.append((now, node, errno.errorcode.get(code or 0, reason)))

    def lift(self, node: Node, *, proven: bool) -> None:
        """Take a container back; only a session that came about (`proven`) makes good what its handshakes did."""
        if proven or node.fault is not Fault.SICK:
            node.failures = 0
        node.fault, node.reason, node.status = None, "", None
        self.local = False

    def suspicion(self, now: float, total: int) -> dict[str, int]:
        """How often each fault was met, when more than half of `total` containers failed within the last 10 s."""
        self._forget(now)
        latest = {node: fault for _, node, fault in self._recent if node.fault}
        if not self.local and (len(latest) < SUSPECT_LEAST or 2 * len(latest) <= total):
            return {}
        return dict(Counter(latest.values()))

    def _forget(self, now: float) -> None:
        while self._recent and self._recent[0][0] < now - SUSPECT_S:
            self._recent.popleft()
