"""What all rollouts of a training run have in common, in every process of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..deadlines import Deadlines
from ..episode import Setting
from ..urls import Urls


@dataclass(frozen=True)
class Policy:
    """Who played, in the records: the model that is being trained."""

    name: str = "trl"
    model: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """What factories and the reward take along when they are pickled; `key` is that of the Spec that made it."""

    key: str
    urls: Urls
    token: str | None = field(repr=False)
    setting: Setting
    policy: Policy
    deadlines: Deadlines
    lease_s: float  # seconds for which a reset waits for a free container
    records: str | None
    max_chars: int  # of a tool's answer
    void_batches: int  # in a row, after which the training is ended


def rank() -> tuple[int, int]:
    """The number of this process among those of the training run, from 0, and how many they are."""
    return int(os.environ.get("RANK") or 0), int(os.environ.get("WORLD_SIZE") or 1)
