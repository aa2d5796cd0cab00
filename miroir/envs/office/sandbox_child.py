"""The child process of surface `code`: runs a program with the apps as objects.

Started by path in isolated mode, so it imports the standard library alone. It speaks JSON lines with its parent:
first comes `{"code", "apps": {app: [actions]}, "memory_mib", "cpu_s"}`; it sends `{"call": [app, action, arguments]}`
and gets `{"answer"}` or `{"error"}`; it sends `{"out": text}` for what is printed and at last `{"end": traceback}`,
null where the program ended well.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import socket
import threading
import traceback
from typing import Any

_PIECE = 65536  # characters of output in one message


class ToolError(Exception):
    """What an app refused, and why."""


class Channel:
    """JSON lines to and from the parent, over the socket that stands where standard input was."""

    def __init__(self) -> None:
        self._lines = socket.socket(fileno=os.dup(0)).makefile("rw", encoding="utf-8")
        self._lock = threading.Lock()  # one call and its answer at a time
        os.dup2(1, 0)

    def send(self, message: dict[str, Any]) -> None:
        self._lines.write(json.dumps(message) + "\n")
        self._lines.flush()

    def receive(self) -> Any:
        return json.loads(self._lines.readline())

    def call(self, app: str, action: str, arguments: dict[str, Any]) -> Any:
        with self._lock:
            self.send({"call": [app, action, arguments]})
            reply = self.receive()
        if "error" in reply:
            raise ToolError(reply["error"])
        return reply["answer"]


class Printed(io.TextIOBase):
    """Standard output and error of the program, sent to the parent as they come."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        for start in range(0, len(text), _PIECE):
            self._channel.send({"out": text[start : start + _PIECE]})
        return len(text)


class App:
    """One app: `app.action(name=value)` runs the action and returns its answer, a dict."""

    def __init__(self, channel: Channel, name: str, actions: list[str]) -> None:
        self._channel = channel
        self._name = name
        self._actions = actions

    def __dir__(self) -> list[str]:
        return self._actions

    def __getattr__(self, action: str) -> Any:
        if action not in self._actions:
            raise AttributeError(f"{self._name} has no action {action!r}; it has {', '.join(self._actions)}")
        return lambda **arguments: self._channel.call(self._name, action, arguments)


def limit(memory_bytes: int, cpu_s: int) -> None:
    """Bound this process: memory, processor time, no file writing, no core file."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    channel = Channel()
    start = channel.receive()
    limit(start["memory_mib"] << 20, start["cpu_s"])
    names: dict[str, Any] = {"__name__": "__main__", "ToolError": ToolError}
    names |= {app: App(channel, app, actions) for app, actions in start["apps"].items()}
    printed = Printed(channel)
    failure = None
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            exec(compile(start["code"], "<code>", "exec"), names)  # noqa: S102 - this is what the surface is for
        except SystemExit:
            pass
        except BaseException:
            failure = traceback.format_exc(limit=-5)
    channel.send({"end": failure})


if __name__ == "__main__":
    main()
