"""Secrets taken out of records before anything of them is shown."""

from __future__ import annotations

from typing import Any

from ..records.redaction import Patterns


class Redaction(Patterns):
    """Replaces what matches one of the patterns in every text and key of a record."""

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
