"""Tasks that no training data may come from, and training tasks that look like them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..records.shape import mapping, text
from ..run.jobs import read_tasks

SHINGLE = 8  # words in a row that are compared
NEAR = 0.5  # the share of a task's word sequences from which it is nearly another

_WORDS = re.compile(r"\w+")


class Near(NamedTuple):
    """A training task and the excluded task that its instruction is nearly that of; `share` of its word sequences."""

    task_id: str
    excluded_id: str
    share: float


class Exclusion:
    """Excluded tasks, known by id, by task_hash and by instruction, letter case, blanks and punctuation aside."""

    def __init__(self, paths: Iterable[str | os.PathLike[str]] = ()) -> None:
        tasks = [task for path in paths for task in read_tasks(path)]
        self._ids = {task["id"] for task in tasks}
        self._hashes = {task["task_hash"] for task in tasks}
        self._instructions = {words for task in tasks if (words := _words(task["instruction"]))}
        self._tasks_by_shingle: dict[tuple[str, ...], list[str]] = {}
        for task in tasks:
            for shingle in _shingles(_words(task["instruction"])):
                self._tasks_by_shingle.setdefault(shingle, []).append(task["id"])

    def reason(self, record: Mapping[str, Any]) -> str | None:
        """Why no training data may come from the record; None where it may."""
        if record["task_id"] in self._ids:
            return "the id of an excluded task"
        if record["metadata"]["task_hash"] in self._hashes:
            return "the task_hash of an excluded task"
        if self._instructions and _words(instruction(record)) in self._instructions:
            return "the instruction of an excluded task"
        return None

    def near(self, task_id: str, text: str) -> Near | None:
        """The excluded task that shares most word sequences with an instruction, where it shares at least half."""
        shingles = _shingles(_words(text))
        shared: dict[str, int] = {}
        for shingle in shingles:
            for excluded in set(self._tasks_by_shingle.get(shingle, ())):
                shared[excluded] = shared.get(excluded, 0) + 1
        if not shared:
            return None
        excluded = max(sorted(shared), key=lambda each: shared[each])
        share = shared[excluded] / len(shingles)
        return Near(task_id, excluded, share) if share >= NEAR else None


def instruction(record: Mapping[str, Any]) -> str:
    """The record's instruction, "" where it keeps none."""
    return text(mapping(record.get("task")).get("instruction"))


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORDS.findall(text.lower()))


def _shingles(words: Sequence[str]) -> set[tuple[str, ...]]:
    if len(words) <= SHINGLE:
        return {tuple(words)} if words else set()
    return {tuple(words[start : start + SHINGLE]) for start in range(len(words) - SHINGLE + 1)}
