"""Surface `code`: one tool that runs Python in a child process, with the apps as objects.

Time and memory are limited and the environment is empty, but the child is the same user on the same host: what keeps
a model's program in is the container that the server runs in.
"""

from __future__ import annotations

import json
import math
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...serve.environment import ToolError
from ...wire import Tool
from .operation import Answer
from .tools import APPS

TOOL = "run_python"
OUTPUT_LIMIT = 20_000  # characters
REFUSAL = "surface code runs what a model writes; start the server with --allow-code to allow it"

_CHILD = Path(__file__).with_name("sandbox_child.py")
_LINE_LIMIT_BYTES = 4 * 1024 * 1024

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
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", str(_CHILD)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={},
        cwd="/",
        start_new_session=True,
    )
    try:
        return _serve(child, program, call, limits)
    finally:
        _end(child)


def _serve(child: subprocess.Popen[bytes], program: str, call: Call, limits: Limits) -> Answer:
    apps = {app.name: list(app.operations) for app in APPS}
    _send(child, {"code": program, "apps": apps, "memory_mib": limits.memory_mib, "cpu_s": math.ceil(limits.seconds)})
    output: list[str] = []
    for line in _lines(child, time.monotonic() + limits.seconds):
        message = json.loads(line)
        if "call" in message:
            app, action, arguments = message["call"]
            _send(child, _answer(call, f"{app}_{action}", arguments))
        elif "out" in message:
            output.append(message["out"])
        else:
            return {"output": _cut("".join(output)), "error": message["end"]}
    raise ToolError(f"the program ended its own process, or used more than {limits.memory_mib} MiB; {_after(output)}")


def _answer(call: Call, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"answer": call(tool, arguments)}
    except ToolError as error:
        return {"error": error.message}


def _send(child: subprocess.Popen[bytes], message: Mapping[str, Any]) -> None:
    assert child.stdin is not None
    with suppress(BrokenPipeError):  # a child that is gone shows when it is read from
        child.stdin.write(json.dumps(message).encode() + b"\n")
        child.stdin.flush()


def _lines(child: subprocess.Popen[bytes], deadline: float) -> Iterator[bytes]:
    """The lines that the child writes, until it closes its end; ToolError at the deadline."""
    assert child.stdout is not None
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                raise ToolError("the program ran out of time; do less in one program")
            chunk = os.read(child.stdout.fileno(), 65536)
            if not chunk:
                return
            *lines, pending = (pending + chunk).split(b"\n")
            yield from lines


def _after(output: list[str]) -> str:
    printed = "".join(output)
    return f"it had printed {_cut(printed)!r}" if printed else "it had printed nothing"


def _cut(text: str) -> str:
    return text if len(text) <= OUTPUT_LIMIT else text[:OUTPUT_LIMIT] + f"\n[{len(text) - OUTPUT_LIMIT} more cut]"


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill the child and everything in its process group."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for pipe in (child.stdin, child.stdout):
        assert pipe is not None
        pipe.close()
