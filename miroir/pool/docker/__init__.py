"""Containers on Docker, by its command line."""

from .engine import DockerEngine

__all__ = ["DockerEngine"]
