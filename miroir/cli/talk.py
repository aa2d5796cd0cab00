"""Lines on stderr for which nobody waits: a terminal that stands still (Ctrl-S), or an unread pipe, stops no work."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import TextIO

LAST_WORDS_S = 1.0


@contextlib.contextmanager
def talking() -> Iterator[Callable[[str], None]]:
    """What says a line and returns at once, from any thread; what is unsaid at the block's end has a second left."""
    lines: SimpleQueue[str | None] = SimpleQueue()
    writer = threading.Thread(target=_write, args=(lines,), name="miroir-talk", daemon=True)
    writer.start()
    try:
        yield lines.put
    finally:
        lines.put(None)
        writer.join(LAST_WORDS_S)


def _write(lines: SimpleQueue[str | None]) -> None:
    with contextlib.suppress(OSError), _own(sys.stderr) as stream:
        while (line := lines.get()) is not None:
            with contextlib.suppress(OSError):  # the terminal is gone, and may leave others who listen
                print(line, file=stream, flush=True)


@contextlib.contextmanager
def _own(stream: TextIO) -> Iterator[TextIO]:
    """The stream under a lock of its own: the interpreter's end aborts where a thread still holds that of stderr."""
    try:
        descriptor = os.dup(stream.fileno())
    except OSError:  # it is no file, as in a notebook
        yield stream
        return
    with os.fdopen(descriptor, "w", encoding=stream.encoding, errors=stream.errors) as own:
        yield own
