"""How large a report may become: which episodes are whole in it, and on which of its pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from .alignment import best_pair
from .entry import Entry

MIB = 1 << 20
PAGE_BYTES = 24 * MIB  # of compressed records on one page; a browser opens that within a second or two
RULE = "kept first: harm, then a success of each task, failures, void, other successes; the smaller before the larger"


def embedded_bytes(entry: Entry) -> int:
    """How much of a page the record takes: base64 of its compressed form."""
    return (entry.length + 2) // 3 * 4


def chosen(entries: Sequence[Entry], limit: int) -> set[str]:
    """The ids of the episodes whose records fit into `limit` bytes together, by RULE."""
    if sum(map(embedded_bytes, entries)) <= limit:
        return {entry.episode_id for entry in entries}
    models = {entry.episode_id for entry in _models(entries)}
    left, kept = limit, set()
    for entry in sorted(entries, key=lambda entry: (_rank(entry, models), entry.length, entry.episode_id)):
        size = embedded_bytes(entry)
        if size <= left:
            kept.add(entry.episode_id)
            left -= size
    return kept


def pages(entries: Sequence[Entry], whole: set[str]) -> list[list[Entry]]:
    """The episodes by page, in their order; only `whole` ones take room, and a task stays on one page where it can."""
    found: list[list[Entry]] = [[]]
    room = PAGE_BYTES
    for _, group in groupby(entries, key=attrgetter("task_id")):
        task = list(group)
        sizes = [embedded_bytes(entry) if entry.episode_id in whole else 0 for entry in task]
        if sum(sizes) > room and found[-1]:
            found.append([])
            room = PAGE_BYTES
        for entry, size in zip(task, sizes, strict=True):
            if size > room and found[-1]:
                found.append([])
                room = PAGE_BYTES
            found[-1].append(entry)
            room -= size
    return found


def _models(entries: Iterable[Entry]) -> Iterable[Entry]:
    """A success of each task to hold its failures against: the one that their best pair has, or the shortest."""
    for _, group in groupby(entries, key=attrgetter("task_id")):
        task = list(group)
        pair = best_pair(task)
        successes = [entry for entry in task if entry.outcome == "success"]
        if pair or successes:
            yield pair.good if pair else min(successes, key=attrgetter("steps"))


def _rank(entry: Entry, models: set[str]) -> int:
    if entry.harm:
        return 0
    if entry.episode_id in models:
        return 1
    return {"failure": 2, "void": 3, "success": 4}[entry.outcome]
