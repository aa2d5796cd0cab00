"""The shapes that cross the wire and their coding: frames, health, tasks, tools and records. Pure.

The protocol's text is `miroir/serve/PROTOCOL.md`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, NotRequired, TypedDict

PROTOCOL = "miroir/1"
RECORD_SCHEMA = 1
MAX_FRAME_BYTES = 64 * 1024 * 1024
WAITING_HEADER = "Miroir-Waiting"

# Error codes that a server sends unasked after the handshake, before it closes the connection.
CAPACITY_REACHED = "CAPACITY_REACHED"
FACTORY_ERROR = "FACTORY_ERROR"
SESSION_ERROR = "SESSION_ERROR"
CLOSING_CODES = frozenset({CAPACITY_REACHED, FACTORY_ERROR, SESSION_ERROR})

# Error codes that leave the session alive.
INVALID_JSON = "INVALID_JSON"
UNKNOWN_TYPE = "UNKNOWN_TYPE"
VALIDATION_ERROR = "VALIDATION_ERROR"
EXECUTION_ERROR = "EXECUTION_ERROR"
UNKNOWN_TASK = "UNKNOWN_TASK"
NO_EPISODE = "NO_EPISODE"
STALE_EPISODE = "STALE_EPISODE"
EPISODE_OVER = "EPISODE_OVER"
UNKNOWN_COWORKER = "UNKNOWN_COWORKER"
NOT_GRADED = "NOT_GRADED"

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_BLANKS = " \t\n\r"
_ESCAPED = json.JSONEncoder(separators=(",", ":"), allow_nan=False)

SURFACES = ("api", "mcp", "code")
SUBMIT = "submit"  # the tool that ends an episode and grades it
ENDINGS = (SUBMIT, "done", "max_steps", "deadline", "abandoned", "env_error", "agent_error", "lost")


class Persona(TypedDict):
    """Whom the agent acts as."""

    name: str
    description: str


class Task(TypedDict):
    """One task as an environment lists it; `task_hash` covers everything that decides the episode.

    `reset`, in a list of a user's own, holds further options of the reset.
    """

    id: str
    task_hash: str
    instruction: str
    persona: NotRequired[Persona]
    coworkers: NotRequired[list[str]]
    coworkers_scripted: NotRequired[bool]
    max_steps: NotRequired[int]
    split: NotRequired[str]
    tags: NotRequired[list[str]]
    tools: NotRequired[list[str]]
    reset: NotRequired[dict[str, Any]]


class Tool(TypedDict):
    """A tool as MCP lists it; `inputSchema` is a JSON schema of an object."""

    name: str
    description: str
    inputSchema: dict[str, Any]


class Step(TypedDict):
    """One reply to a step: the observation, the reward so far (null: none yet), and whether the episode is over."""

    observation: dict[str, Any]
    reward: float | None
    done: bool


class CoworkerTurn(TypedDict):
    """A coworker who owes a reply, and the chat to answer."""

    coworker: str
    messages: list[dict[str, Any]]


class CheckResult(TypedDict):
    """One named check of a grade, with its evidence."""

    name: str
    passed: bool
    detail: str


class HarmResult(TypedDict):
    """Damage that the task did not ask for."""

    name: str
    detail: str


class Metadata(TypedDict):
    """How an episode ended and how it was graded."""

    task_hash: str
    success: bool
    harm: bool
    ended_by: str
    void_reason: str | None
    checks: list[CheckResult]
    harms: list[HarmResult]


class Record(TypedDict):
    """A graded episode; version 1 of the schema. The client's own keys are the ones that need not be there."""

    schema: int
    episode_id: str
    task_id: str
    split: str | None
    env: dict[str, Any]
    reward: float | None
    metadata: Metadata
    diagnostics: dict[str, float]
    timings: dict[str, Any]
    steps: list[dict[str, Any]]
    task: NotRequired[Task]
    prompt: NotRequired[str]
    surface: NotRequired[str | None]
    max_seconds: NotRequired[int | None]
    agent: NotRequired[dict[str, Any]]
    trial: NotRequired[int]
    attempt: NotRequired[int]
    messages: NotRequired[list[dict[str, Any]]]
    tools: NotRequired[list[dict[str, Any]]]
    container: NotRequired[str]
    usage: NotRequired[dict[str, int]]
    made_by: NotRequired[str]


