"""Surface `code`: one tool that runs Python in a child process, with the apps as objects.

Time and memory are limited and the environment is empty, but the child is the same user on the same host: what keeps
a model's program in is the container that the server runs in.
"""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ...serve.environment import ToolError
from ...wire import Tool
from .operation import Answer
from .tools import APPS

TOOL = "run_python"
OUTPUT_LIMIT = 20_000  # characters
REFUSAL = "surface code runs what a model writes; start the server with --allow-code to allow it"

_CHILD = Path(__file__).with_name("sandbox_child.py")
_LINE_LIMIT_BYTES = 4 * 1024 * 1024

T = TypeVar("T")

# Runs a tool of surface `api`: (tool, arguments) -> answer; a refusal raises ToolError.
Call = Callable[[str, Mapping[str, Any]], Answer]


@dataclass(frozen=True)
class Limits:
    """What one program may use: seconds of wall-clock and processor time, and MiB of address space."""

    seconds: float = 30.0
    memory_mib: int = 512


def code_tools() -> list[Tool]:
    """The one tool, whose description lists what the apps can do."""
    lines = [
        "Run a Python program. These objects are there; call their methods with keyword arguments, they return dicts "
        "and raise ToolError. Print what you want to see. Nothing is kept between two programs.",
    ]
    for app in APPS:
        for action, each in app.operations.items():
            takes = ", ".join(name if name in each.required else f"{name}=None" for name in each.parameters)
            lines.append(f"{app.name}.{action}({takes}): {each.description}")
    schema = {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "the program"}},
        "required": ["code"],
        "additionalProperties": False,
    }
    return [{"name": TOOL, "description": "\n".join(lines), "inputSchema": schema}]


def run(arguments: Mapping[str, Any], call: Call, limits: Limits) -> Answer:
    """Run the program in `code`: `{"output", "error"}`, error being its traceback or None.

    `call` serves the apps. ToolError when the program breaks a limit.
    """
    program = arguments.get("code")
    if set(arguments) != {"code"} or not isinstance(program, str):
        raise ToolError(f"{TOOL} takes one argument, code, a string", "invalid_args")
    mine, its = socket.socketpair()
    with mine:
        with its:
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_CHILD)],
                stdin=its.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
            )
        try:
            return _serve(_Channel(mine, time.monotonic() + limits.seconds), program, call, limits)
        finally:
            _kill(child)


def _serve(channel: _Channel, program: str, call: Call, limits: Limits) -> Answer:
    apps = {app.name: list(app.operations) for app in APPS}
    cpu_s = math.ceil(limits.seconds)
    channel.send({"code": program, "apps": apps, "memory_mib": limits.memory_mib, "cpu_s": cpu_s})
    output, cut = "", 0
    while (message := channel.receive()) is not None:
        match message:
            case {"call": [str(app), str(action), dict(arguments)]}:
                channel.send(_answer(call, f"{app}_{action}", arguments))
            case {"out": str(text)}:
                kept = text[: OUTPUT_LIMIT - len(output)]
                output, cut = output + kept, cut + len(text) - len(kept)
            case {"end": str() | None as error}:
                return {"output": output + (f"\n[{cut} more characters cut]" if cut else ""), "error": error}
            case _:
                raise ToolError("the program wrote to the apps' channel itself; use the apps' objects")
    raise ToolError(
        f"the program ended its own process, or used more than {limits.memory_mib} MiB; it had printed {output!r}"
    )


def _answer(call: Call, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"answer": call(tool, arguments)}
    except ToolError as error:
        return {"error": error.message}


class _Channel:
    """JSON lines to and from the child, all of them before one deadline (monotonic seconds)."""

    def __init__(self, end: socket.socket, deadline: float) -> None:
        self._end = end
        self._deadline = deadline
        self._pending = b""

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; a child that is gone shows when it is received from."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self._in_time(lambda: self._end.sendall(json.dumps(message).encode() + b"\n"))

    def receive(self) -> Any:
        """The next message, None when the child is gone; what is no JSON comes as text."""
        while b"\n" not in self._pending:
            if len(self._pending) > _LINE_LIMIT_BYTES:
                raise ToolError(f"the program gave an app more than {_LINE_LIMIT_BYTES >> 20} MiB in one call")
            chunk = self._in_time(self._read)
            if not chunk:
                return None
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        try:
            return json.loads(line)
        except (ValueError, RecursionError):
            return line.decode(errors="replace")

    def _read(self) -> bytes:
        try:
            return self._end.recv(65536)
        except ConnectionResetError:  # it died with a message unread
            return b""

    def _in_time(self, work: Callable[[], T]) -> T:
        left = self._deadline - time.monotonic()
        try:
            self._end.settimeout(max(left, 0.001))
            return work()
        except TimeoutError:
            raise ToolError("the program ran out of time; do less in one program") from None


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Kill the child and everything in its process group."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
