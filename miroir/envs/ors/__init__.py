"""The gateway `ors`: an Open Reward Standard server as an environment of ours."""

from .environment import Ors

__all__ = ["Ors"]
