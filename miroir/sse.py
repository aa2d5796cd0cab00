"""Server-sent events: the events in a stream of bytes, parsed as the HTML standard says (section 9.2.6)."""

from __future__ import annotations

import codecs
import io
import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Event(NamedTuple):
    """One event: its type (`message` where the stream names none) and its data lines, joined by newlines."""

    name: str
    data: str


def events(pieces: Iterable[bytes]) -> Iterator[Event]:
    """The events in the byte pieces, as they complete; one that the stream's end cuts off is still told."""
    name, data = "", list[str]()
    for line in itertools.chain(_lines(pieces), [""]):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
        elif not line:
            if data:
                yield Event(name or "message", "\n".join(data))
            name, data = "", []


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """The lines, each ended by CR, LF or CRLF, wherever the pieces are cut."""
    utf8 = codecs.getincrementaldecoder("utf-8-sig")("replace")
    decoder = io.IncrementalNewlineDecoder(utf8, translate=True)
    pending = ""
    for piece in pieces:
        *complete, pending = (pending + decoder.decode(piece)).split("\n")
        yield from complete
    yield from (pending + decoder.decode(b"", final=True)).split("\n")
