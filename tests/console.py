"""The console script as a process of its own, and what it leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from processes import until

SCRIPT = Path(sys.executable).with_name("miroir")
_MARK = "MIROIR_TEST_MARK"


@contextmanager
def started(
    *words: object, cwd: Path | None = None, env: Mapping[str, str] | None = None, **options: object
) -> Iterator[subprocess.Popen[str]]:
    """A running `miroir`; when the block is left nothing that it started may run any more."""
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        [SCRIPT, *map(str, words)],
        cwd=cwd,
        env={**os.environ, **(env or {}), _MARK: mark},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},  # type: ignore[call-overload]
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
    assert until(lambda: not marked(mark), 5), f"left running: {marked(mark)}"


def miroir(
    *words: object, cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    """`miroir` run to its end: exit code and output. Nothing that it started runs any more."""
    with started(*words, cwd=cwd, env=env) as process:
        out, errors = process.communicate(timeout=timeout_s)
        return subprocess.CompletedProcess(words, process.returncode, out, errors)


def marked(mark: str) -> Sequence[int]:
    """The processes that descend from the one with this mark."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                if f"{_MARK}={mark}".encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
    return found
