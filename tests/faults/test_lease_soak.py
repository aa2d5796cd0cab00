"""Clients and office containers under random kills, stops, restarts and edits of the URL file."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from processes import children, until

from miroir import MiroirError, read_urls, rest
from miroir.urls import write_urls

CLIENTS = 4
THREADS = 8
CONTAINERS = 16
LONGEST_WAIT_S = 40.0


class Client:
    """A process of soakclient.py; `killed` is when it was."""

    def __init__(self, folder: Path, number: int) -> None:
        self.killed: float | None = None
        program = str(Path(__file__).parents[1] / "soakclient.py")
        arguments = [str(folder / "fleet.txt"), str(folder / "log.jsonl"), str(THREADS), str(number)]
        self._errors = (folder / f"client-{number}").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, program, *arguments], stdin=subprocess.PIPE, stderr=self._errors
        )

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.process.kill()
        self.killed = time.monotonic()
        self.process.communicate()
        self._errors.close()

    def end(self) -> str:
        """Let it finish its episodes; what it wrote on standard error."""
        self.process.communicate(timeout=120)
        self._errors.seek(0)
        with self._errors:
            return self._errors.read()


class Soak:
    """Everything that runs, and the hand that breaks it."""

    def __init__(self, folder: Path, pool: int, seed: int) -> None:
        self.folder = folder
        self.pool = pool
        self.dice = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.clients: list[Client] = []
        self.killed: dict[int, float] = {}
        self.stopped: dict[int, float] = {}  # servers, and when they go on
        self.left_out: set[int] = set()
        self.edit()
        for _ in range(CLIENTS):
            self.start_client()

    def start_client(self) -> None:
        """One more client."""
        self.done["clients"] += 1
        self.clients.append(Client(self.folder, self.done["clients"]))

    def run(self, seconds: float) -> None:
        """Break something every second or so."""
        end = time.monotonic() + seconds
        acts = [self.kill_server, self.stop_server, self.stop_server, self.kill_client, self.edit, self.edit]
        while time.monotonic() < end:
            act = self.dice.choice(acts)
            self.done[act.__name__] += 1
            act()
            pause_until = time.monotonic() + self.dice.uniform(0.5, 2.0)
            while time.monotonic() < pause_until:
                self.go_on()
                self.write()
                time.sleep(0.2)
        self.left_out.clear()
        self.go_on(all_of_them=True)

    def kill_server(self) -> None:
        """SIGKILL; the pool starts another."""
        self.signal(self.dice.choice(children(self.pool)), signal.SIGKILL)

    def stop_server(self) -> None:
        """SIGSTOP for a while."""
        server = self.dice.choice(children(self.pool))
        self.signal(server, signal.SIGSTOP)
        self.stopped[server] = time.monotonic() + self.dice.uniform(0.5, 4.0)

    def go_on(self, *, all_of_them: bool = False) -> None:
        """SIGCONT for those that were stopped long enough."""
        for server, at in list(self.stopped.items()):
            if all_of_them or time.monotonic() >= at:
                self.signal(server, signal.SIGCONT)
                del self.stopped[server]

    def signal(self, server: int, number: signal.Signals) -> None:
        """Send a signal to a server that may be gone."""
        if server in children(self.pool):
            os.kill(server, number)

    def kill_client(self) -> None:
        """SIGKILL, and another in its place."""
        client = self.clients.pop(self.dice.randrange(len(self.clients)))
        client.kill()
        assert client.killed is not None
        self.killed[client.process.pid] = client.killed
        self.start_client()

    def edit(self) -> None:
        """Leave other containers out of the clients' list."""
        self.left_out = set(self.dice.sample(range(CONTAINERS), self.dice.randint(0, 6)))
        self.write()

    def write(self) -> None:
        """The clients' list: the pool's without those left out."""
        try:
            urls = read_urls(self.folder / "pool.txt")
        except MiroirError:
            return
        chosen = [url for number, url in enumerate(urls) if number not in self.left_out] or urls
        path = self.folder / "fleet.txt"
        if not path.exists() or read_urls(path) != chosen:
            write_urls(path, chosen)


@contextmanager
def pool(folder: Path) -> Iterator[int]:
    """`miroir pool` with sixteen office containers; its process."""
    command = [sys.executable, "-m", "miroir", "pool", "--env", "office", "-n", str(CONTAINERS)]
    with (folder / "pool.log").open("w+") as log:
        process = subprocess.Popen(
            [*command, "--urls", str(folder / "pool.txt")],
            stderr=log,
            stdout=log,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(folder)},
        )
        try:
            assert until((folder / "pool.txt").exists, 120), (folder / "pool.log").read_text()
            yield process.pid
        finally:
            process.terminate()
            process.wait(60)


@pytest.mark.parametrize(
    "seconds", [pytest.param(45, marks=pytest.mark.faults), pytest.param(600, marks=pytest.mark.soak)]
)
def test_soak(tmp_path: Path, seconds: float) -> None:
    """Never two sessions on one container, nobody starved, each episode graded or void with a reason, all free."""
    seed = random.randrange(10**6)
    with ExitStack() as stack:
        soak = Soak(tmp_path, stack.enter_context(pool(tmp_path)), seed)
        try:
            soak.run(seconds)
            assert until(lambda: len(read_urls(tmp_path / "pool.txt")) == CONTAINERS, 90)
            errors = "".join(client.end() for client in soak.clients)
        finally:
            for client in soak.clients:
                client.process.kill()
                client.process.wait()
        urls = read_urls(tmp_path / "pool.txt")
        assert until(lambda: not any(health(url)["leased"] for url in urls), 20)
        peaks = [health(url)["sessions"]["peak"] for url in urls]
    events = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    outcomes = Counter(event["outcome"].split(":")[0] for event in events if event["event"] == "over")
    waits = [event["waited_s"] for event in events if event["event"] == "leased"]
    print(f"seed {seed}: {dict(soak.done)}; {dict(outcomes)}; longest wait {max(waits):.1f} s")

    assert errors == ""
    assert [event for event in events if event["event"] == "starved"] == []
    assert max(waits) <= LONGEST_WAIT_S
    assert set(outcomes) <= {"graded", "void"}
    assert outcomes["graded"] > 20 * seconds / 60
    assert doubled(events, soak.killed) == []
    assert max(peaks) <= 1


def health(url: str) -> dict[str, Any]:
    """What the container says of itself."""
    said: dict[str, Any] = rest.get(f"{url}/health")
    return said


def doubled(events: list[dict[str, Any]], killed: dict[int, float]) -> list[tuple[str, str]]:
    """Pairs of leases that held one container at the same time."""
    over = {event["lease"]: event["at"] for event in events if event["event"] == "over"}
    held: dict[str, list[tuple[float, float, str]]] = {}
    for event in events:
        if event["event"] == "leased":
            until_at = over.get(event["lease"], killed.get(event["pid"], float("inf")))
            held.setdefault(event["url"], []).append((event["at"], until_at, event["lease"]))
    pairs = []
    for leases in held.values():
        leases.sort()
        pairs += [(one[2], two[2]) for one, two in itertools.pairwise(leases) if two[0] < one[1]]
    return pairs
