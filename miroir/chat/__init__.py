"""OpenAI-compatible chat: one client, its answers brought to one shape, and the form that records keep."""

from .client import ChatClient

__all__ = ["ChatClient"]
