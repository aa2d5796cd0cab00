"""A gateway to AppWorld: one lease of ours is one task of an AppWorld server behind it."""

from .environment import AppWorld

__all__ = ["AppWorld"]
