"""Training with TRL: a fleet's tasks, environments and rewards as its GRPO trainers take them."""

from .spec import Spec

__all__ = ["Spec"]
