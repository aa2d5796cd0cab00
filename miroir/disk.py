"""Files that outlive a crash: replaced in one step that no reader sees half-done, and folders that remember them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path


def replace_file(path: str | os.PathLike[str], pieces: Iterable[bytes], *, durable: bool = True) -> None:
    """Write the pieces beside `path`, then put them in its place; until then and on any error the old file stays whole.

    A symbolic link stays one, and what it names is replaced; a device or a pipe is written to. `durable` waits for the
    disk. Raises OSError.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            file.writelines(pieces)
        return
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        with temporary.open("xb") as file:
            file.writelines(pieces)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    if durable:
        sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the folder's entries."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
