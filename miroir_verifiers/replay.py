"""The calls of a rollout since its model last spoke, so that one that a client sends again is not made again. Pure.

Clients of MCP send a call again, over a new connection, when its answer did not reach them. A model that wants the same
call once more says so in a new turn, or its client makes it over the connection that it has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any


@dataclass
class Made:
    """A call that was made: its answer, its connection and id; `lost` if its client went before the answer."""

    answer: Future[str]
    connection: int
    request_id: object
    lost: bool = False


class Memory:
    """The calls of one rollout; `turn` gives another value after each turn of its model. Used from one thread."""

    def __init__(self, turn: Callable[[], Hashable]) -> None:
        self._turn = turn
        self._seen: Hashable = None  # the turn in which the calls below were made
        self._made: dict[tuple[str, str], Made] = {}
        self._connection = 0

    def connected(self) -> None:
        """A client has opened a connection."""
        self._connection += 1

    def call(
        self, name: str, arguments: Mapping[str, Any], request_id: object, make: Callable[[], Future[str]]
    ) -> Made:
        """The call, which `make` makes unless it is one of this turn's that was sent again."""
        if (turn := self._turn()) != self._seen:
            self._seen = turn
            self._made.clear()
        key = (name, json.dumps(arguments, sort_keys=True))
        made = self._made.get(key)
        if made is None or self._wanted_again(made, request_id):
            made = self._made[key] = Made(make(), self._connection, request_id)
        return made

    def _wanted_again(self, made: Made, request_id: object) -> bool:
        return made.connection == self._connection and made.request_id != request_id and not made.lost
