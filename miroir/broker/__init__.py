"""Threads around the schedule: containers are probed, opened, leased and handed over."""

from .broker import Broker, shared

__all__ = ["Broker", "shared"]
