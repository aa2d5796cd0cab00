"""Secrets taken out of records before anything of them is shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..errors import InvalidArgument

MARK = "[redacted]"


class Redaction:
    """What matches one of the patterns is replaced in every text and key; `count` says how often that was."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.count = 0
        self._patterns = [_compiled(pattern) for pattern in patterns]

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def text(self, text: str) -> str:
        """The text without what matches."""
        for pattern in self._patterns:
            text, found = pattern.subn(MARK, text)
            self.count += found
        return text

    def value(self, value: dict[str, Any]) -> dict[str, Any]:
        """A JSON object, changed in place; without recursion, since records may be nested deeply."""
        left: list[Any] = [value]
        while left:
            container = left.pop()
            if isinstance(container, dict):
                self._keys(container)
            for place, item in list(container.items() if isinstance(container, dict) else enumerate(container)):
                if isinstance(item, str):
                    container[place] = self.text(item)
                elif isinstance(item, dict | list):
                    left.append(item)
        return value

    def _keys(self, container: dict[str, Any]) -> None:
        named = [(self.text(key), item) for key, item in container.items()]
        container.clear()
        container.update(named)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise InvalidArgument(f"the pattern {pattern!r} is no regular expression ({error}); correct it") from error
    if compiled.search(""):
        raise InvalidArgument(f"the pattern {pattern!r} matches nothing at all; write one that needs a character")
    return compiled
