"""A fleet as an object that users hold: its own waiting line, sessions and statistics."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from .broker import Broker
from .deadlines import Deadlines
from .schedule.chains import CHAIN_HANDOVERS, CHAIN_S
from .schedule.search import PROBE_RATE
from .session import Session
from .urls import Source, Urls


class Fleet:
    """The containers of one URL list, URL file or DNS name, with a waiting line of its own.

    `probe_rate` bounds the health requests a second while all are busy. A container is passed on inside this process
    until it was `chain_handovers` times and `chain_s` seconds have passed, and then let go when others wait for it.
    """

    def __init__(
        self,
        urls: Urls,
        token: str | None = None,
        *,
        deadlines: Deadlines | None = None,
        probe_rate: float = PROBE_RATE,
        chain_handovers: int = CHAIN_HANDOVERS,
        chain_s: float = CHAIN_S,
    ) -> None:
        self._broker = Broker(
            Source.of(urls),
            token,
            deadlines=deadlines,
            probe_rate=probe_rate,
            chain_handovers=chain_handovers,
            chain_s=chain_s,
        )

    def lease(self, *, wait_busy: bool = True, timeout_s: float = 600.0) -> Session:
        """Open a session on a free container, as `Session.lease` does."""
        return Session(self._broker.lease(wait_busy=wait_busy, timeout_s=timeout_s))

    def stats(self) -> dict[str, Any]:
        """Counters of this fleet, named as psycopg_pool names them, and the state of each container under `urls`."""
        return self._broker.stats()

    def close(self) -> None:
        """End the waiting line; sessions that are open stay so until they are closed."""
        self._broker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
