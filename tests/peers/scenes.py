"""Verifiers in an environment of its own, and scenes that are played in one process of it: its imports take long."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from peers.stage import staged


class Peer(NamedTuple):
    """An environment with verifiers: its folder of commands, and the variables to run them with."""

    commands: Path
    variables: dict[str, str]

    def finished(self, command: list[str], folder: Path, timeout_s: float) -> subprocess.CompletedProcess[str]:
        """One of its commands, run in the folder, once it has ended."""
        words = [str(self.commands / command[0]), *command[1:]]
        return subprocess.run(
            words, env=self.variables, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False
        )


class Played(NamedTuple):
    """The report of the scenes, the folder of what they saved, the requests that the model got, and what was said."""

    report: dict[str, Any]
    folder: Path
    asked: list[dict[str, Any]]
    errors: str


@contextmanager
def played(peer: Peer, script: Path, folder: Path, *, sessions: int, timeout_s: float) -> Iterator[Played]:
    """The scenes of the script, on four containers of so many sessions."""
    with staged(4, sessions) as (urls, model):
        words = ["python", str(script), json.dumps(urls), model.base_url, str(folder)]
        done = peer.finished(words, folder, timeout_s)
        assert done.returncode == 0, done.stderr[-4000:]
        yield Played(json.loads(done.stdout.splitlines()[-1]), folder, model.bodies, done.stderr)
