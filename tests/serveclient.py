"""What tests of the server share: a server process, and a plain client that has nothing of miroir's own."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import requests
from websockets.sync.client import ClientConnection, connect

WAIT_S = 10.0
HERE = Path(__file__).parent


class Client:
    """A connection that asks and is answered."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    def ask(self, kind: str, data: Any = None) -> dict[str, Any]:
        """The reply to a frame."""
        return self.ask_text(json.dumps({"type": kind} if data is None else {"type": kind, "data": data}))

    def ask_text(self, text: str | bytes) -> dict[str, Any]:
        """The reply to a frame as it is."""
        self.socket.send(text)
        return self.receive()

    def receive(self) -> dict[str, Any]:
        """The next frame."""
        frame: dict[str, Any] = json.loads(self.socket.recv(timeout=WAIT_S))
        return frame

    def reset(self, task_id: str = "plain", **data: Any) -> dict[str, Any]:
        """The first observation of a new episode."""
        reply = self.ask("reset", {"task_id": task_id, **data})
        assert reply["type"] == "observation", reply
        observation: dict[str, Any] = reply["data"]["observation"]
        return observation

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The reply to a tool call."""
        return self.ask("step", {"type": "call_tool", "tool_name": tool, "arguments": arguments})

    def record(self) -> dict[str, Any]:
        """The record of the last episode."""
        reply = self.ask("record", {})
        assert reply["type"] == "record", reply
        record: dict[str, Any] = reply["data"]
        return record


@contextlib.contextmanager
def leased(url: str, token: str | None = None, **headers: str) -> Iterator[Client]:
    """A client with a connection of its own."""
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    address = url.replace("http", "ws", 1) + "/ws"
    with connect(address, compression=None, max_size=None, additional_headers=names) as socket:
        yield Client(socket)


@contextlib.contextmanager
def served(*argv: str, **options: Any) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server process and its URL; it is killed if it has not ended."""
    command = [sys.executable, "-m", "miroir", "serve", *argv]
    with subprocess.Popen(
        command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            if process.poll() is None:
                process.kill()


def health(url: str) -> dict[str, Any]:
    """What `/health` says now."""
    said: dict[str, Any] = requests.get(f"{url}/health", timeout=WAIT_S).json()
    return said


def error(reply: dict[str, Any], code: str) -> dict[str, Any]:
    """The data of an error frame, whose code must be `code`."""
    assert reply["type"] == "error", reply
    assert reply["data"]["code"] == code, reply
    data: dict[str, Any] = reply["data"]
    return data


def until(met: Callable[[], bool], within_s: float = WAIT_S) -> float:
    """Wait until `met`; the seconds that it took."""
    begun = time.monotonic()
    while not met():
        assert time.monotonic() - begun < within_s, "it did not come about"
        time.sleep(0.005)
    return time.monotonic() - begun
