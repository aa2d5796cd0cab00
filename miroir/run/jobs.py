"""What a run is to play: its tasks, the rollouts of each, and which of them are done already."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, cast

from ..agents import Agent
from ..chat.form import finite_json
from ..errors import InvalidArgument
from ..records.shape import mapping
from ..wire import Task, canonical_text, digest

_OF_THE_RUN = frozenset({"task_id", "episode_id", "max_seconds", "coworkers", "surface"})  # no option of a task's own

_FIELDS: Mapping[str, tuple[type | UnionType, str]] = {
    "id": (str, "text"),
    "task_hash": (str, "text"),
    "instruction": (str, "text"),
    "split": (str | None, "text"),
    "persona": (dict | None, "an object"),
    "coworkers": (list | None, "a list"),
    "max_steps": (int | None, "a whole number"),
    "tools": (list | None, "a list"),
}


class Job(NamedTuple):
    """One rollout to be played: the `trial`-th of its task, for the `attempt`-th time."""

    task: Task
    trial: int
    attempt: int = 0


class Done(NamedTuple):
    """What makes two rollouts the same: one graded record of it is enough."""

    task_id: str
    task_hash: str
    trial: int
    surface: str | None
    max_seconds: int | None
    agent: str
    model: str | None
    params: str


def done_key(task: Task, trial: int, surface: str | None, max_seconds: int | None, agent: Agent) -> Done:
    """The key of a rollout that is to be played."""
    params = canonical_text(dict(agent.params))
    return Done(task["id"], task["task_hash"], trial, surface, max_seconds, agent.name, agent.model, params)


def record_key(record: Mapping[str, Any]) -> Done:
    """The key of a rollout that was played; a task that was listed without a hash has the one it was given then."""
    agent, task, metadata = (mapping(record.get(name)) for name in ("agent", "task", "metadata"))
    parts = (
        record.get("task_id", ""),
        task.get("task_hash") or metadata.get("task_hash", ""),
        record.get("trial", 0),
        record.get("surface"),
        record.get("max_seconds"),
        agent.get("name", ""),
        agent.get("model"),
        canonical_text(agent.get("given", agent.get("params") or {})),
    )
    return Done._make(canonical_text(part) if isinstance(part, list | dict) else part for part in parts)


def rollouts(tasks: Iterable[Task], k: int, shard: tuple[int, int] | None = None) -> list[tuple[Task, int]]:
    """Each task `k` times, all first trials first; of these the shard (index from 0, count)."""
    listed = list(tasks)
    return [(task, trial) for trial in range(k) for task in listed if shard is None or _in_shard(task, trial, shard)]


def remaining(
    wanted: Iterable[tuple[Task, int]], keys: Iterable[Done], records: Iterable[Mapping[str, Any]]
) -> list[Job]:
    """The rollouts without a graded record among `records`; attempts go on from the void ones."""
    graded: set[Done] = set()
    void: Counter[Done] = Counter()
    for record in records:
        key = record_key(record)
        if record.get("reward") is None:
            void[key] += 1
        else:
            graded.add(key)
    return [Job(task, trial, void[key]) for (task, trial), key in zip(wanted, keys, strict=True) if key not in graded]


def read_tasks(path: str | os.PathLike[str]) -> list[Task]:
    """The tasks of a file, one JSON object a line: a Task, or `{"id"?, "reset": {options}, "instruction"?}`."""
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InvalidArgument(f"{path} cannot be read ({why}); name a file of one JSON object a line") from error
    rows = [_row(line, f"{path}, line {number},") for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise InvalidArgument(f"{path} holds no task; write one JSON object a line")
    return completed(rows)


def _row(line: str, where: str) -> dict[str, Any]:
    try:
        row = finite_json(line)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{where} is not JSON ({error}); write one task a line") from error
    if not isinstance(row, dict) or not isinstance(row.get("reset", {}), dict):
        raise InvalidArgument(f'{where} is not a task; write {{"id": …, "reset": {{…}}}}')
    taken = sorted(_OF_THE_RUN & row.get("reset", {}).keys())
    if taken:
        raise InvalidArgument(f"{where} sets {taken[0]} in its reset; that is the run's to say")
    return row


def numbered(count: int) -> list[Task]:
    """`count` tasks without options, `episode-0` and so on, for an environment that lists none."""
    if count < 1:
        raise InvalidArgument(f"{count} episodes is none; ask for at least one")
    return completed([{"id": f"episode-{index}"} for index in range(count)])


def completed(rows: Sequence[Mapping[str, Any]], split: str = "task") -> list[Task]:
    """Rows as tasks: a missing id is `<split>-<index>`, a missing hash the SHA-256 of the row's canonical JSON."""
    tasks = []
    for index, row in enumerate(rows):
        task = {"id": f"{split}-{index}", "task_hash": digest(row), "instruction": "", **row}
        wrong = [name for name, (kind, _) in _FIELDS.items() if not isinstance(task.get(name), kind)]
        if wrong:
            must = _FIELDS[wrong[0]][1]
            raise InvalidArgument(
                f"the {wrong[0]} of task {index} of {split} is {task[wrong[0]]!r:.100}; it must be {must}"
            )
        tasks.append(cast("Task", task))
    twice = [task_id for task_id, count in Counter(task["id"] for task in tasks).items() if count > 1]
    if twice:
        raise InvalidArgument(f"the task id {twice[0]!r} is there twice; give each task its own")
    return tasks


def with_options(tasks: Sequence[Task], fields: Mapping[str, str]) -> list[Task]:
    """The tasks, whose resets have further options: of each field of the task the option that it is called there."""
    made = []
    for task in tasks:
        missing = sorted(fields.keys() - task.keys())
        if missing:
            raise InvalidArgument(f"task {task['id']} has no field {missing[0]!r}; it has {', '.join(task)}")
        options = {option: cast("dict[str, Any]", task)[name] for name, option in fields.items()}
        made.append(cast("Task", {**task, "reset": {**task.get("reset", {}), **options}}) if options else task)
    return made


def chosen(tasks: Sequence[Task], ids: Sequence[str]) -> list[Task]:
    """The tasks of these ids, in the order of the list; InvalidArgument for an id that none has."""
    unknown = sorted(set(ids) - {task["id"] for task in tasks})
    if unknown:
        known = ", ".join(task["id"] for task in tasks[:5])
        raise InvalidArgument(f"there is no task {unknown[0]!r}; `miroir tasks` lists them ({known}, …)")
    return [task for task in tasks if task["id"] in set(ids)]


def _in_shard(task: Task, trial: int, shard: tuple[int, int]) -> bool:
    index, count = shard
    drawn = hashlib.sha256(f"{task['id']}:{trial}".encode()).digest()
    return int.from_bytes(drawn) % count == index
