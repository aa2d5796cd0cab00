"""The same trivial tool behind our serve kit and behind OpenEnv's server, over the same client, in one run."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from peers.openenv_peers import peers
from serveclient import served

from miroir import Fleet, Session

pytestmark = pytest.mark.bench

STEPS = 100
ROUNDS = 5
SESSIONS = 64
EACH = 10
TASK = "sum"


@pytest.fixture(scope="module")
def urls() -> Iterator[tuple[str, str]]:
    """Our server's base URL and OpenEnv's, each with 64 sessions."""
    with (
        peers("0.10.0", f"tool {SESSIONS}") as [theirs],
        served("adder:Adder", "--max-sessions", str(SESSIONS)) as ours,
    ):
        yield ours[1], theirs.url


def add(session: Session, times: int) -> None:
    """So many steps."""
    for number in range(times):
        step = session.step("add", {"a": 1, "b": number})
        assert step["observation"]["result"]["structured_content"] == {"result": number + 1}


def test_a_step_costs_a_third_of_openenvs(urls: tuple[str, str]) -> None:
    """One session on each, in alternate rounds: the median step takes at most 0.3 of the time."""
    seconds: list[list[float]] = [[], []]
    with ExitStack() as stack:
        fleets = [stack.enter_context(Fleet([url])) for url in urls]
        sessions = [stack.enter_context(fleet.lease()) for fleet in fleets]
        for session in sessions:
            session.reset(TASK)
            add(session, 20)
        for _ in range(ROUNDS):
            for session, taken in zip(sessions, seconds, strict=True):
                began = time.perf_counter()
                add(session, STEPS)
                taken.append((time.perf_counter() - began) / STEPS)
    ours, theirs = (1000 * statistics.median(taken) for taken in seconds)
    print(f"a step: ours {ours:.2f} ms, OpenEnv's {theirs:.2f} ms, {ours / theirs:.2f} of it")
    assert ours <= 0.3 * theirs


def rate(url: str) -> float:
    """Steps a second to 64 sessions at once, each by a thread of its own."""
    gate = threading.Barrier(SESSIONS + 1)

    def play(session: Session) -> None:
        session.reset(TASK)
        gate.wait()
        add(session, EACH)
        gate.wait()

    with ExitStack() as stack:
        fleet = stack.enter_context(Fleet([url]))
        sessions = [stack.enter_context(fleet.lease()) for _ in range(SESSIONS)]
        threads = [threading.Thread(target=play, args=[session]) for session in sessions]
        for thread in threads:
            thread.start()
        gate.wait(60)
        began = time.perf_counter()
        gate.wait(120)
        taken = time.perf_counter() - began
        for thread in threads:
            thread.join()
    return SESSIONS * EACH / taken


def test_sixty_four_sessions_get_three_times_openenvs_steps(urls: tuple[str, str]) -> None:
    """From one server process each: at least three times the steps a second, the better of two rounds."""
    ours, theirs = (max(rate(url) for _ in range(2)) for url in urls)
    print(f"{SESSIONS} sessions: ours {ours:.0f} steps/s, OpenEnv's {theirs:.0f} steps/s, {ours / theirs:.1f} times")
    assert ours >= 3 * theirs
