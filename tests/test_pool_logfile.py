"""The output of a server process."""

from __future__ import annotations

import os
from pathlib import Path

from miroir.pool.logfile import KEPT_BYTES, MAX_BYTES, LogFile


def written(log: LogFile, text: bytes) -> None:
    """Append as a process does."""
    descriptor = log.open()
    os.write(descriptor, text)
    os.close(descriptor)


def test_the_tail_is_the_last_fifty_lines_of_this_life(tmp_path: Path) -> None:
    """What an earlier process wrote to the same file is not this one's."""
    written(LogFile(tmp_path / "a.log"), b"earlier\n")
    log = LogFile(tmp_path / "a.log")
    assert log.tail() == ()
    written(log, b"one\ntwo")
    assert log.tail() == ("one", "two")
    written(log, b"".join(b"\nline %d" % number for number in range(60)))
    assert log.tail() == tuple(f"line {number}" for number in range(10, 60))


def test_the_tail_is_fit_for_a_terminal(tmp_path: Path) -> None:
    """Control characters, bytes that are no text, and endless lines do no harm."""
    log = LogFile(tmp_path / "a.log")
    written(log, b"\x1b[31mred\xff\t.\n" + b"x" * 100_000)
    shown = log.tail()
    assert all(len(line) <= 500 and "\x1b" not in line for line in shown)
    (tmp_path / "a.log").unlink()
    assert log.tail() == ()


def test_a_log_that_grows_too_long_is_emptied(tmp_path: Path) -> None:
    """The process writes on; the end of what was there is kept beside it."""
    log = LogFile(tmp_path / "a.log")
    descriptor = log.open()
    os.write(descriptor, b"early\n" + b"x" * MAX_BYTES + b"late\n")
    log.cap()
    os.write(descriptor, b"after\n")
    log.cap()
    os.close(descriptor)
    assert (tmp_path / "a.log").read_bytes() == b"after\n"
    assert log.tail() == ("after",)
    kept = (tmp_path / "a.log.1").read_bytes()
    assert len(kept) == KEPT_BYTES
    assert kept.endswith(b"late\n")


def test_a_log_that_someone_removed_is_no_fault(tmp_path: Path) -> None:
    """A server is not taken down for its log."""
    log = LogFile(tmp_path / "a.log")
    log.cap()
    assert log.tail() == ()
