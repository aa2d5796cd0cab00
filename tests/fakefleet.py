"""A fleet of fake containers in one event loop, each on a port of its own, well or ill by its mode.

It speaks the protocol on raw sockets, so that a test can make it break any rule, and counts what it is asked.
As a program (`python fakefleet.py N ADDRESS`) it obeys JSON lines on standard input, for a client in another process.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import socket
import struct
import sys
import threading
import time
from collections import Counter
from typing import Any

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
SUBMITTED = {"type": "observation", "data": {"observation": {"tool_name": "submit"}, "reward": 1.0, "done": True}}


class Container:
    """One fake container; `mode` may be changed at any time.

    free: serves one session (`slots` of them); held: is leased by somebody else; down: /health is 503;
    hang: accepts and never answers; half: is healthy and refuses the handshake with `status`;
    half_hang: is healthy and never answers the handshake; mute: shakes hands and never sends a frame;
    first: closes on the first frame; factory: answers FACTORY_ERROR; plain: OpenEnv's health, which says no more
    than healthy; slow: shakes hands after `delay_s`; deaf: takes no data after the first frame.
    """

    def __init__(self, mode: str = "free", slots: int = 1) -> None:
        self.mode = mode
        self.slots = slots
        self.status = 500
        self.delay_s = 1.0
        self.linger_s = 0.0  # how long a session that is over still counts
        self.token: str | None = None  # which the handshake must bring
        self.headers: dict[str, str] = {}  # of the last request
        self.paths: list[str] = []
        self.done = False  # what the state says, whatever was played
        self.url = ""
        self.active = 0
        self.most = 0
        self.asked: Counter[str] = Counter()
        self.busy_s = 0.0
        self.since: set[float] = set()  # when the sessions that are open began
        self.waiting: dict[str, float] = {}
        self.frames: list[dict[str, Any]] = []
        self.reply: Any = None  # a function of a frame: its replies as JSON values, or None for the usual one
        self.writers: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        self.writers.add(writer)
        try:
            if self.mode == "hang":
                await reader.read()
                return
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            headers = {
                name.strip().lower(): value.strip()
                for name, _, value in (line.partition(":") for line in head.split("\r\n")[1:])
            }
            self.headers = headers
            self.paths.append(head.split(" ")[1])
            if "miroir-waiting" in headers:
                self.waiting[headers["miroir-waiting"]] = time.monotonic()
            if head.split(" ")[1].endswith("/health"):
                self.asked["health"] += 1
                writer.write(self._health())
                await writer.drain()
            elif "sec-websocket-key" in headers:
                self.asked["handshake"] += 1
                await self._websocket(reader, writer, headers)
            else:
                writer.write(_http(404, {"detail": "Not Found"}))
        except (asyncio.IncompleteReadError, OSError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass
        finally:
            self.writers.discard(writer)
            writer.close()

    def _health(self) -> bytes:
        if self.mode == "down":
            return _http(503, {"status": "unhealthy", "reason": "its disk is full"})
        body: dict[str, Any] = {"status": "healthy"}
        if self.mode != "plain":
            taken = self.slots if self.mode == "held" else self.active
            body |= {"leased": taken >= self.slots, "sessions": {"active": taken, "max": self.slots}}
        return _http(200, body)

    async def _websocket(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: dict[str, str]
    ) -> None:
        if self.mode == "half" or (self.token and headers.get("authorization") != f"Bearer {self.token}"):
            writer.write(_http(self.status if self.mode == "half" else 401, {"detail": "no"}))
            return
        if self.mode == "half_hang":
            await reader.read()
            return
        if self.mode == "slow":
            await asyncio.sleep(self.delay_s)
        accept = base64.b64encode(hashlib.sha1(headers["sec-websocket-key"].encode() + MAGIC).digest()).decode()
        writer.write(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode()
        )
        if self.mode == "held" or self.active >= self.slots:
            self.asked["capacity"] += 1
            _send(writer, _error("CAPACITY_REACHED", active_sessions=self.slots, max_sessions=self.slots))
            await _bye(reader, writer)
            return
        if self.mode == "factory":
            _send(writer, _error("FACTORY_ERROR"))
            await _bye(reader, writer)
            return
        await self._session(reader, writer, headers.get("miroir-waiting"))

    async def _session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client: str | None) -> None:
        self.active += 1
        self.most = max(self.most, self.active)
        began = time.monotonic()
        self.since.add(began)
        state: dict[str, Any] = {"episode_id": None, "done": False, "client": client}
        try:
            while (text := await _receive(reader, writer)) is not None:
                if self.mode == "first":
                    return
                if self.mode == "mute":
                    continue
                frame = json.loads(text)
                self.frames.append(frame)
                if frame["type"] == "close":
                    await _bye(reader, writer)
                    return
                replies = self.reply(frame) if self.reply else None
                for reply in [await self._usual(frame, state)] if replies is None else replies:
                    _send(writer, reply)
                await writer.drain()
                if self.mode == "deaf":
                    writer.transport.pause_reading()
                    await asyncio.sleep(3600)
        finally:
            self.since.discard(began)
            self.busy_s += time.monotonic() - began
            if self.linger_s:
                await asyncio.sleep(self.linger_s)
            self.active -= 1

    async def _usual(self, frame: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
        self.asked[frame["type"]] += 1
        data = frame.get("data") or {}
        if frame["type"] == "state":
            others = [time.monotonic() - at for name, at in self.waiting.items() if name != state["client"]]
            wanted_s = min((ago for ago in others if ago < 60), default=None)
            told = {"episode_id": state["episode_id"], "done": self.done or state["done"], "step_count": 0}
            return {"type": "state", "data": told if self.mode == "plain" else {**told, "wanted_s": wanted_s}}
        if frame["type"] == "reset":
            state |= {"episode_id": data["episode_id"], "task_id": data["task_id"], "done": False}
            return {
                "type": "observation",
                "data": {"observation": {"task": data["task_id"]}, "reward": None, "done": False},
            }
        if frame["type"] == "step":
            tool, arguments = data.get("tool_name"), data.get("arguments") or {}
            if tool == "submit":
                state["done"] = True
                return SUBMITTED
            if tool == "sleep":
                await asyncio.sleep(arguments["s"])
            result = {"content": [{"type": "text", "text": json.dumps(arguments)}], "is_error": False}
            observation = {"tool_name": tool, "result": result, "error": None}
            return {"type": "observation", "data": {"observation": observation, "reward": None, "done": False}}
        if frame["type"] == "record":
            return {"type": "record", "data": _record(state["episode_id"], state.get("task_id"))}
        return _error("UNKNOWN_TYPE", message=f"Unknown message type: {frame['type']}")


class FakeFleet:
    """Containers served by a thread of their own, from `with` to its end."""

    def __init__(self, *modes: str, slots: int = 1, host: str = "127.0.0.1") -> None:
        self._host = host
        self.containers = [Container(mode, slots) for mode in modes]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fakefleet", daemon=True)
        self._servers: list[asyncio.Server] = []
        self._ready = threading.Event()

    @property
    def urls(self) -> list[str]:
        """The base URLs, in the order of the modes."""
        return [container.url for container in self.containers]

    def __getitem__(self, index: int) -> Container:
        return self.containers[index]

    def count(self, what: str) -> int:
        """How often all containers together were asked for `what` (health, handshake, capacity, step, …)."""
        return sum(container.asked[what] for container in self.containers)

    def drop(self, index: int) -> None:
        """Reset every connection of a container, as a crash does."""
        self._loop.call_soon_threadsafe(self._drop, self.containers[index])

    def send(self, index: int, value: Any, *, close: bool = False) -> None:
        """Send every session of a container a frame that nobody asked for (None: no frame), and perhaps close."""

        def sending() -> None:
            for writer in self.containers[index].writers:
                if value is not None:
                    _send(writer, value)
                if close:
                    writer.write(_frame(8, b"\x03\xe8"))

        self._loop.call_soon_threadsafe(sending)

    def settled(self, index: int, active: int = 0, seconds: float = 5.0) -> bool:
        """Whether a container comes to have so many sessions within some seconds."""
        deadline = time.monotonic() + seconds
        while self.containers[index].active != active and time.monotonic() < deadline:
            time.sleep(0.005)
        return self.containers[index].active == active

    def _drop(self, container: Container) -> None:
        for writer in list(container.writers):
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    def __enter__(self) -> FakeFleet:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._stop())
        self._loop.close()

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        for container in self.containers:
            for writer in list(container.writers):
                writer.transport.abort()
        serving = asyncio.all_tasks() - {asyncio.current_task()}
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    async def _start(self) -> None:
        for container in self.containers:
            server = await asyncio.start_server(container.serve, self._host, 0, limit=2**27, backlog=512)
            name = f"[{self._host}]" if ":" in self._host else self._host
            container.url = f"http://{name}:{server.sockets[0].getsockname()[1]}"
            self._servers.append(server)


def _http(status: int, body: Any) -> bytes:
    content = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + content


def _error(code: str, message: str = "no", **more: Any) -> dict[str, Any]:
    return {"type": "error", "data": {"code": code, "message": message, **more}}


def _record(episode_id: str | None, task_id: str | None = "t") -> dict[str, Any]:
    metadata = {
        "task_hash": "0" * 64,
        "success": True,
        "harm": False,
        "ended_by": "submit",
        "void_reason": None,
        "checks": [],
        "harms": [],
    }
    return {
        "schema": 1,
        "episode_id": episode_id,
        "task_id": task_id,
        "split": "train",
        "env": {"name": "fake", "version": "1"},
        "reward": 1.0,
        "metadata": metadata,
        "diagnostics": {"steps": 0},
        "timings": {"started_at": "2026-01-01T00:00:00Z", "episode_s": 0.0, "env_s": 0.0},
        "steps": [],
    }


def _frame(opcode: int, payload: bytes, final: bool = True) -> bytes:
    size, first = len(payload), opcode | (0x80 if final else 0)
    if size < 126:
        head = bytes([first, size])
    elif size < 65536:
        head = bytes([first, 126]) + size.to_bytes(2, "big")
    else:
        head = bytes([first, 127]) + size.to_bytes(8, "big")
    return head + payload


def _send(writer: asyncio.StreamWriter, value: Any) -> None:
    if isinstance(value, list):  # a message in pieces, with a ping between them
        for number, piece in enumerate(value):
            writer.write(_frame(0 if number else 1, piece, final=number == len(value) - 1) + _frame(9, b""))
        return
    writer.write(_frame(1, value if isinstance(value, bytes) else json.dumps(value).encode()))


async def _bye(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(_frame(8, b"\x03\xe8"))
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(1):
            while await _receive(reader, writer) is not None:
                pass


async def _receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes | None:
    """The next text message; pings are answered, a close frame or the end is None."""
    parts = b""
    while True:
        try:
            head = await reader.readexactly(2)
        except asyncio.IncompleteReadError:
            return None
        size = head[1] & 0x7F
        if size >= 126:
            size = int.from_bytes(await reader.readexactly(2 if size == 126 else 8), "big")
        mask = await reader.readexactly(4)
        body = await reader.readexactly(size)
        repeated = (mask * (size // 4 + 1))[:size]
        payload = (int.from_bytes(body, "big") ^ int.from_bytes(repeated, "big")).to_bytes(size, "big")
        opcode = head[0] & 15
        if opcode == 8:
            writer.write(_frame(8, payload[:2]))
            return None
        if opcode == 9:
            writer.write(_frame(10, payload))
        elif opcode != 10:
            parts += payload
            if head[0] & 0x80:
                return parts


def main() -> None:
    """Serve so many containers at an address, as the arguments say; answer each JSON line, an order, with one."""
    with FakeFleet(*["free"] * int(sys.argv[1]), host=sys.argv[2]) as fleet:
        print(json.dumps(fleet.urls), flush=True)
        for line in sys.stdin:
            order = json.loads(line)
            for index, mode in order.get("modes", {}).items():
                fleet[int(index)].mode = mode
            now = time.monotonic()
            if order.get("clear"):
                for container in fleet.containers:
                    container.asked.clear()
                    container.most = container.active
                    container.busy_s = -sum(now - since for since in container.since)
            told = {
                "asked": sum((container.asked for container in fleet.containers), Counter()),
                "most": max(container.most for container in fleet.containers),
                "active": sum(container.active for container in fleet.containers),
                "busy_s": sum(c.busy_s + sum(now - since for since in c.since) for c in fleet.containers),
            }
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
