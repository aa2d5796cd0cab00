"""Records to derive from, made in a few words; and what was derived, read back."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from miroir.derive import Options, Report, derive

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Look for something",
            "parameters": {
                "type": "object",
                "properties": {"query": {"type": "string"}, "page": {"type": "integer", "minimum": 1}},
                "required": ["query"],
                "additionalProperties": False,
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "submit", "description": "", "parameters": {"type": "object", "properties": {}}},
    },
]

Call = tuple[str, dict[str, Any]]

LOOK: Call = ("look", {"query": "owner"})
SUBMIT: Call = ("submit", {})

_numbers = itertools.count()


def called(*calls: Call, content: str = "", ids: Sequence[str] | None = None) -> dict[str, Any]:
    """A message of the assistant that makes these calls."""
    ids = ids or [f"id{next(_numbers)}" for _ in calls]
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": dict(arguments)}}
            for call_id, (name, arguments) in zip(ids, calls, strict=True)
        ],
    }


def answered(message: Mapping[str, Any], *texts: str) -> list[dict[str, Any]]:
    """The message and a result for each of its calls."""
    results = [
        {"role": "tool", "tool_call_id": call["id"], "name": call["function"]["name"], "content": text}
        for call, text in zip(message["tool_calls"], texts or ["done"] * len(message["tool_calls"]), strict=True)
    ]
    return [dict(message), *results]


def talk(*calls: Call, prompt: str = "Who owns it?\n\nToday is 2026-01-31 (UTC).") -> list[dict[str, Any]]:
    """A conversation: the prompt, and each call in a message of its own with its result."""
    spoken = [{"role": "user", "content": prompt}]
    for number, call in enumerate(calls):
        spoken += answered(called(call), f"result {number}")
    return spoken


def record(task_id: str = "task-1", **given: Any) -> dict[str, Any]:
    """A graded record; `success`, `harm`, `task_hash`, `calls`, `checks` and `harms` are put where they belong."""
    success = given.pop("success", True)
    metadata = {
        "task_hash": given.pop("task_hash", f"hash of {task_id}"),
        "success": success,
        "harm": given.pop("harm", False),
        "ended_by": "submit",
        "void_reason": None,
        "checks": given.pop("checks", []),
        "harms": given.pop("harms", []),
    }
    calls = given.pop("calls", (LOOK, SUBMIT))
    prompt = given.pop("prompt", "Who owns it?\n\nToday is 2026-01-31 (UTC).")
    made = {
        "schema": 1,
        "episode_id": f"{next(_numbers):032d}",
        "task_id": task_id,
        "split": "train",
        "env": {"name": "office", "version": "1"},
        "reward": float(success),
        "metadata": metadata,
        "diagnostics": {"steps": len(calls), "tool_errors": 0},
        "timings": {"started_at": "2026-01-31T10:00:00+00:00", "episode_s": 1.5},
        "steps": steps(*calls),
        "task": {"id": task_id, "instruction": "Who owns it?"},
        "prompt": prompt,
        "agent": {"name": "chat", "model": "small", "params": {}},
        "trial": 0,
        "tools": TOOLS,
        "messages": talk(*calls, prompt=prompt),
    }
    made.update(given)
    return {key: value for key, value in made.items() if value is not ...}


def steps(*calls: Call) -> list[dict[str, Any]]:
    """The steps that these calls were."""
    return [
        {
            "tool": name,
            "arguments": dict(arguments),
            "result": f"result {number}",
            "error": None,
            "reward": None,
            "done": number == len(calls) - 1,
            "at_s": 0.1,
            "seconds": 0.1,
        }
        for number, (name, arguments) in enumerate(calls)
    ]


def saved(folder: Path, records: Iterable[Mapping[str, Any]], name: str = "traces.jsonl") -> Path:
    """A trace file of the records."""
    path = folder / name
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    return path


def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON lines file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def derived(
    folder: Path, records: Iterable[Mapping[str, Any]], format_name: str = "sft", **options: Any
) -> tuple[Report, list[dict[str, Any]]]:
    """What the records give in a format: the report, and the rows of both sides."""
    out = folder / f"out-{next(_numbers)}.jsonl"
    report = derive([saved(folder, records)], format_name, out, Options(**options))
    return report, [row for name in report.files for row in rows(Path(name))]


def left_out(report: Report) -> dict[str, int]:
    """How many records or pairs were left out, by reason."""
    reasons: dict[str, int] = {}
    for funnel in report.funnels:
        for stage in funnel.as_json()["stages"].values():
            reasons.update(stage["left_out"])
    return reasons
