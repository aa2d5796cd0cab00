"""A report on disk: one page, or where that would be too large an index and pages beside it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..disk import replace_file
from ..errors import InvalidArgument, RecordError
from ..records.sources import spare
from .budget import MIB, RULE, chosen, pages
from .collection import Collection
from .entry import Entry
from .index import Facts, Place, index
from .page import page

MAX_MB = 1000.0
_PAGES = "page-*.html"


@dataclass(frozen=True)
class Written:
    """What was written: the page to open, the pages beside it, and a sentence on what did not fit, or none."""

    path: Path
    pages: tuple[Path, ...]
    left_out: str


def write(
    collection: Collection,
    out: str | os.PathLike[str],
    facts: Facts,
    *,
    max_mb: float = MAX_MB,
    notes_url: str | None = None,
) -> Written:
    """Write the report to the file `out`, which it replaces, and to a folder beside it where one page cannot hold it.

    Records beyond `max_mb` (MiB of compressed text) are listed without their steps. `notes_url`, relative to `out`, is
    where the pages send notes. RecordError where `out` cannot be written.
    """
    path = Path(out)
    if path.is_dir():
        raise RecordError(f"{path} is a folder; name a file, such as {path / 'report.html'}")
    spare(collection.report.files, path)
    if not max_mb > 0:
        raise InvalidArgument(f"a report of {max_mb:g} MB holds nothing; give --max-mb more")
    kept = chosen(collection.entries, int(max_mb * MIB))
    left_out = _left_out(len(collection.entries) - len(kept), max_mb)
    book = _Book(collection, replace(facts, left_out=left_out), kept, notes_url)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = book.write_pages(path) if len(book.pages) > 1 else []
        replace_file(path, book.cover(beside), durable=False)
    except OSError as error:
        raise RecordError(f"the report {path} was not written: {error.strerror or error}; name another file") from error
    return Written(path, tuple(beside), left_out)


class _Book:
    """The pages of a report; each lists its own episodes, the cover all of them."""

    def __init__(self, collection: Collection, facts: Facts, kept: set[str], notes_url: str | None) -> None:
        self.pages = pages(collection.entries, kept)
        self._collection = collection
        self._facts = facts
        self._kept = kept
        self._notes_url = notes_url

    def cover(self, beside: list[Path]) -> Iterator[bytes]:
        """The only page, or one that links to the pages beside it."""
        if not beside:
            return self._page(self._collection.entries, home=None, notes_url=self._notes_url)
        holders = {entry.episode_id: number for number, group in enumerate(self.pages) for entry in group}
        listed = self._index(
            self._collection.entries,
            lambda entry: (holders[entry.episode_id], None),
            pages=[quote(f"{name.parent.name}/{name.name}") for name in beside],
            home=None,
            notes_url=self._notes_url,
        )
        return page(listed, [], connect=self._notes_url is not None)

    def write_pages(self, cover: Path) -> list[Path]:
        """Write the pages into a folder beside the cover, in place of those of an earlier report."""
        folder = cover.with_name(f"{cover.stem}-pages")
        strangers = {entry.name for entry in folder.glob("*")} - {entry.name for entry in folder.glob(_PAGES)}
        if strangers or folder.is_file():
            stranger = min(strangers, default="it is a file")
            raise RecordError(f"{folder} is not the folder of an earlier report's pages ({stranger}); move it away")
        made = cover.with_name(f".{folder.name}.{os.getpid()}")
        made.mkdir()
        try:
            for number, group in enumerate(self.pages):
                url = self._notes_url and f"../{self._notes_url}"
                pieces = self._page(group, home=f"../{quote(cover.name)}", notes_url=url)
                _write(made / _PAGES.replace("*", f"{number + 1:04}"), pieces)
            shutil.rmtree(folder, ignore_errors=True)
            made.replace(folder)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
        return sorted(folder.glob(_PAGES))

    def _page(self, entries: list[Entry], *, home: str | None, notes_url: str | None) -> Iterator[bytes]:
        whole = [entry for entry in entries if entry.episode_id in self._kept]
        numbers = {entry.episode_id: number for number, entry in enumerate(whole)}
        listed = self._index(
            entries,
            lambda entry: (None, numbers.get(entry.episode_id)),
            pages=[],
            home=home,
            notes_url=notes_url,
        )
        return page(listed, map(self._collection.compressed, whole), connect=notes_url is not None)

    def _index(self, entries: list[Entry], place: Place, **more: Any) -> dict[str, Any]:
        collection = self._collection
        return index(self._facts, entries, collection.tasks, place=place, clean=collection.redaction.text, **more)


def _left_out(count: int, max_mb: float) -> str:
    if not count:
        return ""
    return f"{count:,} episodes are listed without their steps, to keep within {max_mb:g} MB; {RULE}."


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    with path.open("wb") as file:
        file.writelines(pieces)
