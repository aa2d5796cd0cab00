"""OpenEnv servers of the package index's versions, started side by side: each takes seconds to import."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from peers.servers import serving
from peers.venvs import venv
from ports import free_ports

VERSIONS = {"0.10.0": "openenv-0-10-0", "0.3.0": "openenv-core-0-3-0", "0.2.1": "openenv-core-0-2-1"}
SCRIPT = Path(__file__).with_name("openenv_server.py")
READY_S = 120.0


class Peer(NamedTuple):
    """A running server."""

    url: str
    process: subprocess.Popen[bytes]


@contextmanager
def peers(version: str, *kinds: str) -> Iterator[list[Peer]]:
    """A running server of each kind, in their order; "tool 2 1.5" has two sessions and reaps after 1.5 s."""
    python = venv(VERSIONS[version]) / "bin" / "python"
    with ExitStack() as stack, ThreadPoolExecutor(len(kinds)) as executor:

        def start(kind: str) -> Peer:
            port = free_ports()
            name, slots, *idle_s = [*kind.split(), "1"] if " " not in kind else kind.split()
            words = [str(python), str(SCRIPT), name, str(port), slots, *idle_s]
            context = serving(words, f"http://127.0.0.1:{port}/health", ready_s=READY_S)
            process = context.__enter__()
            stack.push(context)
            return Peer(f"http://127.0.0.1:{port}", process)

        yield list(executor.map(start, kinds))
