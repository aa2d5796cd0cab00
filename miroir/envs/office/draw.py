"""Seeded choices that are the same on every Python version."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Choices from a seed; built on `Random(int).random()` alone, whose stream no Python release changed."""

    def __init__(self, *seed: object) -> None:
        text = "\n".join(str(part) for part in seed)
        self._random = random.Random(int.from_bytes(hashlib.sha256(text.encode()).digest(), "big"))

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self._random.random() < probability

    def between(self, low: int, high: int) -> int:
        """An integer from low to high, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def pick(self, items: Sequence[T]) -> T:
        """One item."""
        return items[self.between(0, len(items) - 1)]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """`count` different items, in random order."""
        return self.shuffled(items)[:count]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """All items, in random order (Fisher-Yates)."""
        mixed = list(items)
        for last in range(len(mixed) - 1, 0, -1):
            other = self.between(0, last)
            mixed[last], mixed[other] = mixed[other], mixed[last]
        return mixed
