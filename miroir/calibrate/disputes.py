"""Records whose grade a reviewer holds to be wrong: they say nothing of their task."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from ..notes import read_notes, record_sha256, verdicts


class Disputes:
    """The wrongly graded records by a notes file; none without one. `count` is how many were met."""

    def __init__(self, notes: str | os.PathLike[str] | None) -> None:
        said = {} if notes is None else verdicts(read_notes(notes))
        self._wrong = {reviewed for reviewed, right in said.items() if not right}
        self._episodes = {episode_id for episode_id, _ in self._wrong}
        self.count = 0

    def __bool__(self) -> bool:
        return bool(self._wrong)

    def others(self, records: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
        """The records that are not among them."""
        return filter(self._trusts, records) if self else records

    def _trusts(self, record: Mapping[str, Any]) -> bool:
        episode_id = record.get("episode_id")
        wrong = (
            isinstance(episode_id, str)
            and episode_id in self._episodes
            and (episode_id, record_sha256(record)) in self._wrong
        )
        self.count += wrong
        return not wrong
