"""Threads for blocking calls: none waits behind another, idle ones are used again and end, cancelling loses nothing."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
import time

import pytest
from processes import until

from miroir.errors import MiroirError
from miroir_verifiers.threads import Threads


@pytest.fixture
def threads() -> Threads:
    """Threads that end soon."""
    return Threads(idle_s=0.2)


def count() -> int:
    """How many of the threads there are."""
    return sum(thread.name == "miroir-verifiers" for thread in threading.enumerate())


def test_no_call_waits_behind_another(threads: Threads) -> None:
    """Sixty calls that wait for each other all come through."""
    barrier = threading.Barrier(60)

    async def main() -> list[int]:
        return await asyncio.gather(*(threads.call(barrier.wait) for _ in range(60)))

    assert sorted(asyncio.run(main())) == list(range(60))


def test_an_idle_thread_is_used_again(threads: Threads) -> None:
    """Calls one after the other share one; it ends when none comes any more."""
    before = count()

    async def main() -> set[int]:
        return {await threads.call(threading.get_ident) for _ in range(20)}

    assert len(asyncio.run(main())) == 1
    assert until(lambda: count() == before)
    assert threads.submit(lambda: 7).result(5) == 7


def test_an_error_is_the_callers(threads: Threads) -> None:
    """And its thread goes on."""
    with pytest.raises(ZeroDivisionError):
        asyncio.run(threads.call(lambda: 1 / 0))
    assert asyncio.run(threads.call(lambda: 5)) == 5


def test_a_call_that_was_cancelled_before_it_began_is_never_made(threads: Threads) -> None:
    """As when no thread was free in time."""
    made = []
    future = threads.submit(lambda: time.sleep(0.1))
    threads._idle = 1  # so that the next call waits for the thread of the first
    waiting = threads.submit(lambda: made.append(1))
    assert waiting.cancel()
    future.result(5)
    time.sleep(0.1)
    assert made == []


def test_a_call_outlasts_cancellations(threads: Threads) -> None:
    """However often its caller is cancelled; then the caller learns of it."""
    ended = threading.Event()

    def call() -> None:
        time.sleep(0.2)
        ended.set()

    async def main() -> bool:
        task = asyncio.create_task(threads.outlast(call))
        for _ in range(3):
            await asyncio.sleep(0.02)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return ended.is_set()

    assert asyncio.run(main())


def test_what_outlasts_gives_its_result_and_its_error(threads: Threads) -> None:
    """Where nobody cancels."""
    assert asyncio.run(threads.outlast(lambda: "done")) == "done"
    with pytest.raises(ZeroDivisionError):
        asyncio.run(threads.outlast(lambda: 1 / 0))


def test_a_process_that_can_start_no_thread_says_so(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what to do."""

    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(MiroirError) as caught:
        threads.submit(lambda: None)
    assert str(caught.value) == (
        "THREAD_LIMIT: this process can start no more threads; raise `ulimit -u`, or play fewer rollouts"
    )


def test_a_forked_child_begins_without_threads(threads: Threads) -> None:
    """Idle threads of its parent are none of its own."""
    threads.submit(lambda: None).result(5)
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=lambda: answers.put(threads.submit(lambda: 3).result(5)))
    child.start()
    child.join(10)
    assert child.exitcode == 0
    assert answers.get() == 3
    answers.close()
