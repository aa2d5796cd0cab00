"""The `/ws` route: a connection is a lease, from its handshake until it is gone, however it goes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from ..wire import (
    CAPACITY_REACHED,
    EXECUTION_ERROR,
    FACTORY_ERROR,
    MAX_FRAME_BYTES,
    SESSION_ERROR,
    VALIDATION_ERROR,
    WAITING_HEADER,
    encode,
)
from .catalog import Catalog
from .frames import Refusal
from .leases import Leases
from .session import Session
from .world import Factory, World, reason

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

CLOSE_DONE = 1000
CLOSE_TOO_BIG = 1009
_PIPELINED = 4  # requests that are read ahead of their turn

_OVER = f"is larger than {MAX_FRAME_BYTES} bytes, the limit of the protocol"

_log = logging.getLogger("miroir.serve")


class _Ending(Exception):
    """The session ends with a close of this code, after the error frame if there is one."""

    def __init__(self, code: int, frame: Mapping[str, Any] | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.frame = frame


class LeaseSocket:
    """The ASGI application of `/ws`."""

    def __init__(self, factory: Factory, catalog: Catalog, leases: Leases, *, allow_code: bool) -> None:
        self._factory = factory
        self._catalog = catalog
        self._leases = leases
        self._allow_code = allow_code

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Hold a lease for as long as the connection lasts."""
        client = _waiting_id(scope)
        self._leases.note(client)
        await receive()
        await send({"type": "websocket.accept"})
        if self._leases.full:
            await _end(send, _Ending(CLOSE_DONE, self._capacity_reached()))
            return
        world = World(self._factory, allow_code=self._allow_code)
        self._leases.hold(world)
        frames: asyncio.Queue[Message] = asyncio.Queue(_PIPELINED)
        # Two tasks, so that a client's going is noticed at once, also while its step runs.
        tasks = (
            asyncio.create_task(_receive(receive, frames)),
            asyncio.create_task(self._talk(world, client, frames, send)),
        )
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with contextlib.suppress(asyncio.CancelledError):  # a server that ends waits for no call
                await world.close()
            self._leases.free(world)

    async def _talk(self, world: World, client: str | None, frames: asyncio.Queue[Message], send: Send) -> None:
        try:
            session = await self._open(world, client)
            while True:
                message = await _next(frames, session)
                await _say(send, await _answer(session, message))
        except _Ending as ending:
            await _end(send, ending)
        except OSError:
            _log.debug("the client is gone", exc_info=True)
        except Exception as error:
            _log.exception("a session broke")
            await _end(send, _Ending(CLOSE_DONE, Refusal(SESSION_ERROR, f"the session broke: {reason(error)}").frame()))

    async def _open(self, world: World, client: str | None) -> Session:
        error = await world.open()
        if error is not None:
            _log.warning("the environment could not be made", exc_info=error)
            name = getattr(self._factory, "__name__", type(self._factory).__name__)
            refusal = Refusal(FACTORY_ERROR, f"the environment could not be made: {reason(error)}")
            raise _Ending(CLOSE_DONE, refusal.frame(factory_name=name))
        return Session(world, self._catalog, self._leases.begin_episode, lambda: self._leases.wanted_s(client))

    def _capacity_reached(self) -> dict[str, Any]:
        active, most = self._leases.active, self._leases.most
        refusal = Refusal(CAPACITY_REACHED, f"all {most} sessions are leased; wait for one, or lease another container")
        return refusal.frame(active_sessions=active, max_sessions=most)


async def _receive(receive: Receive, frames: asyncio.Queue[Message]) -> None:
    while (message := await receive())["type"] != "websocket.disconnect":
        await frames.put(message)


async def _next(frames: asyncio.Queue[Message], session: Session) -> Message:
    """The next frame; an episode whose deadline passes while none comes is ended meanwhile."""
    while session.deadline is not None:
        try:
            async with asyncio.timeout_at(session.deadline):  # the loop's clock is the monotonic one
                return await frames.get()
        except TimeoutError:
            await session.expire()
    return await frames.get()


async def _answer(session: Session, message: Message) -> Mapping[str, Any]:
    text = message.get("text") or ""
    if _too_big(text):
        raise _Ending(CLOSE_TOO_BIG, Refusal(VALIDATION_ERROR, f"the frame {_OVER}").frame())
    frame = await session.answer(message)
    if frame is None:
        raise _Ending(CLOSE_DONE)
    return frame


async def _say(send: Send, frame: Mapping[str, Any]) -> None:
    text = encode(frame)
    if _too_big(text):
        raise _Ending(CLOSE_TOO_BIG, Refusal(EXECUTION_ERROR, f"the reply {_OVER}").frame())
    await send({"type": "websocket.send", "text": text})


async def _end(send: Send, ending: _Ending) -> None:
    if ending.frame is not None:
        await send({"type": "websocket.send", "text": encode(ending.frame)})
    await send({"type": "websocket.close", "code": ending.code})


def _too_big(text: str) -> bool:
    # Most texts are small enough however they are encoded, and need not be.
    return len(text) * 4 > MAX_FRAME_BYTES and len(text.encode()) > MAX_FRAME_BYTES


def _waiting_id(scope: Mapping[str, Any]) -> str | None:
    wanted = WAITING_HEADER.lower().encode()
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == wanted), None)
