"""A fake fleet in a process of its own on the last processor, so that a measured client has the others to itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CORES = sorted(os.sched_getaffinity(0))


class FleetProcess:
    """`python fakefleet.py N ADDRESS`, told what to be by `order`; `inside` is a command that runs it elsewhere."""

    def __init__(self, count: int, *, address: str = "127.0.0.1", inside: Sequence[str] = ()) -> None:
        program = str(Path(__file__).with_name("fakefleet.py"))
        self._process = subprocess.Popen(
            [*inside, sys.executable, program, str(count), address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        os.sched_setaffinity(self.pid, CORES[-1:])
        self.urls: list[str] = self._answer()

    def order(self, **what: Any) -> dict[str, Any]:
        """Change `modes` (by index), `clear` the counts; what has been asked and how busy the fleet was since."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        told: dict[str, Any] = self._answer()
        return told

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def __enter__(self) -> FleetProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
