"""Where rows go: JSON lines, CSV, Parquet or a folder of files, each whole or not there at all."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

from ..errors import InvalidArgument, RecordError
from .formats import Format, Kind

ROWS = ".jsonl"
PARQUET = ".parquet"
TABLE = ".csv"

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
_LONGEST = 200  # characters of a file's name
_HALVES = "backslashreplace"  # a lone surrogate, as JSON escapes it


class Sink(Protocol):
    """Takes the rows of one episode after the other."""

    def write(self, name: str, rows: Sequence[bytes]) -> None:
        """Take the rows of the episode of this name, each as JSON."""

    def close(self) -> None:
        """Take no more."""


class JsonLines:
    """A row a line."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("xb")

    def write(self, name: str, rows: Sequence[bytes]) -> None:  # noqa: ARG002
        """Write each row as a line."""
        self._file.writelines(row + b"\n" for row in rows)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Table:
    """CSV with a header."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._file = path.open("x", encoding="utf-8", errors=_HALVES, newline="")
        self._csv = csv.DictWriter(self._file, columns, lineterminator="\n")
        self._csv.writeheader()

    def write(self, name: str, rows: Sequence[bytes]) -> None:  # noqa: ARG002
        """Write each row as a line of values."""
        self._csv.writerows(json.loads(row) for row in rows)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Folder:
    """A file for each episode, its rows as lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._namesakes: Counter[str] = Counter()
        path.mkdir()

    def write(self, name: str, rows: Sequence[bytes]) -> None:
        """Write the episode's file; episodes that would share a name are numbered."""
        stem = free = _UNSAFE.sub("_", name)[:_LONGEST]
        while (self._path / f"{free}{ROWS}").exists():
            self._namesakes[stem] += 1
            free = f"{stem}-{self._namesakes[stem] + 1}"
        with (self._path / f"{free}{ROWS}").open("xb") as file:
            file.writelines(row + b"\n" for row in rows)

    def close(self) -> None:
        """Nothing is open."""


class Files:
    """The files of one output: written beside their places, and put there together at the end."""

    def __init__(self, *, force: bool) -> None:
        self._force = force
        self._reserved: list[Path] = []
        self._waiting: dict[Path, Path] = {}  # the temporary file of each place

    def reserve(self, places: Sequence[Path]) -> None:
        """InvalidArgument where something is in the way.

        What is there goes when the files are published, also where nothing new comes: rows of an earlier split must
        not stand beside those of another.
        """
        self._reserved = list(places)
        for place in places:
            if not place.exists():
                continue
            if not self._force:
                raise InvalidArgument(f"{place} exists; name another file, or replace it with --force")
            if place.is_dir() and any(not file.name.endswith(ROWS) for file in place.iterdir()):
                raise InvalidArgument(f"{place} is a folder that holds other files; name a new one")

    @contextmanager
    def published(self) -> Iterator[None]:
        """Put the files in their places where the body succeeds, and leave nothing where it fails."""
        try:
            yield
            self.reserve(self._reserved)  # another process may have written there meanwhile
            for place in self._reserved:
                if place.is_dir() or place not in self._waiting:
                    _remove(place)
            for place, temporary in self._waiting.items():
                temporary.replace(place)
        except OSError as error:
            raise RecordError(f"the output was not written: {error}; free or name another disk") from error
        finally:
            for temporary in self._waiting.values():
                _remove(temporary)

    def temporary(self, place: Path) -> Path:
        """Where to write the file that is to be at `place`."""
        place.parent.mkdir(parents=True, exist_ok=True)
        self._waiting[place] = place.with_name(f".{place.name}.{os.getpid()}.{threading.get_ident()}")
        return self._waiting[place]

    def text(self, place: Path, text: str) -> None:
        """Write a file of text."""
        self.temporary(place).write_text(text, encoding="utf-8", errors=_HALVES)

    def sink(self, place: Path, format_: Format) -> Sink:
        """Where rows go that are to be at `place`."""
        return _sink(place, self.temporary(place), format_)


def check_place(place: Path, format_: Format) -> None:
    """InvalidArgument where the file's name says another kind of file than the format has."""
    suffix = place.suffix
    if format_.file_each:
        if suffix in (ROWS, PARQUET, TABLE):
            raise InvalidArgument(f"{format_.name} writes a folder of files, not {place}; name a folder")
    elif suffix == TABLE and format_.kind is not Kind.TABLE:
        raise InvalidArgument(f"rows of {format_.name} do not fit into CSV; name a {ROWS} or {PARQUET} file")
    elif suffix == PARQUET:
        from .parquet import require

        require()


def siblings(place: Path) -> Mapping[str, Path]:
    """The files that stand beside the rows: validation rows, manifest and card."""
    stem, suffix = (place.stem, place.suffix) if place.suffix in (ROWS, PARQUET, TABLE) else (place.name, "")
    return {
        "validation": place.with_name(f"{stem}.validation{suffix}"),
        "manifest": place.with_name(f"{stem}.manifest.json"),
        "card": place.with_name(f"{stem}.card.md"),
    }


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sink(place: Path, path: Path, format_: Format) -> Sink:
    if format_.file_each:
        return Folder(path)
    if place.suffix == PARQUET:
        from .parquet import Parquet

        return Parquet(path, format_)
    table = format_.kind is Kind.TABLE and place.suffix != ROWS
    return Table(path, list(format_.columns)) if table else JsonLines(path)
