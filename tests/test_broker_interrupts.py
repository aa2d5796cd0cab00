"""Ctrl-C wherever Python can raise it in leasing and closing: no container is lost, and nobody sleeps for ever."""

from __future__ import annotations

import dis
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, cast

import pytest
from processes import until

import miroir
from miroir.broker import handshake
from miroir.broker.broker import Broker
from miroir.broker.lease import Lease
from miroir.schedule import Outcome
from miroir.session import Session
from miroir.transport import Connection, Transport
from miroir.urls import Source
from miroir.wire import Health

pytestmark = pytest.mark.filterwarnings("ignore:.*was dropped without close")  # where it came before all else

URL = "http://h:1"
HOME = str(Path(miroir.__file__).parent)
RAISING = {"CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD"}  # after which the interpreter looks for signals


class Container:
    """One that serves a single session; it knows those that are open."""

    def __init__(self) -> None:
        self.open: set[Link] = set()

    def attempt(self, url: str, token: str | None, **_: Any) -> handshake.Attempt:
        """What a handshake with it comes to."""
        if self.open:
            return handshake.Attempt(Outcome.BUSY, count=1)
        link = Link(self)
        self.open.add(link)
        transport = Transport(cast("Connection", link), url)
        transport.greeting = {"type": "state", "data": {"wanted_s": None}}
        return handshake.Attempt(Outcome.OPENED, transport)


class Link:
    """Stands for a connection to the container, and for its socket."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self.socket = self
        self.close_code: int | None = None
        self.came = 0

    def shutdown(self, how: int) -> None:
        """Cut it."""
        self.close_code = 1006
        self._container.open.discard(self)

    def close(self) -> None:
        """Close it."""
        self.close_code = 1000
        self._container.open.discard(self)

    def send(self, data: bytes, *, text: bool) -> None:
        """Take a frame, and have its answer come."""
        self.came += 1

    def recv(self, timeout_s: float, *, decode: bool) -> bytes:
        """The answer: nobody else waits."""
        return b'{"type": "state", "data": {"wanted_s": null}}'


class Prober:
    """Says at once what the container's health would."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._asked: list[str] = []
        self._woken = threading.Event()

    def start(self, url: str) -> None:
        """Ask."""
        self._asked.append(url)

    def poll(self, timeout_s: float) -> list[tuple[str, Health]]:
        """The answers."""
        if not self._asked:
            self._woken.wait(max(0.0, timeout_s))
            self._woken.clear()
        taken = len(self._container.open)
        asked, self._asked = self._asked, []
        return [(url, Health(True, leased=taken > 0, active=taken, slots=1, status=200)) for url in asked]

    def wake(self) -> None:
        """End a poll."""
        self._woken.set()

    def close(self) -> None:
        """Nothing to close."""


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch) -> Container:
    """The only one there is, for every broker."""
    made = Container()
    monkeypatch.setattr(handshake, "attempt", made.attempt)
    monkeypatch.setattr("miroir.broker.broker.Prober", lambda *_, **__: Prober(made))
    return made


@cache
def names(code: CodeType) -> dict[int, str]:
    """The name of the instruction at each offset."""
    return {instruction.offset: instruction.opname for instruction in dis.get_instructions(code)}


class Interrupt:
    """Raises KeyboardInterrupt at the n-th place of the package's code at which a signal could; `hit` if it came."""

    def __init__(self, number: int) -> None:
        self._left = number

    @property
    def hit(self) -> bool:
        """Whether there were so many places."""
        return self._left <= 0

    def during(self, call: Callable[[], object]) -> None:
        """Make the call."""
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            call()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(HOME) or frame.f_code.co_name == "__del__":
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self._pass()
        return self._follow(names(frame.f_code))

    def _follow(self, instructions: dict[int, str]) -> Any:
        last = ""

        def local(frame: FrameType, event: str, _: object) -> Any:
            nonlocal last
            if event == "opcode":
                if last in RAISING:
                    last = ""
                    self._pass()
                last = instructions[frame.f_lasti]
            return local

        return local

    def _pass(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise KeyboardInterrupt


def interrupted() -> Iterator[Interrupt]:
    """An interrupt at the first place, at the second, and so on, until a call has no further one."""
    number = 1
    while True:
        made = Interrupt(number)
        yield made
        if not made.hit:
            break
        number += 1
    assert number > 20  # or nothing was traced


def free(broker: Broker, container: Container) -> bool:
    """Whether the container comes to be free, as the broker knows, and can be leased."""

    def idle() -> bool:
        gc.collect(0)
        return not container.open and not broker.stats()["urls"][URL]["held"]

    came = until(idle, 5)
    broker.lease(timeout_s=20).release(reusable=True)
    return came and not container.open


@pytest.mark.filterwarnings("ignore:Exception ignored in. <generator")  # Python swallows one that closes a generator
def test_a_lease(container: Container) -> None:
    """What was leased for whoever was interrupted goes to the next."""
    for interrupt in interrupted():
        broker = Broker(Source.of([URL]))
        got: list[Session] = []
        interrupt.during(lambda to=got, of=broker: to.append(Session(of.lease(timeout_s=20))))
        if got:
            got.pop().close()

        assert free(broker, container)

        broker.close()


@pytest.mark.parametrize("played", [False, True])
def test_nobody_waits(container: Container, played: bool) -> None:
    """The container is free, and where the session is not closed then, it had not begun to be."""
    for interrupt in interrupted():
        broker = Broker(Source.of([URL]))
        session = Session(broker.lease(timeout_s=20))
        session._dirty = played
        interrupt.during(session.close)
        if not session.closed:
            session.close()

        assert free(broker, container)
        assert not session._dialogue._calls.locked()

        broker.close()


@pytest.mark.parametrize(
    ("played", "options"),
    [(True, {}), (False, {}), (False, {"chain_handovers": 0, "chain_s": 0.0})],
    ids=["closed", "handed on", "asked first"],
)
def test_somebody_waits(container: Container, played: bool, options: dict[str, Any]) -> None:
    """Who waits has a session that works, and it is the only one."""
    for interrupt in interrupted():
        broker = Broker(Source.of([URL]), **options)
        session = Session(broker.lease(timeout_s=20))
        session._dirty = played
        got: list[Lease] = []
        waiting = threading.Thread(target=lambda to, of: to.append(of.lease(timeout_s=20)), args=[got, broker])
        waiting.start()
        while not broker.stats()["requests_waiting"]:
            time.sleep(0.0005)
        interrupt.during(session.close)
        if not session.closed:
            session.close()
        waiting.join(30)

        assert len(got) == len(container.open) == 1
        assert got[0].transport.usable

        got.pop().release(reusable=True)

        assert free(broker, container)

        broker.close()
