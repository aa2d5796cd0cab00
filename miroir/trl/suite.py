"""The tasks of a training run, and which tools each of them shows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from .. import catalog
from ..calibrate import calibrated
from ..calibrate.entries import LEARNABLE
from ..coworkers import answerable
from ..episode import shown
from ..errors import HttpError, InvalidArgument
from ..run.jobs import chosen, completed
from ..run.offer import Offer
from ..wire import Task, Tool

Chosen = Sequence[str] | Sequence[Task]  # ids of the split's tasks, or tasks of the user's own


class Toolset(NamedTuple):
    """The tools that some tasks show, and these tasks by their ids."""

    tools: Sequence[Tool]
    tasks: Mapping[str, Task]


def train_tasks(
    offer: Offer,
    split: str,
    wanted: Chosen | None,
    calibration: str | os.PathLike[str] | None,
    keep: Sequence[str],
    *,
    coworkers: bool,
) -> list[Task]:
    """The tasks to train on; InvalidArgument when none is left, RecordError for a calibration of other tasks."""
    if isinstance(wanted, str):
        raise InvalidArgument(f"tasks is the text {wanted!r}; pass a list of ids")
    if calibration is None and tuple(keep) != (LEARNABLE,):
        raise InvalidArgument("keep chooses by a calibration, and there is none; name its file as calibration")
    own = [one for one in wanted or () if isinstance(one, Mapping)]
    if own and len(own) < len(wanted or ()):
        raise InvalidArgument("tasks are ids or objects, and these are both; pass one kind")
    tasks = completed(cast("Sequence[Task]", own)) if own else offer.tasks([split])
    if wanted is not None and not own:
        tasks = chosen(tasks, cast("Sequence[str]", wanted))
    tasks = answerable(tasks, coworkers)  # rollouts that were calibrated left the same ones out
    if not tasks:
        raise InvalidArgument("there is no task to train on; name another split, or a coworker model")
    return tasks if calibration is None else calibrated(tasks, calibration, keep)


def eval_tasks(offer: Offer, split: str | None, *, coworkers: bool) -> list[Task]:
    """The tasks of the split for evaluation; none where the environment has no such split."""
    if split is None:
        return []
    try:
        known = catalog.splits(offer.url, offer.token)
    except HttpError:  # a plain server need not have splits
        return []
    return answerable(offer.tasks([split]), coworkers) if split in known else []


def toolsets(tasks: Sequence[Task], tools: Sequence[Tool]) -> dict[str, Toolset]:
    """The tasks by the tools that they show, each set under a name.

    InvalidArgument where two tasks share an id, or one shows no tool.
    """
    groups: dict[tuple[str, ...], dict[str, Task]] = {}
    listed: dict[str, Task] = {}
    for task in tasks:
        if listed.setdefault(task["id"], task) != task:
            raise InvalidArgument(f"two tasks of the splits are called {task['id']!r}; leave the eval_split out (None)")
        names = tuple(tool["name"] for tool in shown(task, tools))
        if not names:
            raise InvalidArgument(
                f"task {task['id']} shows none of the environment's tools, and TRL plays by tool calls; leave it out"
            )
        groups.setdefault(names, {})[task["id"]] = task
    return {
        f"tools-{number}": Toolset([tool for tool in tools if tool["name"] in names], members)
        for number, (names, members) in enumerate(groups.items(), 1)
    }
