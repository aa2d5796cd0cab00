"""One Docker daemon for the whole suite, of which nothing is left."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker.daemon import Daemon, bridged, command, links
from processes import until


@pytest.fixture(scope="session")
def daemon() -> Iterator[Daemon]:
    """A daemon that `docker` commands reach by DOCKER_HOST, with the image of the tests."""
    before = links()
    # A suite that exceeds its time is ended by SIGTERM, and must not leave its daemons.
    handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    daemon = Daemon("mirdk1", "--bridge", "mirdk0")
    host = os.environ.get("DOCKER_HOST")
    os.environ["DOCKER_HOST"] = daemon.host
    try:
        with bridged("mirdk0"):
            try:
                daemon.start()
                daemon.make_image()
                yield daemon
            finally:
                daemon.close()
    finally:
        if host is None:
            del os.environ["DOCKER_HOST"]
        else:
            os.environ["DOCKER_HOST"] = host
        signal.signal(signal.SIGTERM, handler)
    for link in links() - before:  # a Swarm's bridge
        command("ip", "link", "delete", link)
    assert links() == before
    assert not daemon.folder.exists()
    assert str(daemon.folder) not in Path("/proc/mounts").read_text()


@pytest.fixture(autouse=True)
def _no_container_left(daemon: Daemon) -> Iterator[None]:
    """After each test there is no container, whoever started it."""
    yield
    assert until(lambda: daemon("ps", "--all", "--quiet") == ""), daemon(
        "ps", "--all"
    )  # Swarm cleans up in its own time
