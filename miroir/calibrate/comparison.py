"""Two calibrations of the same tasks, task by task."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import RecordError
from ..stats import mcnemar, paired
from .entries import SAME
from .file import read_calibration
from .names import named
from .tallies import LARGEST

Entries = Mapping[str, Mapping[str, Any]]


def compare(entries: Entries, path: str | os.PathLike[str]) -> dict[str, Any]:
    """How the entries differ from those of the calibration file `path`, over tasks graded in both.

    `difference` is of mean rewards, paired by task; `regressions` and `improvements` are the tasks whose mean reward
    fell or rose, each from and to, the largest change first; `mcnemar` is the p of their two counts. RecordError where
    no task is shared, or a shared one is of another version.
    """
    others = read_calibration(path)["tasks"]
    shared = [task_id for task_id in entries if task_id in others]
    stale = [task_id for task_id in shared if entries[task_id]["task_hash"] != others[task_id]["task_hash"]]
    if stale:
        raise RecordError(f"{path} is of another version (task_hash) of {named(stale)}; compare runs of the same tasks")
    bare = [task_id for task_id in shared if not _is_mean(others[task_id].get("reward_mean", ""))]
    if bare:
        raise RecordError(f"{path} lacks reward_mean for {named(bare)}; calibrate those rollouts again")
    graded = [
        task_id for task_id in shared if None not in (entries[task_id]["reward_mean"], others[task_id]["reward_mean"])
    ]
    if not graded:
        raise RecordError(f"{path} and these traces share no graded task; compare runs of the same tasks")
    return _compared(entries, others, graded, os.fspath(path))


def _compared(entries: Entries, others: Entries, graded: Sequence[str], path: str) -> dict[str, Any]:
    pairs = [(others[task_id], entries[task_id]) for task_id in graded]
    before, after = ([one["reward_mean"] for one in side] for side in zip(*pairs, strict=True))
    changes = {
        task_id: (old, new) for task_id, old, new in zip(graded, before, after, strict=True) if abs(new - old) > SAME
    }
    largest_first = sorted(changes, key=lambda task_id: -abs(changes[task_id][1] - changes[task_id][0]))
    worse = {name: changes[name] for name in largest_first if changes[name][1] < changes[name][0]}
    better = {name: changes[name] for name in largest_first if changes[name][1] > changes[name][0]}
    return {
        "path": path,
        "tasks": len(graded),
        "only_here": sorted(set(entries) - set(graded)),
        "only_there": sorted(set(others) - set(graded)),
        "difference": paired(before, after)._asdict(),
        "mcnemar": mcnemar(len(better), len(worse)),
        "regressions": worse,
        "improvements": better,
    }


def _is_mean(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and abs(value) <= LARGEST)


def comparison_lines(compared: Mapping[str, Any]) -> str:
    """The comparison in a few lines: the difference, what got worse, what got better, what was left out."""
    mean, low, high = (compared["difference"][key] for key in ("mean", "low", "high"))
    ends = "" if low is None else f" ({low:+.2f}..{high:+.2f})"
    lines = [
        f"against {compared['path']}: reward {mean:+.2f}{ends} over {compared['tasks']} tasks, "
        f"McNemar p {compared['mcnemar']:.3g}",
        *(f"{name}: {len(compared[name])}{_changes(compared[name])}" for name in ("regressions", "improvements")),
    ]
    alone = [*compared["only_here"], *compared["only_there"]]
    if alone:
        lines.append(f"{len(alone)} tasks are not graded in both: {named(alone)}")
    return "\n".join(lines)


def _changes(changes: Mapping[str, tuple[float, float]]) -> str:
    if not changes:
        return ""
    return f" ({named(f'{task_id} {old:.2f} -> {new:.2f}' for task_id, (old, new) in changes.items())})"
