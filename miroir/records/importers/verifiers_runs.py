"""verifiers' runs: `traces.jsonl`, an Episode a line (`verifiers/v1/episode.py`), and the older `results.jsonl`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..reader import load
from .rows import document, instant, row, sha256, tool_call


def records(path: str) -> Iterator[dict[str, Any]]:
    """A record for each trace of an agent in training, or for each result; void where verifiers met an error."""
    trials: Counter[str] = Counter()
    metadata = _metadata(path)
    for line in load(path):
        if "traces" in line:
            yield from _episode(line, trials)
        else:
            yield _result(line, metadata, trials)


def _episode(episode: Mapping[str, Any], trials: Counter[str]) -> Iterator[dict[str, Any]]:
    task = episode["task"]
    task_hash = task.get("hash") or sha256(task["data"])
    task_id = task.get("key") or task_hash
    trial = _next(trials, task_id)
    played = [trace for trace in episode["traces"] if trace["agent"].get("trainable", True)]
    for trace in played or [_NOTHING_PLAYED]:
        calls = trace.get("calls") or ()
        agent = trace["agent"]
        model = next((call["model"] for call in calls if call.get("model")), (agent.get("config") or {}).get("model"))
        used = [call["usage"] for call in calls if call.get("usage")]
        yield row(
            "verifiers",
            episode_id=trace.get("id") or episode["id"],
            task_id=task_id,
            task_hash=task_hash,
            reward=_weighted(trace["rewards"]),
            void_reason=_failure(trace) or _failure(episode) if not trace.get("ok") else None,
            agent={"name": agent.get("name"), "model": model},
            trial=trial,
            messages=[_message(message) for message in _branch(trace["nodes"])],
            timings=_timings(trace.get("timing") or {}),
            tokens=(sum(one["prompt_tokens"] for one in used), sum(one["completion_tokens"] for one in used)),
            tools=[_tool(tool) for tool in trace.get("tools") or ()],
            env=(episode.get("env") or {}).get("id"),
        )


_NOTHING_PLAYED: Mapping[str, Any] = {"agent": {}, "rewards": {}, "nodes": []}  # the environment failed before


def _weighted(rewards: Mapping[str, Mapping[str, float] | None]) -> float | None:
    """The sum of score times weight, as `Trace.reward`; None where no reward was scored."""
    scored = [one["score"] * one.get("weight", 1.0) for one in rewards.values() if one is not None]
    return sum(scored) if scored else None


def _failure(holder: Mapping[str, Any]) -> str | None:
    errors = holder.get("errors") or ()
    return f"{errors[-1]['type']}: {errors[-1]['message']}" if errors else None


def _branch(nodes: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The messages from the root to the last node, by each one's `parent`."""
    path, at = [], len(nodes) - 1 if nodes else None
    while at is not None:
        path.append(nodes[at]["message"])
        at = nodes[at].get("parent")
    return path[::-1]


def _timings(timing: Mapping[str, Any]) -> dict[str, Any]:
    """When it began and how long it took until scored, from either version's timing."""
    start = timing.get("start") or timing.get("start_time")
    ends = [(timing.get(phase) or {}).get("end") for phase in ("scoring", "finalize", "agent", "generation")]
    end = max((end for end in ends if end), default=None)
    total_ms = timing.get("total_ms")
    seconds = total_ms / 1000 if total_ms else end - start if end and start else None
    return {"started_at": instant(start), "episode_s": seconds}


def _metadata(path: str) -> dict[str, Any]:
    """What the older version wrote beside its results; empty where that is gone."""
    beside = Path(path).with_name("metadata.json")
    found = document(str(beside)) if beside.exists() else {}
    return found if isinstance(found, dict) else {}


def _result(result: Mapping[str, Any], metadata: Mapping[str, Any], trials: Counter[str]) -> dict[str, Any]:
    task_id = str(result["example_id"])
    error, usage = result.get("error"), result.get("token_usage")
    messages = [*_turns(result["prompt"], "user"), *_turns(result["completion"], "assistant")]
    return row(
        "verifiers",
        episode_id=sha256(result)[:32],
        task_id=task_id,
        task_hash=sha256([metadata.get("env_id"), result["prompt"], result.get("answer")]),
        reward=result["reward"],
        void_reason=error["error"] if isinstance(error, dict) else error,
        agent={"name": "verifiers", "model": metadata.get("model")},
        trial=_next(trials, task_id),
        messages=[_message(message) for message in messages],
        timings=_timings(result.get("timing") or {}),
        tokens=(usage["input_tokens"], usage["output_tokens"]) if usage else None,
        tools=[_tool(tool) for tool in result.get("tool_defs") or ()],
        env=metadata.get("env_id"),
    )


def _turns(turns: Any, role: str) -> list[Mapping[str, Any]]:
    """Messages as they are, or a text as the one message of its role."""
    return [{"role": role, "content": turns}] if isinstance(turns, str) else turns or []


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: message[key] for key in ("role", "content", "tool_call_id", "name") if key in message}
    calls = [json.loads(call) if isinstance(call, str) else call for call in message.get("tool_calls") or ()]
    if not calls:
        return kept
    functions = [call.get("function") or call for call in calls]
    named = zip(calls, functions, strict=True)
    return {**kept, "tool_calls": [tool_call(call["id"], one["name"], one["arguments"]) for call, one in named]}


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    described = {key: tool[key] for key in ("name", "description", "parameters")}
    return {"type": "function", "function": described}


def _next(trials: Counter[str], task_id: str) -> int:
    trials[task_id] += 1
    return trials[task_id] - 1
