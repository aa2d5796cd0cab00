"""Compressed records in a temporary file, written by a process of its own where there are many."""

from __future__ import annotations

import gzip
import os
import subprocess
from pathlib import Path

import pytest

from miroir.errors import RecordError
from miroir.review import spool as module
from miroir.review.spool import ALONE, Spool


@pytest.mark.parametrize("count", [0, 1, ALONE, ALONE + 1, 3 * ALONE])
def test_texts_come_back_by_their_numbers(count: int) -> None:
    """Few or many, empty or large, in any order."""
    texts = [b"" if at % 7 == 0 else os.urandom(3) * (at * 100) for at in range(count)]
    spool = Spool()
    try:
        assert [spool.add(text) for text in texts] == list(range(count))
        spool.finish()
        for number in reversed(range(count)):
            assert spool.text(number) == texts[number]
            assert gzip.decompress(spool.compressed(number)) == texts[number]
            assert len(spool.compressed(number)) == spool.size(number)
    finally:
        spool.close()


def test_a_spool_that_is_given_up_leaves_no_process() -> None:
    """Closed in the middle of its work."""
    spool = Spool()
    for _ in range(2 * ALONE):
        spool.add(b"x" * 10_000)
    spool.close()

    assert spool._process is not None
    assert spool._process.poll() is not None


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the compressor cannot write, the error says where and what to do."""
    started = subprocess.Popen
    full = Path("/dev/full").open("wb")  # noqa: SIM115 - closed below
    monkeypatch.setattr(module.subprocess, "Popen", lambda *a, **k: started(*a, **{**k, "stdout": full}))
    spool = Spool()
    try:
        with pytest.raises(RecordError, match=r"records cannot be kept in .*: .*; set TMPDIR to another folder"):
            for _ in range(10 * ALONE):
                spool.add(os.urandom(20_000))
            spool.finish()
    finally:
        spool.close()
        full.close()


def test_a_file_that_takes_no_more_can_be_closed() -> None:
    """What is thrown away need not be written first."""
    spool = Spool()
    spool._file.close()
    spool._file = Path("/dev/full").open("wb")  # noqa: SIM115 - closed by the spool
    spool.add(b"text")
    with pytest.raises(RecordError, match=r"records cannot be kept in .*: No space left on device; set TMPDIR"):
        spool.finish()
    spool.close()

    assert spool._file.closed


def test_no_place_for_temporary_files_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the folder for them is gone, the error says so and what to do."""
    monkeypatch.setattr(module.tempfile, "tempdir", "/nowhere")

    with pytest.raises(RecordError, match="nowhere to keep records: No such file or directory; set TMPDIR to a folder"):
        Spool()
