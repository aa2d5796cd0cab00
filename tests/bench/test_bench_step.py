"""What a step costs beside a bare exchange of the same bytes, and what open sessions weigh."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fleetprocess import CORES, FleetProcess
from websockets.sync.client import ClientConnection, connect

from miroir import Fleet

pytestmark = pytest.mark.bench

SLACK = 3
BATCH = 200
ROUNDS = 5
SLICES = 40
SLICE_S = 0.25


@pytest.fixture(autouse=True)
def _first_core() -> Iterator[None]:
    """The client on the first processor, servers on the last."""
    os.sched_setaffinity(0, CORES[:1])
    yield
    os.sched_setaffinity(0, CORES)


@pytest.fixture
def echo() -> Iterator[socket.socket]:
    """A connection to a process that reads JSON behind its length and sends it back the same way."""
    program = str(Path(__file__).parents[1] / "echoserver.py")
    server = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True)
    os.sched_setaffinity(server.pid, CORES[-1:])
    assert server.stdout is not None
    with socket.create_connection(("127.0.0.1", int(server.stdout.readline()))) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield sock
    server.kill()
    server.communicate()


def arguments(size: int) -> dict[str, Any]:
    """Arguments whose step is a frame of about so many bytes."""
    return {"rows": [{"name": f"value {number}", "n": number} for number in range(max(1, (size - 140) // 30))]}


def frame(size: int) -> dict[str, Any]:
    """A step's frame of about so many bytes."""
    action = {"type": "call_tool", "tool_name": "echo", "arguments": arguments(size)}
    return {"type": "step", "data": {**action, "metadata": {"episode_id": "0" * 32}}}


def quickest(call: Callable[[], object]) -> float:
    """Seconds that nine in ten calls of a batch take longer than."""
    times = []
    for _ in range(BATCH):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return sorted(times)[BATCH // 10]


@pytest.mark.parametrize(("size", "most"), [(200, 2.4), (20_000, 1.6)])
def test_step_beside_a_tcp_echo(echo: socket.socket, size: int, most: float) -> None:
    """`Session.step` takes 2.4 times a blocking TCP echo of the same JSON at 200 bytes, 1.6 times at 20 KB."""
    sent, reader = frame(size), echo.makefile("rb")

    def bare() -> None:
        data = json.dumps(sent).encode()
        echo.sendall(len(data).to_bytes(4, "big") + data)
        json.loads(reader.read(int.from_bytes(reader.read(4), "big")))

    with FleetProcess(1) as running, Fleet(running.urls) as fleet, fleet.lease(timeout_s=5) as session:
        session.reset("t")
        rounds = [(quickest(bare), quickest(lambda: session.step("echo", arguments(size)))) for _ in range(ROUNDS)]
    reader.close()
    tcp, step = (1e6 * min(times) for times in zip(*rounds, strict=True))
    print(f"{size} bytes: TCP {tcp:.0f} us, step {step:.0f} us, {step / tcp:.2f} times")

    assert step <= most * tcp


def test_sixty_four_sessions_beside_bare_websockets() -> None:
    """64 threads of sessions make 0.7 of the steps a second that bare websockets.sync connections make."""
    sent, plain = arguments(200), frame(200)
    with contextlib.ExitStack() as opened:
        running = opened.enter_context(FleetProcess(128))
        fleet = opened.enter_context(Fleet(running.urls[64:]))
        links = [opened.enter_context(bare_link(url)) for url in running.urls[:64]]
        sessions = [opened.enter_context(fleet.lease(timeout_s=10)) for _ in range(64)]
        bare = [partial(bare_step, link, plain) for link in links]
        ours = [partial(session.step, "echo", sent) for session in sessions]
        slices = []
        for _ in range(SLICES):  # the machine's speed varies threefold from second to second
            for session in sessions:
                session.reset("t")
            slices.append((rate(bare), rate(ours)))
    ratio = statistics.median(our / their for their, our in slices)
    their, our = (statistics.median(rates) for rates in zip(*slices, strict=True))
    print(f"64 threads: bare {their:.0f} steps/s, sessions {our:.0f} steps/s, {ratio:.2f} times")

    assert ratio >= 0.7


def bare_link(url: str) -> ClientConnection:
    """A connection of the library's own to a container."""
    return connect(f"{url.replace('http', 'ws')}/ws", compression=None, max_size=None)


def bare_step(link: ClientConnection, sent: dict[str, Any]) -> Any:
    """The least that a step can be."""
    link.send(json.dumps(sent))
    return json.loads(link.recv(60))


def rate(steps: list[Callable[[], object]]) -> float:
    """Calls a second of all of them, each in a thread of its own, for a slice of time."""
    counts, stop = [0] * len(steps), time.perf_counter() + SLICE_S

    def work(number: int) -> None:
        while time.perf_counter() < stop:
            steps[number]()
            counts[number] += 1

    threads = [threading.Thread(target=work, args=[number]) for number in range(len(steps))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / SLICE_S


def test_five_hundred_sessions() -> None:
    """Opened in 5 s; two threads, four descriptors and 60 KB each."""
    with FleetProcess(500) as running, Fleet(running.urls) as fleet:
        with fleet.lease(timeout_s=5) as first:
            first.reset("t")
        time.sleep(1.5)
        before = weight()
        sessions = []

        def lease() -> None:
            for _ in range(20):
                sessions.append(fleet.lease(timeout_s=60))

        begun = time.perf_counter()
        threads = [threading.Thread(target=lease) for _ in range(25)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took_s = time.perf_counter() - begun
        time.sleep(2)
        after = weight()
        for session in sessions:
            session.close()
    kilobytes, threads_each, files = ((now - then) / 500 for now, then in zip(after, before, strict=True))
    print(f"500 sessions in {took_s:.1f} s: {threads_each:.2f} threads, {files:.2f} files, {kilobytes:.0f} KB each")

    assert len(sessions) == 500
    assert took_s <= SLACK * 5
    assert threads_each <= 2
    assert files <= 4
    assert kilobytes <= 60


def weight() -> tuple[int, int, int]:
    """Resident kilobytes, threads and open files of this process."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]), int(status["Threads"]), len(list(Path("/proc/self/fd").iterdir()))
