"""The URL file of a running pool: claimed before anything starts, true while it runs, gone at the end."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import UrlFileError
from ..urls import HEADER, write_urls
from .owner import Owner, described

_MAX_RECORD = 65536


class UrlFile:
    """A URL file that one pool owns, by a record in the lock file beside it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(os.path.realpath(path))
        self._lock = self._path.with_name(f"{self._path.name}.lock")
        self._claim = ""  # the record of it, as it was written
        self._written: tuple[int, ...] | None = None

    def claim(self) -> None:
        """Become the file's owner and remove what a dead pool left in it; UrlFileError when it is another's."""
        try:
            self._refuse_if_foreign()
            with self._locked() as lock:
                self._refuse_if_owned(_record(lock))
                self._claim = Owner.me().dump()
                os.ftruncate(lock, 0)
                os.pwrite(lock, self._claim.encode(), 0)
                self._path.unlink(missing_ok=True)
        except OSError as error:
            self.release()
            raise UrlFileError(
                f"{self._path} cannot be claimed: {error.strerror}; name a file in a writable folder"
            ) from error

    def write(self, urls: Sequence[str]) -> None:
        """Replace the file's URLs; UrlFileError when it cannot be written."""
        write_urls(self._path, urls)
        self._written = self._identity()

    def remove(self) -> None:
        """Remove the file, unless someone else has written it meanwhile."""
        if self._written is not None and self._written == self._identity():
            with contextlib.suppress(OSError):
                self._path.unlink()

    def release(self) -> None:
        """Give up the claim, unless somebody removed the lock and another pool has it now."""
        claim, self._claim = self._claim, ""
        if claim:
            with contextlib.suppress(OSError), self._locked() as lock:
                if _record(lock) in ("", claim):
                    self._lock.unlink()

    def _identity(self) -> tuple[int, ...] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

    def _refuse_if_owned(self, record: str) -> None:
        owner = Owner.parse(record)
        if not record or (owner is not None and owner.is_dead()):
            return
        raise UrlFileError(
            f"{self._path} belongs to the pool of {described(owner)}; stop that pool, name another file,"
            f" or remove {self._lock} if the pool has ended"
        )

    def _refuse_if_foreign(self) -> None:
        if not self._path.exists():
            return
        if not self._path.is_file():
            raise UrlFileError(f"{self._path} is not a file; name a file to be written")
        with self._path.open("rb") as file:
            start = file.read(len(HEADER))
        if start not in {b"", HEADER.encode()}:
            raise UrlFileError(f"{self._path} exists and no pool wrote it; name another file, or remove it")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """The lock file, held for a moment by one of all the processes that want to read or change its record."""
        while True:
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if self._is_lock(descriptor):
                    yield descriptor
                    return
            finally:
                os.close(descriptor)

    def _is_lock(self, descriptor: int) -> bool:
        """Whether the lock file is still the one that was opened, and not removed while we waited."""
        try:
            return os.path.samestat(os.fstat(descriptor), self._lock.stat())
        except FileNotFoundError:
            return False


def _record(lock: int) -> str:
    """Who claimed the file, as its owner dumped itself; "" where nobody did."""
    return os.pread(lock, _MAX_RECORD, 0).decode(errors="replace")
