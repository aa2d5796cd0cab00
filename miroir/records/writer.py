"""Saving records: one line in one write, to a file that is this process's alone.

Appends of several processes to one file cannot be trusted on network filesystems (open(2), O_APPEND), so each process
has its own; within it, a lock orders the threads. Two containers can have one host name, pid and start time: a lock on
the file keeps one from taking the other's line in the making for a torn one.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..disk import append, missing_newline
from ..errors import RecordError
from ..wire import encode
from .schema import not_finite, voided

FSYNC_VARIABLE = "MIROIR_TRACES_FSYNC"
_TAIL_BLOCK = 1 << 16


class _OwnFile:
    """The name of this process's trace file, and the lock that orders what its threads append."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.name = ""

    def path(self, directory: Path) -> Path:
        """The file's path in `directory`; the first call decides the start time in its name."""
        self.name = self.name or f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{socket.gethostname()}-{os.getpid()}.jsonl"
        return directory / self.name


_own = _OwnFile()


def _renew() -> None:
    global _own
    _own = _OwnFile()  # a forked child has another pid, and its parent's lock may be held by a thread it lacks


os.register_at_fork(after_in_child=_renew)


def writable(directory: str | os.PathLike[str]) -> Path:
    """The folder, created if need be; RecordError where it can hold no records."""
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink(missing_ok=True)  # another host may have a process of this number
    except OSError as error:
        raise RecordError(
            f"{folder} cannot hold records ({error.strerror}); name a folder that can be written"
        ) from error
    return folder


def save_record(directory: str | os.PathLike[str], record: Mapping[str, Any], *, fsync: bool | None = None) -> None:
    """Append the record as one line to this process's own file in `directory`, which is created if need be.

    A reward that is NaN or infinite is written as null, with a void_reason. RecordError, with nothing written, when the
    record is no JSON or the disk refuses it. `fsync` (None: whether MIROIR_TRACES_FSYNC is 1) waits for the disk.
    """
    line = _line(record)
    wait = os.environ.get(FSYNC_VARIABLE) == "1" if fsync is None else fsync
    with _own.lock:
        path = _own.path(Path(directory))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            append(path, line, begin=_heal, durable=wait)
        except OSError as error:
            reason = error.strerror or str(error)
            raise RecordError(
                f"the record of episode {record.get('episode_id')} was not saved to {path}: {reason}; "
                "free or name another disk, then save it again"
            ) from error


def _line(record: Mapping[str, Any]) -> bytes:
    row = voided(dict(record))
    try:
        return encode(row).encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        place = not_finite(row)
        what = f"{place} is not a finite number" if place is not None else str(error)
        raise RecordError(f"a record must be JSON: {what}; nothing was saved") from error


def _heal(descriptor: int) -> bytes:
    """Cut off what a dead process of the same name left half written; the newline that a whole last line lacks."""
    newline = missing_newline(descriptor)
    if newline:
        size = os.fstat(descriptor).st_size
        start = _last_line(descriptor, size)
        try:
            json.loads(os.pread(descriptor, size - start, start))
        except (ValueError, RecursionError):
            os.ftruncate(descriptor, start)
            return b""
    return newline


def _last_line(descriptor: int, size: int) -> int:
    """Where the last line of the first `size` bytes begins."""
    end = size
    while end > 0:
        start = max(0, end - _TAIL_BLOCK)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
