"""Files that outlive a crash: replaced or appended to in one step, and folders that remember them."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path


def replace_file(path: str | os.PathLike[str], pieces: Iterable[bytes], *, durable: bool = True) -> None:
    """Write the pieces beside `path`, then put them in its place; until then and on any error the old file stays whole.

    A symbolic link stays one, and what it names is replaced; a device or a pipe is written to. `durable` waits for the
    disk. Raises OSError.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            file.writelines(pieces)
        return
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        with temporary.open("xb") as file:
            file.writelines(pieces)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    if durable:
        sync_folder(target.parent)


def missing_newline(descriptor: int) -> bytes:
    """The newline that a file's last line lacks; empty where it lacks none."""
    size = os.fstat(descriptor).st_size
    return b"\n" if size and os.pread(descriptor, 1, size - 1) != b"\n" else b""


def append(
    path: str | os.PathLike[str],
    data: bytes,
    *,
    begin: Callable[[int], bytes] = missing_newline,
    durable: bool = False,
) -> None:
    """Append the data in one write, or nothing; the file is created if need be. Raises OSError.

    `begin` mends the end of the open file where that is needed, and gives what comes before the data. A lock keeps one
    process, also on a machine of the same name, from taking what another is about to end for what a dead one left.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        with contextlib.suppress(OSError):  # a filesystem without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        data = begin(descriptor) + data
        end = os.fstat(descriptor).st_size
        try:
            _write(descriptor, data)
            if durable:
                os.fsync(descriptor)
                if end == 0:
                    sync_folder(Path(path).parent)
        except BaseException:
            os.ftruncate(descriptor, end)  # half a line would be read as a damaged one
            raise
    finally:
        os.close(descriptor)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        count = os.write(descriptor, view)
        if not count:
            raise OSError(errno.EIO, "it takes no more bytes")
        view = view[count:]


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the folder's entries."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
