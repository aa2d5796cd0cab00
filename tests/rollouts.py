"""Records shaped like a chat model's real ones: tasks with several rollouts that share a path and then part."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

WORDS = [
    *("invoice", "meeting", "room", "ticket", "reply", "calendar", "approve", "quarter", "figure", "notes", "berlin"),
    *("rotate", "budget", "printer", "visitor", "contract", "holiday", "training", "forecast", "licence", "travel"),
]
TOOLS = ("mail_search", "mail_read", "files_read", "calendar_busy", "directory_search", "tickets_update", "mail_reply")
CHECKS = ("the right people were told", "the file holds the figure that stands", "nothing else was changed")
BEGAN = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


def records(
    tasks: int, trials: int = 4, *, steps: tuple[int, int] = (20, 60), result_words: int = 60, seed: int = 7
) -> Iterator[dict[str, Any]]:
    """`tasks` times `trials` records, of so many steps each and so many words in each result."""
    rng = random.Random(seed)
    for number in range(tasks):
        path = [_step(rng, result_words) for _ in range(rng.randint(*steps))]
        hard = rng.random()
        for trial in range(trials):
            yield _record(rng, number, trial, path, hard, result_words)


def save(path: Path, made: Iterator[dict[str, Any]] | Sequence[dict[str, Any]]) -> Path:
    """Write records as a trace file."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in made)
    return path


def _record(
    rng: random.Random, number: int, trial: int, path: list[dict[str, Any]], hard: float, result_words: int
) -> dict[str, Any]:
    began = BEGAN + timedelta(seconds=31 * (4 * number + trial))
    void = 9 < (began - BEGAN).total_seconds() / 180 < 11 or rng.random() < 0.01
    good = rng.random() > hard
    steps = list(path)
    if not good:
        parted = rng.randrange(1, len(path))
        steps = [*path[:parted], *(_step(rng, result_words) for _ in range(rng.randint(1, len(path) - parted)))]
        if rng.random() < 0.6:
            steps[parted] = {**steps[parted], "result": "", "error": _error(rng)}
    if void:
        steps = steps[: rng.randrange(1, len(steps))]
    else:
        steps.append({"tool": "submit", "arguments": {}, "result": "The episode is over.", "error": None})
    steps = _timed(rng, steps)
    met = [good or (at + number + trial) % 3 != 0 for at in range(3)]
    met[number % 3] = good
    harm = not void and rng.random() < 0.06
    task = _task(rng, number)
    lost = f"CONNECTION_LOST: http://10.0.0.{number % 9}:8000 went away at step {len(steps)}"
    return {
        "schema": 1,
        "episode_id": f"{rng.getrandbits(128):032x}",
        "task_id": task["id"],
        "split": "train",
        "env": {"name": "office", "version": "1"},
        "reward": None if void else 1.0 if good else round(sum(met) / 3, 4),
        "metadata": {
            "task_hash": task["task_hash"],
            "success": good and not void,
            "harm": harm,
            "ended_by": "lost" if void else "submit",
            "void_reason": lost if void else None,
            "checks": [] if void else _checks(rng, met),
            "harms": [{"name": "mail to a stranger", "detail": _text(rng, 20)}] if harm else [],
        },
        "diagnostics": {"steps": len(steps), "tool_errors": sum(step["error"] is not None for step in steps)},
        "timings": {"started_at": began.isoformat(), "episode_s": steps[-1]["at_s"] + 1.5, "env_s": 2.25},
        "steps": steps,
        "task": task,
        "prompt": f"{task['instruction']}\n\nToday is 2026-03-02 (UTC).",
        "agent": {"name": "chat", "model": "some-model-7b", "params": {"temperature": 0.7}},
        "trial": trial,
        "attempt": 0,
        "container": f"http://10.0.0.{number % 9}:8000",
        "messages": _messages(task, steps),
        "usage": {"prompt_tokens": 1200 * len(steps), "completion_tokens": 85 * len(steps)},
    }


def _task(rng: random.Random, number: int) -> dict[str, Any]:
    kind = ("triage", "schedule", "correct", "reassign")[number % 4]
    own = random.Random(number)
    return {
        "id": f"{kind}-by-rules-{number}",
        "task_hash": hashlib.sha256(str(number).encode()).hexdigest(),
        "instruction": f"Please handle the {_text(own, 40)}.\n\nIn the office it is Monday, 09:00 UTC.",
        "tags": [kind, f"level-{number % 3 + 1}"],
        "max_steps": 80,
    }


def _step(rng: random.Random, words: int) -> dict[str, Any]:
    arguments = {"query": _text(rng, 3), "id": f"mail-{rng.randrange(9999)}"}
    result = {"items": [{"id": f"x-{rng.randrange(10**6)}", "text": _text(rng, words // 4)} for _ in range(4)]}
    return {"tool": rng.choice(TOOLS), "arguments": arguments, "result": result, "error": None}


def _error(rng: random.Random) -> dict[str, str]:
    return {"error_type": "execution_error", "message": f"there is no mail 'mail-{rng.randrange(9999)}'; search first"}


def _timed(rng: random.Random, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    clock, timed = 0.0, []
    for step in steps:
        seconds = rng.expovariate(8)
        clock += seconds + rng.uniform(0.5, 3)
        timed.append({**step, "reward": None, "done": step["tool"] == "submit", "at_s": clock, "seconds": seconds})
    return timed


def _checks(rng: random.Random, met: list[bool]) -> list[dict[str, Any]]:
    return [{"name": name, "passed": ok, "detail": _text(rng, 30)} for name, ok in zip(CHECKS, met, strict=True)]


def _messages(task: dict[str, Any], steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": task["instruction"]}]
    for at, step in enumerate(steps[:6]):
        function = {"name": step["tool"], "arguments": step["arguments"]}
        call = {"id": f"call_{at}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        answer = json.dumps(step["result"])
        messages.append({"role": "tool", "tool_call_id": f"call_{at}", "name": step["tool"], "content": answer})
    return messages


def _text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words))
