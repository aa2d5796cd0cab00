"""Inspect's logs in JSON: `EvalLog` (`inspect_ai/log/_log.py`), a task's samples in one or more epochs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import RecordError
from .rows import document, row, sha256, tool_call

# value_to_float of inspect_ai/scorer/_metric.py
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def records(path: str, score: str | None = None) -> Iterator[dict[str, Any]]:
    """A record for each sample and epoch; void where it ended in an error or was not scored."""
    log = document(path)
    evaluation = log["eval"]
    agent = {"name": evaluation.get("solver") or "inspect", "model": evaluation["model"]}
    for sample in log.get("samples") or ():
        error, where = sample.get("error"), f"{path}, sample {sample['id']}"
        yield row(
            "inspect",
            episode_id=sample.get("uuid") or sha256([evaluation["run_id"], sample["id"], sample["epoch"]])[:32],
            task_id=f"{evaluation['task']}/{sample['id']}",
            task_hash=sha256([evaluation["task"], evaluation.get("task_version"), *_posed(sample)]),
            reward=_reward(sample, score, where),
            void_reason=error["message"] if error else None,
            agent=agent,
            trial=sample["epoch"] - 1,
            messages=[_message(message) for message in sample["messages"]],
            timings={"started_at": sample.get("started_at"), "episode_s": sample.get("total_time")},
            tokens=_tokens(sample, evaluation["model"]),
            env=evaluation["task"],
        )


def _posed(sample: Mapping[str, Any]) -> tuple[Any, Any]:
    """What was asked and expected; the ids of input messages are drawn anew for each run."""
    asked = sample["input"]
    if isinstance(asked, list):
        asked = [{key: value for key, value in message.items() if key != "id"} for message in asked]
    return asked, sample["target"]


def _reward(sample: Mapping[str, Any], name: str | None, where: str) -> float | None:
    scores = sample.get("scores") or {}
    if not scores:
        return None
    if name is None and len(scores) > 1:
        raise RecordError(f"{where} has several scores: {', '.join(scores)}; choose one as inspect:NAME")
    if name is not None and name not in scores:
        raise RecordError(f"{where} has no score {name}, only {', '.join(scores)}; choose one of them")
    value = scores[name or next(iter(scores))]["value"]
    number = _number(value)
    if number is None:
        raise RecordError(f"{where} has the score {value!r:.60}, which is no number; choose another as inspect:NAME")
    return number


def _number(value: Any) -> float | None:
    if isinstance(value, int | float):
        return float(value)
    if not isinstance(value, str):
        return None
    if value in _LETTERS:
        return _LETTERS[value]
    try:
        return _WORDS[value.lower()] if value.lower() in _WORDS else float(value)
    except ValueError:
        return None


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    plain = {"role": message["role"], "content": _text(message["content"])}
    if message["role"] == "tool":
        return {**plain, "tool_call_id": message.get("tool_call_id"), "name": message.get("function")}
    calls = message.get("tool_calls")
    if not calls:
        return plain
    return {**plain, "tool_calls": [tool_call(call["id"], call["function"], call["arguments"]) for call in calls]}


def _text(content: Any) -> Any:
    """Text as it is; of content in parts the text of those that have some, where all do."""
    if isinstance(content, list) and all(part.get("type") == "text" for part in content):
        return "\n".join(part["text"] for part in content)
    return content


def _tokens(sample: Mapping[str, Any], model: str) -> tuple[float, float] | None:
    usage = (sample.get("model_usage") or {}).get(model)
    return (usage["input_tokens"], usage["output_tokens"]) if usage else None
