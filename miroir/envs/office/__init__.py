"""The bundled world: an office with mail, chat, calendar, help desk and shared files, and tasks in it."""

from .agents import clumsy, reference
from .environment import Office

__all__ = ["Office", "clumsy", "reference"]
