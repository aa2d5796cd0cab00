"""The parts of a record that every importer fills: grade, hash, times and messages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...chat.form import recorded
from ...errors import RecordError
from ...wire import RECORD_SCHEMA
from ..canonical import canonical
from ..schema import voided

Messages = Sequence[Mapping[str, Any]]

SUCCESS = 1 - 1e-6  # the least reward of a success; tau-bench's tolerance


def row(
    made_by: str,
    *,
    episode_id: str,
    task_id: str,
    task_hash: str,
    reward: float | None,
    void_reason: str | None,
    agent: Mapping[str, Any],
    trial: int | None,
    messages: Messages,
    timings: Mapping[str, Any],
    tokens: tuple[float, float] | None = None,
    tools: Messages = (),
    env: str | None = None,
) -> dict[str, Any]:
    """A record of an episode that `made_by` played; void where there is a reason for it, or no reward."""
    metadata = _graded(task_hash, reward, void_reason)
    return voided(
        {
            "schema": RECORD_SCHEMA,
            "episode_id": episode_id,
            "task_id": task_id,
            "split": None,
            "env": {"name": env, "version": None},
            "reward": None if metadata["void_reason"] else reward,
            "metadata": metadata,
            "diagnostics": {"steps": sum(len(message.get("tool_calls") or ()) for message in messages)},
            "timings": {key: value for key, value in timings.items() if value is not None},
            "steps": [],
            "agent": dict(agent),
            "trial": trial,
            "messages": list(messages),
            "tools": list(tools),
            "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]} if tokens else None,
            "made_by": made_by,
        }
    )


def _graded(task_hash: str, reward: float | None, void_reason: str | None) -> dict[str, Any]:
    reason = "it was not scored" if reward is None and not void_reason else void_reason
    return {
        "task_hash": task_hash,
        "success": not reason and reward is not None and reward >= SUCCESS,
        "harm": False,
        "ended_by": "env_error" if reason else "done",
        "void_reason": reason or None,
        "checks": [],
        "harms": [],
    }


def document(path: str) -> Any:
    """The JSON document of a file; RecordError where there is none."""
    try:
        return json.loads(Path(path).read_bytes())
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}; name a results file") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is not JSON ({error}); name a results file in JSON") from error


def sha256(value: Mapping[str, Any] | list[Any]) -> str:
    """The SHA-256, in hexadecimal, of a value's canonical JSON."""
    return hashlib.sha256(canonical(value)).hexdigest()


def instant(epoch_s: float | None) -> str | None:
    """Seconds since 1970 as ISO-8601 UTC; None for none."""
    return datetime.fromtimestamp(epoch_s, UTC).isoformat() if epoch_s else None


def tool_call(call_id: str | None, name: str, arguments: Any) -> dict[str, Any]:
    """A tool call in chat form, its arguments an object where they are one."""
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    if isinstance(arguments, str):
        (call,) = recorded({"tool_calls": [call]})["tool_calls"]
    return call
