"""The file that a server process writes its output to: bounded, and shown when the process fails."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

MAX_BYTES = 8 * 1024 * 1024
KEPT_BYTES = 1024 * 1024  # how much of an overlong file moves to `<name>.1`
TAIL_LINES = 50
_TAIL_BYTES = 65536
_LINE_SHOWN = 500


class LogFile:
    """A log file. The process appends to it directly: no pipe can fill, and a pool that is busy blocks nobody."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start = path.stat().st_size if path.exists() else 0

    def open(self) -> int:
        """A descriptor for the process to append to."""
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def tail(self) -> tuple[str, ...]:
        """The last 50 lines of this process, fit for a terminal."""
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                start = self._start if self._start <= size else 0
                file.seek(max(start, size - _TAIL_BYTES))
                return last_lines(file.read().decode(errors="replace"))
        except OSError:
            return ()

    def cap(self) -> None:
        """Empty a file that has grown too long; its end is kept beside it. Lines written meanwhile may be lost."""
        with contextlib.suppress(OSError), self._path.open("r+b") as file:  # no server is worth less than its log
            if file.seek(0, os.SEEK_END) > MAX_BYTES:
                file.seek(-KEPT_BYTES, os.SEEK_END)
                end = file.read(KEPT_BYTES)
                file.truncate(0)
                self._path.with_name(f"{self._path.name}.1").write_bytes(end)


def last_lines(text: str) -> tuple[str, ...]:
    """The last 50 lines of a server's output, fit for a terminal."""
    return tuple(_printable(line[:_LINE_SHOWN]) for line in text.splitlines()[-TAIL_LINES:])


def _printable(line: str) -> str:
    return "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in line)
