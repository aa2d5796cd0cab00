"""Containers on Docker Swarm, by docker's command line."""

from .engine import SwarmEngine

__all__ = ["SwarmEngine"]
