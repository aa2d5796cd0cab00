"""The episodes of trace files, ready to be read: a list in memory, and each whole record compressed on disk."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Any

from ..errors import InvalidArgument, RecordError
from ..records import Report, load
from ..records.canonical import canonical
from ..records.sources import Traces
from .entry import Entry, TaskInfo, entry_of, task_info
from .redaction import Redaction
from .spool import Spool

NEEDED = ("task_id", "reward", "metadata.success")
_DIGITS = re.compile(r"(\d{1,9})")


class Collection:
    """The episodes of `traces`, sorted by task, trial and attempt, with what was counted on the way in `report`.

    A context manager; RecordError where there are none.
    """

    def __init__(self, traces: Traces, *, redact: Sequence[str] = (), skip_bad: bool = False) -> None:
        self.report = Report()
        self.redaction = Redaction(redact)
        self.entries: list[Entry] = []
        self.tasks: dict[str, TaskInfo] = {}
        self._spool = Spool()
        try:
            self._read(traces, skip_bad=skip_bad)
            if not self.entries:
                raise RecordError(f"there is no episode to review ({self.report}); name trace files that hold records")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Collection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the disk space back."""
        self._spool.close()

    def by_task(self) -> Iterator[tuple[TaskInfo, list[Entry]]]:
        """Each task with its rollouts."""
        for task_id, entries in groupby(self.entries, key=attrgetter("task_id")):
            yield self.tasks[task_id], list(entries)

    def compressed(self, entry: Entry) -> bytes:
        """The record's JSON, in gzip's format."""
        return self._spool.compressed(entry.place)

    def record(self, entry: Entry) -> dict[str, Any]:
        """The whole record, without what was redacted."""
        record: dict[str, Any] = json.loads(self._spool.text(entry.place).decode(errors="surrogatepass"))
        return record

    def find(self, name: str) -> Entry:
        """The episode whose id is `name` or the only one whose id begins so; InvalidArgument where that is not one."""
        found = [entry for entry in self.entries if entry.episode_id.startswith(name)]
        exact = [entry for entry in found if entry.episode_id == name] or found
        if len(exact) == 1 and name:
            return exact[0]
        what = f"{len(exact)} episodes begin with {name!r}" if exact else f"no episode begins with {name!r}"
        raise InvalidArgument(f"{what}; give an episode id, as --failures and --json list them, or its beginning")

    @cached_property
    def id_width(self) -> int:
        """How many characters of their ids tell all episodes apart, at least eight."""
        ids = {entry.episode_id for entry in self.entries}
        longest = max(map(len, ids))
        return next(
            (width for width in range(8, longest) if len({one[:width] for one in ids}) == len(ids)), max(8, longest)
        )

    def keep(self, entries: Sequence[Entry]) -> None:
        """Leave only these episodes in the list."""
        kept = {entry.episode_id for entry in entries}
        self.entries = [entry for entry in self.entries if entry.episode_id in kept]

    def _read(self, traces: Traces, *, skip_bad: bool) -> None:
        for record in load(traces, require=NEEDED, skip_bad=skip_bad, report=self.report):
            try:
                whole = canonical(record)
            except RecursionError:
                self._too_deep(record, skip_bad=skip_bad)
                continue
            shown = canonical(self.redaction.value(record)) if self.redaction else whole
            entry = entry_of(record, hashlib.sha256(whole).hexdigest(), self._spool.add(shown))
            self.entries.append(entry)
            self.tasks.setdefault(entry.task_id, task_info(record))
        self._spool.finish()
        sized = (replace(entry, length=self._spool.size(entry.place)) for entry in self.entries)
        self.entries = sorted(sized, key=_order)

    def _too_deep(self, record: dict[str, Any], *, skip_bad: bool) -> None:
        reason = f"the record of episode {record.get('episode_id')} is nested too deeply"
        if not skip_bad:
            raise RecordError(f"{reason}; remove it, or skip bad lines (--skip-bad)")
        self.report.bad += 1
        self.report.bad_lines.append(reason)


def _order(entry: Entry) -> tuple[Any, ...]:
    """Tasks by name, with the numbers in it as numbers, their rollouts by trial."""
    parts = [(part.isdecimal(), int(part) if part.isdecimal() else part) for part in _DIGITS.split(entry.task_id)]
    return parts, entry.task_id, entry.trial, entry.attempt, entry.started_at, entry.episode_id
