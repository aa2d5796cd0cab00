"""Compressed records in a temporary file that has no name, so that it goes with the process however that ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import tempfile
import zlib
from typing import IO

from ..errors import RecordError
from . import packer

PIPE_BYTES = 1 << 20  # on the way to the process
ALONE = 100  # records that are compressed here before a process is started for it


class Spool:
    """Texts that are added, then, after `finish`, read back by their numbers. `close` gives the disk space back.

    RecordError where there is no folder for temporary files.
    """

    def __init__(self) -> None:
        try:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        except OSError as error:
            raise RecordError(
                f"there is nowhere to keep records: {error.strerror}; set TMPDIR to a folder that can be written"
            ) from error
        self._process: subprocess.Popen[bytes] | None = None
        self._count = 0
        self._places: list[tuple[int, int]] = []  # offset and size of each

    def add(self, data: bytes) -> int:
        """Take a text; its number. RecordError where the disk refuses it."""
        try:
            self._take(data)
        except OSError as error:
            raise self._refused(error.strerror or str(error)) from error
        self._count += 1
        return self._count - 1

    def finish(self) -> None:
        """Wait until everything that was added is there."""
        try:
            if self._process is not None:
                self._pipe().close()
                if self._process.wait():
                    raise self._refused("its compressor failed")
            self._file.flush()
        except OSError as error:
            raise self._refused(error.strerror or str(error)) from error
        offset = 0
        for _ in range(self._count):
            size = int(*packer.LENGTH.unpack(os.pread(self._file.fileno(), packer.LENGTH.size, offset)))
            offset += packer.LENGTH.size
            self._places.append((offset, size))
            offset += size

    def size(self, number: int) -> int:
        """How many bytes the compressed text has."""
        return self._places[number][1]

    def compressed(self, number: int) -> bytes:
        """A text in gzip's format."""
        offset, size = self._places[number]
        return os.pread(self._file.fileno(), size, offset)

    def text(self, number: int) -> bytes:
        """A text as it was added."""
        return zlib.decompress(self.compressed(number), packer.GZIP)

    def close(self) -> None:
        """End the compressor where it still runs, and remove the file."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        with contextlib.suppress(OSError):  # what is thrown away need not be written first
            self._file.close()

    def _take(self, data: bytes) -> None:
        if self._count < ALONE:
            self._file.write(packer.packed(data))
            return
        if self._process is None:
            self._file.flush()
            command = [sys.executable, "-I", "-S", packer.__file__]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=self._file, stderr=subprocess.DEVNULL
            )
            with contextlib.suppress(
                AttributeError, OSError
            ):  # Linux alone; elsewhere the two wait more for each other
                fcntl.fcntl(self._pipe(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._pipe().write(packer.LENGTH.pack(len(data)) + data)

    def _pipe(self) -> IO[bytes]:
        assert self._process is not None
        assert self._process.stdin is not None
        return self._process.stdin

    def _refused(self, reason: str) -> RecordError:
        return RecordError(f"records cannot be kept in {tempfile.gettempdir()}: {reason}; set TMPDIR to another folder")
