"""Loading records: a stream of whole records, and a report of everything that was not one."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..errors import RecordError
from .parser import NotARecord, parser
from .schema import fault, needs, refuse_newer, voided
from .sources import MAX_LINE, Damaged, Source, Traces, sources

_log = logging.getLogger("miroir.records")

BAD_LINES_NAMED = 20


@dataclass
class Report:
    """What a loading met. `torn` and `bad_lines` name places as file:line."""

    files: dict[str, int] = field(default_factory=dict)  # records by file
    lines: int = 0
    records: int = 0
    blank: int = 0
    duplicates: int = 0
    voided: int = 0  # rewards that were NaN or infinite
    torn: list[str] = field(default_factory=list)
    bad: int = 0
    bad_lines: list[str] = field(default_factory=list)  # the first ones, each with its reason

    def __str__(self) -> str:
        """One line: what was read, and what was left out."""
        counts = (
            (self.duplicates, "duplicate", "dropped"),
            (len(self.torn), "half-written last line", "left out"),
            (self.bad, "bad line", "skipped"),
            (self.voided, "reward", "made void, being no finite number"),
        )
        noted = "".join(f"; {_some(count, what)} {fate}" for count, what, fate in counts if count)
        return f"{_some(self.records, 'record')} of {_some(len(self.files), 'file')}{noted}"


def _some(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


class _Place(NamedTuple):
    """Where a line stands; `digest` only where it cannot be read again."""

    source: Source
    number: int
    offset: int
    length: int
    digest: int | None

    def __str__(self) -> str:
        return f"{self.source.name}:{self.number}"


def load(
    traces: Traces,
    *,
    require: Sequence[str] = (),
    skip_bad: bool = False,
    exact: bool = True,
    report: Report | None = None,
) -> Iterator[dict[str, Any]]:
    """The records of files, folders, patterns and `-` (standard input), one by one.

    Memory holds one record, and of each episode its id and place: some 300 bytes.

    A half-written last line is left out with a warning; an equal record of the same episode is dropped. RecordError
    names the file and line of a line that is no record (`skip_bad` counts it instead) or lacks one of the dotted keys
    in `require`, of a newer schema, and of a second, different record of an episode. `report` is filled on the way.
    `exact` False reads integers beyond 64 bits as floats, where that is faster.
    """
    loading = _Loading(report or Report(), require, skip_bad=skip_bad, exact=exact)
    return loading.records(sources(traces))


class _Loading:
    def __init__(self, report: Report, require: Sequence[str], *, skip_bad: bool, exact: bool) -> None:
        self._report = report
        self._needs = needs(require)
        self._skip_bad = skip_bad
        self._parse = parser(exact=exact)
        self._episodes: dict[str, _Place] = {}  # where each was first read

    def records(self, files: Sequence[Source]) -> Iterator[dict[str, Any]]:
        for source in files:
            self._report.files[source.name] = 0
            yield from self._file(source)

    def _file(self, source: Source) -> Iterator[dict[str, Any]]:
        number = 0
        report = self._report
        try:
            for number, (offset, line) in enumerate(source.lines(), 1):
                report.lines += 1
                digest = None if source.plain else hash(line)
                record = self._record(line, _Place(source, number, offset, len(line), digest))
                if record is not None:
                    report.records += 1
                    report.files[source.name] += 1
                    yield record
                    del record  # before the next one is parsed, which then takes its memory, still in the cache
        except EOFError:
            self._torn(f"{source.name}:{number + 1}")
        except Damaged as damage:
            self._bad(f"{source.name}:{number + 1}", str(damage))

    def _record(self, line: bytes, place: _Place) -> dict[str, Any] | None:
        """The record of a line, or None where there is none to yield."""
        if line.isspace():
            self._report.blank += 1
            return None
        try:
            parsed = self._parsed(line, place)
        except RecordError:
            raise
        except ValueError as error:
            if _cut(line) and not isinstance(error, NotARecord):
                self._torn(place)
            else:
                self._bad(place, str(error))
            return None
        record = voided(parsed)
        if self._known(record, line, place):
            return None
        self._report.voided += record is not parsed
        return record

    def _parsed(self, line: bytes, place: _Place) -> dict[str, Any]:
        if len(line) > MAX_LINE:
            raise NotARecord(f"a line of more than {MAX_LINE >> 20} MiB")
        record = self._parse(line)
        refuse_newer(record, place)
        reason = fault(record, self._needs)
        if reason:
            raise NotARecord(reason)
        return record

    def _known(self, record: dict[str, Any], line: bytes, place: _Place) -> bool:
        """Whether the same record came before; RecordError where another of the same episode did."""
        episode_id = record.get("episode_id")
        if not isinstance(episode_id, str):
            return False
        first = self._episodes.setdefault(episode_id, place)
        if first is place:
            return False
        if not _equal(first, line):
            raise RecordError(
                f"{place}: episode {episode_id} has another record at {first}; keep the right one of the two"
            )
        self._report.duplicates += 1
        return True

    def _torn(self, place: object) -> None:
        _log.warning("%s: the last line is half written and left out; its process still writes it, or died", place)
        self._report.torn.append(str(place))

    def _bad(self, place: object, reason: str) -> None:
        if not self._skip_bad:
            raise RecordError(f"{place}: {reason}; repair or remove the line, or skip bad lines (--skip-bad)")
        self._report.bad += 1
        if len(self._report.bad_lines) < BAD_LINES_NAMED:
            self._report.bad_lines.append(f"{place}: {reason}")


def _cut(line: bytes) -> bool:
    """Whether a line that does not parse is a record cut short: no newline, and a record's beginning or only NULs."""
    return not line.endswith(b"\n") and line.lstrip(b"\0\xef\xbb\xbf \t")[:1] in (b"", b"{")


def _equal(first: _Place, line: bytes) -> bool:
    if first.digest == hash(line):
        return True
    earlier = first.source.line(first.number, first.offset, first.length)
    if earlier is None:
        return False
    parse = parser()
    return earlier == line or voided(parse(earlier)) == voided(parse(line))
