"""The lives of one container, without processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue

import pytest
from processes import until

from miroir.pool.engine import Change, Event
from miroir.pool.slot import Container, Shared, Slot, Timing
from miroir.pool.status import Status


class Scripted(Container):
    """Ends as told after so many looks; None lives on."""

    def __init__(self, end: str | None, looks: int = 0) -> None:
        self.end = end
        self.looks = looks
        self.stopped = 0
        self.tended = 0

    def url(self) -> str | None:
        return "http://scripted"

    def ended(self) -> str | None:
        self.looks -= 1
        return self.end if self.looks < 0 else None

    def log(self) -> tuple[str, ...]:
        return ("its last line",)

    def tend(self) -> None:
        self.tended += 1

    def stop(self, patient: Callable[[], bool]) -> None:
        self.stopped += 1


class Play:
    """A slot in a thread, whose launches are scripted."""

    def __init__(self, *script: Scripted | Exception, recycle_after: int | None = None) -> None:
        self.script = list(script)
        self.told: SimpleQueue[Event] = SimpleQueue()
        self.stopping = threading.Event()
        timing = Timing(ready_every_s=0.001, ended_every_s=0.001, health_every_s=0.001)
        shared = Shared(
            self._launch, self.told.put, lambda: False, threading.Semaphore(1), self.stopping, timing, recycle_after
        )
        self.slot = Slot("env-0", shared)
        self.thread = threading.Thread(target=self.slot.run)

    def _launch(self, name: str) -> Container:
        found = self.script.pop(0) if self.script else Scripted(None)
        if isinstance(found, Exception):
            raise found
        return found

    def events(self, count: int) -> list[str]:
        """The next events, as lines without their times."""
        return [str(self.told.get(timeout=10)).partition(" after")[0] for _ in range(count)]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Play]]:
    """Begin a slot; it is stopped after the test. Every container is healthy, and delays are short."""
    monkeypatch.setattr("miroir.pool.slot.read_status", lambda url, timeout_s: Status(url, True, "", boot_id="b"))
    monkeypatch.setattr("miroir.pool.restarts.FIRST_DELAY_S", 0.01)
    started: list[Play] = []

    def begin(*script: Scripted | Exception, recycle_after: int | None = None) -> Play:
        started.append(Play(*script, recycle_after=recycle_after))
        started[-1].thread.start()
        return started[-1]

    yield begin
    for slot in started:
        slot.stopping.set()
        slot.thread.join()


READY = "env-0 ready: http://scripted"


def test_each_life_is_told_and_ended(play: Callable[..., Play]) -> None:
    """Ready, down with its log, ready again; a container that ended is cleaned up, too."""
    first = Scripted("ended with exit code 3", looks=5)
    slot = play(first)
    assert slot.events(3) == [READY, "env-0 down: ended with exit code 3; starts again in 0.01 s", READY]
    assert first.stopped == 1
    assert slot.slot.url == "http://scripted"


def test_a_first_container_that_never_was_ready_has_failed(play: Callable[..., Play]) -> None:
    """The pool is told once that it failed, and decides; what comes after is told as of any other container."""
    slot = play(Scripted("ended with exit code 3"), Scripted("ended with exit code 4"))
    event = slot.told.get(timeout=10)
    assert event == Event("env-0", Change.FAILED, "ended with exit code 3 before it was ready", ("its last line",))
    assert slot.events(2) == [
        "env-0 down: ended with exit code 4 before it was ready; starts again in 0.02 s",
        READY,
    ]


def test_restarts_that_fail_wait_longer_however_long_ago_it_was_ready(
    play: Callable[..., Play], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a life that was steady itself begins again with the first delay."""
    monkeypatch.setattr("miroir.pool.restarts.STEADY_S", 0.005)
    failing = [Scripted("ended with exit code 3") for _ in range(3)]
    slot = play(Scripted("was killed by SIGKILL", looks=30), *failing)
    lines = slot.events(6)
    assert [line.rpartition(" in ")[2] for line in lines[1:5]] == ["0.01 s", "0.02 s", "0.04 s", "0.08 s"]
    assert "before it was ready" in lines[2]
    assert lines[5] == READY


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(12, "Cannot allocate memory"), "could not be started: [Errno 12] Cannot allocate memory"),
        (KeyError("x"), "could not be kept: KeyError: 'x'"),
    ],
)
def test_a_launch_that_raises_is_a_fault_like_others(
    error: Exception, line: str, play: Callable[..., Play], caplog: pytest.LogCaptureFixture
) -> None:
    """At first it fails the start; later it is tried again. What nobody foresaw is logged whole."""
    assert play(error).events(1) == [f"env-0 failed: {line}"]
    slot = play(Scripted("was killed by SIGKILL", looks=5), error)
    assert slot.events(4)[2:] == [f"env-0 down: {line}; starts again in 0.02 s", READY]
    assert len(caplog.records) == 2 * isinstance(error, KeyError)


def test_a_container_that_turns_well_again_is_kept(play: Callable[..., Play], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two missed probes are forgiven, again and again; three in a row are not."""
    answers = [True, True, False, False, True, False, False, True, False, False, False]
    seen = iter(answers)

    def answer(url: str, timeout_s: float) -> Status:
        return Status(url, next(seen, True), "told so", boot_id="b")

    monkeypatch.setattr("miroir.pool.slot.read_status", answer)
    slot = play(Scripted(None))
    assert slot.events(2)[1] == "env-0 down: was unhealthy 3 times in a row (told so); starts again in 0.01 s"
    assert next(seen, None) is None


def test_a_container_that_starts_is_looked_after(play: Callable[..., Play], monkeypatch: pytest.MonkeyPatch) -> None:
    """One that prints without end before it is ready must not fill the disk."""
    monkeypatch.setattr("miroir.pool.slot.read_status", lambda url, timeout_s: Status(url, False, "not yet"))
    container = Scripted("ended with exit code 3", looks=5)
    assert play(container).events(1) == ["env-0 failed: ended with exit code 3 before it was ready"]
    assert container.tended == 5


def test_containers_start_so_many_at_a_time(play: Callable[..., Play]) -> None:
    """A slot that waits for its turn to start can be stopped."""
    slot = Play()
    slot.slot._shared.starting.acquire()
    slot.thread.start()
    assert slot.told.empty()
    slot.stopping.set()
    slot.thread.join(10)
    assert not slot.thread.is_alive()


def test_a_spent_container_is_replaced_between_two_sessions(
    play: Callable[..., Play], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves the list at once, and makes room for the next as soon as it is free, without a delay."""
    monkeypatch.setattr("miroir.pool.recycling.DRAINED_S", 0.01)
    fresh = Status("http://scripted", True, "", False, episodes=0)
    said = [fresh, Status("http://scripted", True, "", True, episodes=7)]
    monkeypatch.setattr(
        "miroir.pool.slot.read_status", lambda url, timeout_s: said.pop(0) if len(said) > 1 else said[0]
    )
    first = Scripted(None)
    slot = play(first, recycle_after=7)
    assert slot.events(2) == [READY, "env-0 down: has begun 7 episodes; it is replaced"]
    assert slot.slot.url is None
    assert first.stopped == 0
    said[:] = [Status("http://scripted", True, "", False, episodes=7)]
    assert until(lambda: first.stopped == 1)
    said[:] = [fresh]
    assert slot.events(1) == [READY]


def test_a_server_that_does_not_count_fails_a_pool_that_recycles(play: Callable[..., Play]) -> None:
    """The pool hears of it at the start."""
    (line,) = play(recycle_after=7).events(1)
    assert line.startswith("env-0 failed: does not say in /health how many episodes")
