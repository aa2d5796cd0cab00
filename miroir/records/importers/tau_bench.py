"""tau-bench's results: a JSON list of EnvRunResult (`tau_bench/types.py`), named for the agent and the model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...chat.form import recorded
from .rows import document, row, sha256

# What tau_bench/run.py names its files.
_NAME = re.compile(r"(?P<name>tool-calling|act|react|few-shot)-(?P<model>.+)-(?P<temperature>[\d.]+)_range_")


def records(path: str) -> Iterator[dict[str, Any]]:
    """A record for each result; one whose run crashed, which tau-bench scores 0, is void."""
    results = document(path)
    # a crashed run says nothing about its task: the others of the same task do
    tasks = {result["task_id"]: result["info"]["task"] for result in results if "task" in result["info"]}
    named = _NAME.match(Path(path).name)
    agent = {"name": named["name"], "model": named["model"]} if named else {"name": "tau-bench", "model": None}
    for at, result in enumerate(results):
        yield row(
            "tau-bench",
            episode_id=sha256([at, result])[:32],
            task_id=str(result["task_id"]),
            task_hash=sha256([tasks.get(result["task_id"], result["task_id"])]),
            reward=result["reward"],
            void_reason=result["info"].get("error"),
            agent=agent,
            trial=result["trial"],
            messages=[recorded(message) for message in result["traj"]],
            timings={},
        )
