"""JSON over HTTP, in the coding of the wire."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse

from ..wire import encode


class JSONReply(JSONResponse):
    """A response that holds any JSON, half of a surrogate pair too: an author's text may have been cut there."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return encode(content).encode()
