"""Files replaced in one step."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from miroir.disk import append, replace_file, sync_folder


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """The new content stands where the old one stood, and nothing else is left in the folder."""
    path = tmp_path / "file"
    path.write_bytes(b"old")

    replace_file(path, [b"new", b" content"])

    assert path.read_bytes() == b"new content"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("fault", [OSError("the disk is full"), KeyboardInterrupt()])
def test_the_old_file_stays_whatever_ends_the_writing(tmp_path: Path, fault: BaseException) -> None:
    """A fault or an interrupt in mid-writing leaves the old content, and no temporary file."""
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def broken() -> Iterator[bytes]:
        yield b"half"
        raise fault

    with pytest.raises(type(fault)):
        replace_file(path, broken())

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """What a symbolic link names is replaced, not the link."""
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    link.symlink_to(real)

    replace_file(link, [b"new"], durable=False)

    assert link.is_symlink()
    assert real.read_bytes() == b"new"


def test_what_is_appended_begins_a_line(tmp_path: Path) -> None:
    """The file is created; a last line that nobody ended is ended first."""
    path = tmp_path / "file"
    append(path, b"one\n")
    append(path, b"two")
    append(path, b"three\n", durable=True)

    assert path.read_bytes() == b"one\ntwo\nthree\n"


def test_a_refused_end_leaves_the_file_as_it_was_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `begin` cut off is gone, and nothing of the data is there."""
    path, write = tmp_path / "file", os.write
    path.write_bytes(b"whole\nhalf")

    def begin(descriptor: int) -> bytes:
        os.ftruncate(descriptor, 6)
        return b""

    def full(descriptor: int, data: bytes) -> int:
        if len(data) < 9:
            raise OSError(28, "No space left on device")
        return write(descriptor, bytes(data)[:4])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left on device"):
        append(path, b"too much\n", begin=begin)

    assert path.read_bytes() == b"whole\n"


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    """Only folders can be waited for."""
    (tmp_path / "file").touch()

    with pytest.raises(NotADirectoryError):
        sync_folder(tmp_path / "file")


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    """What is no file is not replaced by one: a device would be gone for the whole machine."""
    path, read = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()))
    reader.start()
    replace_file(path, [b"new", b" content"])
    reader.join(10)

    assert read == [b"new content"]
    assert path.is_fifo()
    assert list(tmp_path.iterdir()) == [path]
