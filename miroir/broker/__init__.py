"""Threads around the schedule: containers are probed, opened, leased and handed over."""

from .broker import Broker, shared
from .canceller import Canceller

__all__ = ["Broker", "Canceller", "shared"]
