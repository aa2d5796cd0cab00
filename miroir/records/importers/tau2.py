"""tau2-bench's results: the JSON of `Results` (`tau2/data_model/simulation.py`), whole or with a simulations folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .rows import document, row, sha256, tool_call

# What tau2 itself leaves out of its metrics: NON_EVALUABLE_TERMINATION_REASONS.
_VOID = ("infrastructure_error", "context_window_exceeded")


def records(path: str) -> Iterator[dict[str, Any]]:
    """A record for each simulation; void where tau2 could not evaluate it."""
    results = document(path)
    hashes = {task["id"]: sha256(task) for task in results["tasks"]}
    info = results["info"]
    agent = {"name": info["agent_info"]["implementation"], "model": info["agent_info"].get("llm")}
    for run in _simulations(path, results):
        graded = run.get("reward_info")
        void = run["termination_reason"] in _VOID or not graded
        yield row(
            "tau2",
            episode_id=run["id"],
            task_id=str(run["task_id"]),
            task_hash=hashes[run["task_id"]],
            reward=graded["reward"] if graded else None,
            void_reason=run["termination_reason"] if void else None,
            agent=agent,
            trial=run.get("trial"),
            messages=[_message(message) for message in run.get("messages") or () if _seen(message)],
            timings={"started_at": run["start_time"], "episode_s": run["duration"]},
            tokens=_tokens(run),
            env=info["environment_info"]["domain_name"],
        )


def _simulations(path: str, results: Mapping[str, Any]) -> Iterator[Any]:
    """The simulations in the results, else those in the files of the folder beside them, one by one."""
    yield from results.get("simulations") or ()
    for file in sorted(Path(path).with_name("simulations").glob("*.json")):
        yield document(str(file))


def _seen(message: Mapping[str, Any]) -> bool:
    """Whether the agent saw the message: the user's own tool calls and their results it did not."""
    own = message["role"] == "user" and not message.get("content")
    return not own and message.get("requestor") != "user"


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    plain = {"role": message["role"], "content": message.get("content")}
    if message["role"] == "tool":
        return {**plain, "tool_call_id": message["id"]}
    calls = message.get("tool_calls") if message["role"] == "assistant" else None
    if not calls:
        return plain
    return {**plain, "tool_calls": [tool_call(call["id"], call["name"], call["arguments"]) for call in calls]}


def _tokens(run: Mapping[str, Any]) -> tuple[float, float] | None:
    used = [
        message["usage"]
        for message in run.get("messages") or ()
        if message["role"] == "assistant" and message.get("usage")
    ]
    if not used:
        return None
    return sum(usage["prompt_tokens"] for usage in used), sum(usage["completion_tokens"] for usage in used)
