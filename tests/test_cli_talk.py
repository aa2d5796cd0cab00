"""Lines on stderr for which nobody waits."""

from __future__ import annotations

import os
import sys
import time

import pytest

from miroir.cli import talk


def test_every_line_is_said_in_its_order(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever was said in the block is there after it."""
    with talk.talking() as say:
        for number in range(100):
            say(f"line {number}")
    assert capsys.readouterr().err.splitlines() == [f"line {number}" for number in range(100)]


@pytest.mark.parametrize("gone", [True, False])
def test_a_reader_that_is_gone_or_reads_nothing_stops_nobody(gone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a pipe holds is said at once, and the end waits no longer than for the last words."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(talk, "LAST_WORDS_S", 0.1)
        if gone:
            os.close(reader)
        began = time.monotonic()
        with talk.talking() as say:
            for _ in range(100):
                say("x" * 10_000)
        assert time.monotonic() - began < 10
    if not gone:
        os.close(reader)  # who writes still is told so, and ends
