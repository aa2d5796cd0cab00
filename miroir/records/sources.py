"""Where records are read from: files, folders, patterns and standard input; plain, gzip or Zstandard."""

from __future__ import annotations

import glob
import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from ..errors import InvalidArgument, MissingExtra, RecordError

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")
STDIN = "-"
MAX_LINE = 256 * 1024 * 1024  # bytes
_BUFFER = 1 << 20
_SHOWN = 200  # characters of a name that may be none
_HALF_A_MAGIC_NUMBER = f"Not a gzipped file ({bytes([0x1F])!r})"
_ZSTD_BLOCK = 1 << 13  # small, because one call decompresses all of it


class Damaged(Exception):
    """Compressed data that cannot be read any further."""


@dataclass(frozen=True)
class Source:
    """One file of records as it was when it was found: what is appended later is not read.

    `size` is in bytes, None for a pipe.
    """

    name: str
    size: int | None

    @property
    def plain(self) -> bool:
        """Whether it is a file that is not compressed."""
        return self.size is not None and not self.name.endswith((".gz", ".zst"))

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Each line with its newline, after its offset; of a line beyond MAX_LINE only the first MAX_LINE + 1 bytes.

        EOFError where compressed data ends early, Damaged where it cannot be read on, RecordError where none can be.
        """
        try:
            with self._opened() as file:
                yield from self._lines(file)
        except (zlib.error, gzip.BadGzipFile) as error:
            if str(error) == _HALF_A_MAGIC_NUMBER:
                raise EOFError(str(error)) from error
            raise Damaged(f"damaged gzip data ({error})") from error
        except OSError as error:
            raise RecordError(f"{self.name} cannot be read: {error.strerror or error}; name a readable file") from error

    def line(self, number: int, offset: int, length: int) -> bytes | None:
        """A line that `lines` gave, read again; None of a pipe."""
        if self.size is None:
            return None
        if not self.plain:
            return next(islice(self.lines(), number - 1, None))[1]
        with Path(self.name).open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def _lines(self, file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
        offset = 0
        end = self.size if self.plain and self.size is not None else sys.maxsize
        while line := file.readline(min(MAX_LINE + 1, end - offset)):
            yield offset, line
            offset += len(line)
            while len(line) > MAX_LINE and not line.endswith(b"\n"):  # the rest of a line that is too long
                line = file.readline(min(MAX_LINE + 1, end - offset))
                offset += len(line)

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        if self.name == STDIN:
            yield sys.stdin.buffer
            return
        with Path(self.name).open("rb", buffering=_BUFFER) as file:
            if self.name.endswith(".gz"):
                with gzip.GzipFile(fileobj=file) as unzipped:  # a buffer on it would lose the records of a cut end
                    yield cast("IO[bytes]", unzipped)
            elif self.name.endswith(".zst"):
                with io.BufferedReader(_Zstandard(file, self.name), _BUFFER) as buffered:
                    yield buffered
            else:
                yield file


Traces = str | os.PathLike[str] | Iterable[str | os.PathLike[str] | Source]


class _Zstandard(io.RawIOBase):
    """Zstandard frames decompressed; EOFError where the last one is cut, which zstandard's own reader passes over."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        try:
            import zstandard
        except ImportError as error:
            raise MissingExtra(f"{name} needs zstandard; install it with: pip install 'miroir[zstd]'") from error
        self._module: Any = zstandard
        self._file = file
        self._frame: Any = None
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            block = self._file.read(_ZSTD_BLOCK)
            if not block:
                if self._frame is not None:
                    raise EOFError("the last Zstandard frame is cut")
                return 0
            self._ready = self._decompress(block)
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count

    def _decompress(self, block: bytes) -> bytes:
        pieces = []
        while block:
            self._frame = self._frame or self._module.ZstdDecompressor().decompressobj()
            try:
                pieces.append(self._frame.decompress(block))
            except self._module.ZstdError as error:
                raise Damaged(f"damaged Zstandard data ({error})") from error
            block = self._frame.unused_data
            if self._frame.eof:
                self._frame = None
        return b"".join(pieces)


def sources(traces: Traces, suffixes: tuple[str, ...] = SUFFIXES) -> list[Source]:
    """The files that `traces` names, each once, a folder's and a pattern's in order of name; RecordError for none such.

    A folder stands for the files below it whose names end in one of the suffixes.
    """
    named = [traces] if isinstance(traces, str | os.PathLike) else traces
    found = (source for name in named for source in _found(name, suffixes))
    once: dict[str, Source] = {}
    for source in found:
        once.setdefault(source.name if source.name == STDIN else os.path.realpath(source.name), source)
    return list(once.values())


def spare(names: Iterable[str], out: str | os.PathLike[str]) -> None:
    """InvalidArgument where `out`, which is to be replaced, is one of these trace files or a folder that holds one."""
    real = Path(os.path.realpath(out))
    for name in names:
        file = Path(os.path.realpath(name))
        if name != STDIN and real in (file, *file.parents):
            raise InvalidArgument(f"{out} is or holds the trace file {name}, which would be lost; name another output")


def _found(name: str | os.PathLike[str] | Source, suffixes: tuple[str, ...]) -> list[Source]:
    return [name] if isinstance(name, Source) else [_source(path) for path in _expand(os.fspath(name), suffixes)]


def _expand(name: str, suffixes: tuple[str, ...]) -> list[str]:
    try:
        if Path(name).is_dir():
            return sorted(_below(Path(name), suffixes))
        if name == STDIN or Path(name).exists():
            return [name]
    except OSError as error:  # a folder that may not be entered, or a name that is none
        where = (error.filename or name)[:_SHOWN]
        raise RecordError(f"{where} cannot be read: {error.strerror}; name a readable file") from error
    matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - a Path takes no absolute pattern
    if not matches:
        raise RecordError(f"{name} does not exist, and as a pattern it matches nothing; name trace files or a folder")
    return [path for match in matches for path in _expand(match, suffixes)]


def _below(folder: Path, suffixes: tuple[str, ...]) -> Iterator[str]:
    entered = set()
    for parent, below, files in os.walk(folder, followlinks=True, onerror=_unread):
        if os.path.realpath(parent) in entered:  # a link back up
            below.clear()
            continue
        entered.add(os.path.realpath(parent))
        yield from (str(Path(parent) / file) for file in files if file.endswith(suffixes))


def _unread(error: OSError) -> None:
    raise error  # os.walk would pass over the records of a folder that it cannot read


def _source(name: str) -> Source:
    if name == STDIN:
        return Source(name, None)
    try:
        status = Path(name).stat()
    except OSError as error:
        raise RecordError(f"{name} cannot be read: {error.strerror}; name a readable file") from error
    return Source(name, status.st_size if stat.S_ISREG(status.st_mode) else None)
