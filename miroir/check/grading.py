"""The form of a record, version 1, and the arithmetic that holds in it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

from ..wire import ENDINGS, RECORD_SCHEMA, SUBMIT
from .rules import require, require_keys

_NUMBER = (int, float)
_SLACK_S = 0.05  # of times that were rounded, and read one after the other
_TOP: dict[str, Any] = {
    "episode_id": str,
    "task_id": str,
    "env": dict,
    "metadata": dict,
    "diagnostics": dict,
    "timings": dict,
    "steps": list,
    "reward": (*_NUMBER, type(None)),
    "split": (str, type(None)),
}
_METADATA: dict[str, Any] = {
    "task_hash": str,
    "success": bool,
    "harm": bool,
    "ended_by": str,
    "void_reason": (str, type(None)),
    "checks": list,
    "harms": list,
}
_STEP: dict[str, Any] = {"result": (str, dict), "done": bool, "at_s": _NUMBER, "seconds": _NUMBER}


def require_record(record: Any, task: Mapping[str, Any], episode_id: str, env: Mapping[str, Any]) -> None:
    """Broken unless it is a record of that episode of the task, in the form of version 1."""
    require_keys(record, _TOP, "the record")
    require(record.get("schema") == RECORD_SCHEMA, f"schema {RECORD_SCHEMA}")
    require(record["episode_id"] == episode_id and record["task_id"] == task["id"], "the episode's and the task's id")
    require(record["env"] == dict(env), "the name and version that /health tells as env")
    metadata = record["metadata"]
    require_keys(metadata, _METADATA, "metadata")
    require(metadata["task_hash"] == task.get("task_hash"), "the task_hash under which the task is listed")
    require(metadata["ended_by"] in ENDINGS, f"ended_by as one of {', '.join(ENDINGS)}")
    for check in metadata["checks"]:
        require_keys(check, {"name": str, "passed": bool, "detail": str}, "each check")
    for harm in metadata["harms"]:
        require_keys(harm, {"name": str, "detail": str}, "each harm")
    require_keys(record["timings"], {"started_at": str, "episode_s": _NUMBER, "env_s": _NUMBER}, "timings")
    for step in record["steps"]:
        require_keys(step, _STEP, "each step")
        require("tool" in step or "action" in step, "a tool, or an action, in each step")
    require(_finite(record), "finite numbers")


def require_arithmetic(record: Mapping[str, Any], *, steps: int, tool_errors: int) -> None:
    """Broken unless the numbers of a graded record agree with each other and with what was done."""
    metadata, listed, diagnostics = record["metadata"], record["steps"], record["diagnostics"]
    counted = [step for step in listed if step.get("tool") != SUBMIT]
    require(len(counted) == steps, f"{steps} steps beside submit; there are {len(counted)}")
    require(diagnostics.get("steps") == steps, f"diagnostics.steps {steps}")
    require(diagnostics.get("tool_errors") == tool_errors, f"diagnostics.tool_errors {tool_errors}")
    require(metadata["harm"] == bool(metadata["harms"]), "harm true exactly when there are harms")
    void = metadata["void_reason"] is not None
    require((record["reward"] is None) == void, "a void_reason exactly when the reward is null")
    require(not (void and metadata["success"]), "no success of a void episode")
    at = [step["at_s"] for step in listed]
    require(all(earlier <= later for earlier, later in itertools.pairwise(at)), "at_s that grows from step to step")
    whole, timings = record["timings"]["episode_s"] + _SLACK_S, record["timings"]
    require(not at or at[-1] <= whole, "the last step within episode_s")
    require(0 <= timings["env_s"] <= whole, "env_s within episode_s")
    require(bool(listed) and listed[-1]["done"] is True, "done true in the last step")


def _finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_finite(inner) for inner in value.values())
    if isinstance(value, list):
        return all(_finite(inner) for inner in value)
    return not isinstance(value, float) or math.isfinite(value)
