"""A world on its thread: what its calls come to, when they are given up, and its end."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from puppet import Puppet
from serveclient import until

from miroir.serve.world import StillRunning, World, options, reason


def test_is_made_called_and_closed_on_one_thread() -> None:
    """sqlite3 and its like may be used by one thread only: every call of a world comes from the same."""
    seen: list[str] = []

    class Watched(Puppet):
        def __init__(self) -> None:
            super().__init__()
            seen.append(threading.current_thread().name)

        def close(self) -> None:
            super().close()
            seen.append(threading.current_thread().name)

    async def live() -> None:
        world = World(Watched)
        assert await world.open() is None
        called = await world.call(lambda _: threading.current_thread().name)
        assert called.value is not None
        seen.append(called.value)
        await world.close()

    asyncio.run(live())
    assert len(seen) == 3
    assert len(set(seen)) == 1


def test_gives_up_a_call_but_not_the_world() -> None:
    """A call beyond its limit is StillRunning, as is every call until it has ended; then the world is as before."""

    async def live() -> None:
        world = World(Puppet)
        await world.open()
        with pytest.raises(StillRunning, match=r"the call still runs after 0 s"):
            await world.call(lambda _: time.sleep(0.3), 0.05)
        assert world.stuck
        with pytest.raises(StillRunning, match="an earlier call is still running; close this session and lease"):
            await world.call(lambda _: None)
        await asyncio.sleep(0.4)
        assert (await world.call(lambda _: 7)).value == 7
        await world.close()

    asyncio.run(live())


def test_is_closed_though_nobody_waits_for_it() -> None:
    """A wait for the end that is cut short does not keep the world from being dropped once its call has ended."""
    before = Puppet.alive

    async def live() -> None:
        world = World(Puppet)
        await world.open()
        with pytest.raises(StillRunning):
            await world.call(lambda _: time.sleep(0.4), 0.05)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(world.close(), 0.05)
        assert Puppet.alive == before + 1

    asyncio.run(live())
    until(lambda: Puppet.alive == before)


def test_an_error_of_any_kind_is_an_outcome() -> None:
    """What a call raises is told, not raised: neither SystemExit nor StopIteration reaches the event loop."""

    async def live() -> None:
        world = World(Puppet)
        await world.open()
        for error in (SystemExit(3), StopIteration(), KeyboardInterrupt()):

            def fail(_: object, error: BaseException = error) -> None:
                raise error

            assert (await world.call(fail)).error is error
        await world.close()

    asyncio.run(live())


def test_reads_the_options_that_a_reset_takes() -> None:
    """Free options are what `reset` declares beside the contract; with ** it takes any."""

    class Free(Puppet):
        def reset(self, task, **options):
            return {}

    class Plain(Puppet):
        def reset(self, task, *, episode_id, seed, max_seconds, coworkers, surface):
            return {}

    world = Puppet()
    assert options(world) == {"mood"}
    assert options(Free()) is None
    assert options(Plain()) == frozenset()
    for _ in range(3):
        world.close()


def test_words_an_error_without_words() -> None:
    """The reason of an error that says nothing is its type."""
    assert reason(ValueError()) == "ValueError"
    assert reason(ValueError("odd")) == "ValueError: odd"
