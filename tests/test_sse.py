"""Server-sent events, however the bytes are cut."""

from __future__ import annotations

import pytest

from miroir.sse import Event, events

STREAM = (
    '\ufeff: a comment\r\n\r\nevent: chunk\r\ndata: {"a":\r\ndata:1}\r\nid: 7\r\n\r\ndata\n\nevent: none\n\ndata: é\r\r'
).encode()
EXPECTED = [Event("chunk", '{"a":\n1}'), Event("message", ""), Event("message", "é")]


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_pieces_of_any_size_give_the_same_events(size: int) -> None:
    """Line ends, characters and fields may be cut anywhere; comments, ids and events without data say nothing."""
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert list(events(pieces)) == EXPECTED


def test_an_event_that_the_end_cuts_off_is_told() -> None:
    """Some servers end their last event without the blank line."""
    assert list(events([b"data: [DONE]"])) == [Event("message", "[DONE]")]


def test_an_event_is_told_before_the_next_piece_is_read() -> None:
    """A stream is followed as it comes, not collected."""

    def pieces():  # type: ignore[no-untyped-def]
        yield b"data: 1\n\n"
        raise AssertionError("read too far")

    assert next(events(pieces())) == Event("message", "1")


def test_an_empty_stream_has_no_events() -> None:
    """No bytes, no events."""
    assert list(events([])) == []
