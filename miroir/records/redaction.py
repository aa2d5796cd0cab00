"""Regular expressions whose matches are taken out of texts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..errors import InvalidArgument

REDACTED = "[redacted]"


class Patterns:
    """Replaces what matches one of the patterns; `count` says how often that was.

    InvalidArgument for a pattern that does not compile, or that matches between any two characters.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self.count = 0
        self._patterns = [_compiled(pattern) for pattern in patterns]

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def text(self, text: str) -> str:
        """The text without what matches."""
        for pattern in self._patterns:
            text, found = pattern.subn(REDACTED, text)
            self.count += found
        return text


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise InvalidArgument(f"the pattern {pattern!r} is no regular expression ({error}); correct it") from error
    if compiled.search(""):
        raise InvalidArgument(f"the pattern {pattern!r} matches nothing at all; write one that needs a character")
    return compiled