class Health(NamedTuple):
    """What a container's `/health` said: free, leased, or unwell for a `reason`; None where it did not say."""

    healthy: bool
    leased: bool | None = None
    active: int | None = None
    slots: int | None = None
    reason: str = ""
    status: int | None = None
    errno: int | None = None


def read_health(status: int, content: bytes) -> Health:
    """The meaning of an answer to GET `/health`: ours, or OpenEnv's, which says no more than healthy."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        body = None
    said = body if isinstance(body, dict) else {}
    if status != 200 or said.get("status") != "healthy":
        why = said.get("reason") or (said.get("status") if status == 200 else None)
        return Health(False, reason=f"/health answered HTTP {status}{f': {why}' if why else ''}", status=status)
    sessions = said.get("sessions")
    counts = sessions if isinstance(sessions, dict) else {}
    leased, active, slots = said.get("leased"), counts.get("active"), counts.get("max")
    return Health(
        True,
        leased if isinstance(leased, bool) else None,
        active if isinstance(active, int) else None,
        slots if isinstance(slots, int) and slots > 0 else None,
        status=status,
    )


def encode(frame: Any) -> str:
    """The frame as compact JSON text; ValueError for NaN, Infinity and what JSON cannot hold."""
    text = _COMPACT.encode(frame)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate: JSON can carry it escaped, UTF-8 cannot
        return _ESCAPED.encode(frame)
    return text


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


_LENIENT = json.JSONDecoder(parse_float=_finite, parse_constant=lambda _: None)


def _lenient(text: str) -> Any:
    text = text.strip(_BLANKS)
    value, end = _LENIENT.raw_decode(text)  # which is quicker than `decode`, as it searches for no blanks
    if end != len(text):
        raise ValueError("a frame must be one JSON value, not several")
    return value


def decode(data: str | bytes, *, lenient: bool = False) -> dict[str, Any]:
    """The frame in `data`; ValueError when it is not a JSON object.

    NaN, Infinity and numbers beyond the floats read as floats that no JSON can hold, or as null where it is `lenient`.
    """
    text = data if isinstance(data, str) else data.decode()
    frame = _lenient(text) if lenient else json.loads(text)
    if not isinstance(frame, dict):
        raise ValueError(f"a frame must be a JSON object, not {type(frame).__name__}")  # noqa: TRY004
    return frame


def ends_session(frame: dict[str, Any]) -> bool:
    """Whether it is an error frame after which the server closes."""
    data = frame.get("data")
    code = data.get("code") if isinstance(data, dict) else None
    return frame.get("type") == "error" and isinstance(code, str) and code in CLOSING_CODES


def tools(listed: Iterable[Any]) -> list[Tool]:
    """Tools as MCP lists them, from those that a server lists in either spelling."""
    return [_tool(tool) for tool in listed if isinstance(tool, dict) and isinstance(tool.get("name"), str)]


def _tool(tool: Mapping[str, Any]) -> Tool:
    said, schema = tool.get("description"), tool.get("inputSchema") or tool.get("input_schema")
    return {
        "name": tool["name"],
        "description": said if isinstance(said, str) else "",
        "inputSchema": schema if isinstance(schema, dict) and schema else {"type": "object", "properties": {}},
    }


def submits(listed: Iterable[Tool]) -> bool:
    """Whether `submit` is among the tools."""
    return any(tool["name"] == SUBMIT for tool in listed)


def observed(reply: Mapping[str, Any]) -> dict[str, Any]:
    """The observation in the data of a reply, as an object whatever the server made of it."""
    value = reply.get("observation")
    return value if isinstance(value, dict) else {} if value is None else {"result": value}


def canonical_text(value: Any) -> str:
    """A JSON value's canonical text: keys sorted, no blanks."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: Any) -> str:
    """The SHA-256 in hex of a JSON value's canonical text."""
    return hashlib.sha256(canonical_text(value).encode(errors="surrogatepass")).hexdigest()


def result_of(observation: dict[str, Any]) -> Any:
    """What a tool answered, as a record keeps it: its structured content where it has some, else its text.

    An observation that is no tool's (a plain server's own type) is kept whole.
    """
    if "result" not in observation:
        return observation
    result = observation["result"]
    if not isinstance(result, dict) or not isinstance(result.get("content"), list):
        return result
    structured = result.get("structured_content")
    if isinstance(structured, dict):
        return structured
    return "\n".join([str(block["text"]) for block in result["content"] if isinstance(block, dict) and "text" in block])
