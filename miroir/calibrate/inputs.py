"""What a calibration was made from: the hash of each input, made while its records are read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from ..errors import RecordError
from ..records.sources import Source

# Parsing holds the interpreter's lock, which hashing needs once a block: few large blocks seldom wait for it.
_BLOCK = 16 << 20


@contextmanager
def hashed(sources: Sequence[Source]) -> Iterator[Callable[[], dict[str, str | None]]]:
    """Hash the sources in one thread beside the body; what it yields waits and gives each name's SHA-256."""
    pool = ThreadPoolExecutor(1, "miroir-sha256")
    futures = {source.name: pool.submit(sha256, source) for source in sources}
    try:
        yield lambda: {name: future.result() for name, future in futures.items()}
    finally:
        pool.shutdown(cancel_futures=True)


def sha256(source: Source) -> str | None:
    """The SHA-256, in hexadecimal, of the bytes that the source had when found; None of a pipe, gone once read."""
    if source.size is None:
        return None
    digest, left = hashlib.sha256(), source.size
    block = memoryview(bytearray(min(_BLOCK, left)))
    try:
        with Path(source.name).open("rb", buffering=0) as file:
            while left and (count := file.readinto(block[: min(left, len(block))])):
                digest.update(block[:count])
                left -= count
    except OSError as error:
        raise RecordError(f"{source.name} cannot be hashed: {error.strerror}; leave it where it is") from error
    return digest.hexdigest()
