"""What was sent last and what was received, cut to what a reader needs."""

from __future__ import annotations

_SHOWN = 400


class Evidence:
    """The last exchange with the server."""

    def __init__(self) -> None:
        self.last_sent = ""
        self.last_received = ""

    def sent(self, what: str | bytes) -> None:
        """Something was sent; nothing has come back yet."""
        self.last_sent = _shown(what)
        self.last_received = ""

    def received(self, what: str | bytes) -> None:
        """Something came back."""
        self.last_received = _shown(what)


def _shown(what: str | bytes) -> str:
    cut = what[:_SHOWN]
    text = cut.decode(errors="replace") if isinstance(cut, bytes) else cut
    return f"{text}… ({len(what):,} in all)" if len(what) > _SHOWN else text
