"""Rows that wait on disk until it is known which of them are used, so that memory stays flat."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from ..errors import RecordError


class Span(NamedTuple):
    """Where rows lie: from `offset`, each of `lengths` bytes."""

    offset: int
    lengths: tuple[int, ...]


class Spill:
    """A file without a name in `folder`, which goes when it is closed or its process dies.

    RecordError when the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        try:
            self._file = tempfile.TemporaryFile(dir=folder, buffering=1 << 20)  # noqa: SIM115 - closed by __exit__
        except OSError as error:
            raise RecordError(
                f"nothing can be written to {folder} ({error.strerror}); name a file in a writable folder"
            ) from error
        self._end = 0

    def __enter__(self) -> Spill:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def add(self, rows: Sequence[bytes]) -> Span:
        """Keep the rows; where they lie."""
        span = Span(self._end, tuple(len(row) for row in rows))
        for row in rows:
            self._file.write(row)
        self._end += sum(span.lengths)
        return span

    def rows(self, span: Span) -> list[bytes]:
        """The rows of a span."""
        self._file.seek(span.offset)
        return [self._file.read(length) for length in span.lengths]
