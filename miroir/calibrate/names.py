"""Task ids for people: few, and safe on a terminal."""

from __future__ import annotations

from collections.abc import Iterable

SHOWN = 5


def named(task_ids: Iterable[str]) -> str:
    """At most five of the tasks by name, then how many more there are."""
    names = [shown(task_id) for task_id in task_ids]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def shown(task_id: str) -> str:
    """The id with what is not printable escaped, so that it can neither break a table nor move the cursor."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in task_id)
