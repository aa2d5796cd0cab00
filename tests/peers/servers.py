"""Peers as child processes: a server is started, waited for, and gone at the end with all that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import requests

READY_S = 60.0
STOP_S = 10.0


@contextmanager
def serving(
    command: Sequence[str],
    ready_url: str,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    ready_s: float = READY_S,
) -> Iterator[subprocess.Popen[bytes]]:
    """The process of the command, once a GET of `ready_url` is answered by 200; what it printed, if it never is."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            if not _answers(process, ready_url, time.monotonic() + ready_s):
                output.seek(0)
                shown = output.read()[-4000:].decode(errors="replace")
                raise RuntimeError(f"{command[0]} did not answer at {ready_url} (exit {process.poll()}):\n{shown}")
            yield process
        finally:
            _stop(process)


def _answers(process: subprocess.Popen[bytes], url: str, deadline: float) -> bool:
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(requests.RequestException), requests.get(url, timeout=5.0) as response:
            if response.status_code == 200:
                return True
        time.sleep(0.05)
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    for kind in (signal.SIGTERM, signal.SIGKILL):  # the second also for a child that outlived its parent
        with suppress(ProcessLookupError):
            os.killpg(process.pid, kind)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
