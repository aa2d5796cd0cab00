"""A rollout: the episode that one of a trainer's environments plays, from its reset to its record."""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections.abc import Mapping
from typing import Any

from ..agents import called
from ..episode import Episode
from ..errors import ConnectionFailed, InvalidArgument, MiroirError, NoFreeContainer
from ..records import save_record
from ..wire import Record, Task
from .leases import leases_of
from .messages import added, encodable
from .plan import Plan
from .toolbox import Toolbox

OVER = "The episode is over."

_log = logging.getLogger("miroir.trl")


class Rollout:
    """Plays one episode after another, each on a lease of its own that ends with the episode.

    Whatever fails inside an episode is kept and makes it void; nothing of it is raised. Used by one thread at a time;
    `free` may be called from any.
    """

    def __init__(self, plan: Plan, tasks: Mapping[str, Task], toolbox: Toolbox) -> None:
        self._plan = plan
        self._tasks = tasks
        self._toolbox = toolbox
        self._episode: Episode | None = None
        self._record: Record | None = None
        self._saving = threading.Lock()  # guards _unsaved
        self._unsaved: Record | None = None
        self._pid = os.getpid()

    def __repr__(self) -> str:
        episode = self._episode
        state = "idle" if episode is None else "running" if self._record is None else "over"
        return f"{episode.task['id'] if episode else 'no task'}, {state}"

    def begin(self, task_id: object) -> str | None:
        """Play the task from now on; what its first observation adds to the prompt of the dataset's row.

        An episode that was not graded yet is graded first. InvalidArgument for what is no task's id.
        """
        self.grade()
        self._episode = self._record = None
        task = self._task(task_id)
        leases = leases_of(self._plan)
        episode = Episode(task, self._plan.setting, trial=leases.trial(task["id"]))
        self._episode = episode
        leases.add(self)
        try:
            observation = episode.begin(leases.lease)
        except (NoFreeContainer, ConnectionFailed) as error:
            episode.fault = error
            self._conclude(episode)
        except MiroirError as error:
            if not episode.url:
                self._episode = None
                raise
            self._conclude(episode, error)
        except BaseException:
            self._episode = None
            episode.close()
            raise
        else:
            if self._episode is not episode:  # freed while it was waiting
                episode.close()
                return None
            if {tool["name"] for tool in episode.tools} != self._toolbox.names:
                _remark(f"task {task['id']} has other tools than the model is shown, which the environment lists")
            return encodable(added(task, episode.tools, observation))
        return None

    def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """What the tool answers, as the model is shown it; a fixed answer, and no request, once the episode is over."""
        episode = self._mine()
        if episode is None or self._record is not None:
            return OVER
        try:
            text, done = called(episode, tool, arguments)
        except Exception as error:
            self._conclude(episode, error)
            return OVER
        if done or episode.done:
            self._conclude(episode)
        return clipped(encodable(text), self._plan.max_chars)

    def grade(self, told: Mapping[str, Any] | None = None) -> Record | None:
        """The episode's record, graded or void, saved once; None where there is no episode.

        It ends the episode if it still runs. `told` goes into the record: what only the trainer knows.
        """
        episode = self._mine()
        if episode is not None and self._record is None:
            self._conclude(episode)
        self._save(told or {})
        return self._record

    def plays(self, plan: Plan) -> bool:
        """Whether it is one of those that the plan's Spec made."""
        return self._plan.key == plan.key

    def require(self, batch: int) -> None:
        """Raise MiroirError (ALL_VOID) when too many batches of so many episodes were void entirely."""
        leases_of(self._plan).require(self._plan.void_batches * batch)

    def free(self) -> None:
        """Give the container back: an episode that still runs leaves no record, one that is over is saved."""
        episode, self._episode = self._mine(), None
        if episode is not None:
            episode.close()
        self._save({})

    def _task(self, task_id: object) -> Task:
        if task_id is None:
            raise InvalidArgument(
                "the dataset has no column task_id; pass the Spec's own train_dataset, or add it, "
                "and leave remove_unused_columns False"
            )
        task = self._tasks.get(task_id) if isinstance(task_id, str) else None
        if task is None:
            raise InvalidArgument(f"no task {task_id!r} is among this environment's {len(self._tasks)}; name one")
        return task

    def _mine(self) -> Episode | None:
        """The episode; a forked child has none, since its parent's is the parent's to play and to record."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._episode = self._record = self._unsaved = None
        return self._episode

    def _conclude(self, episode: Episode, error: BaseException | None = None) -> None:
        record = episode.conclude(self._plan.policy, None, error).record
        if self._episode is not episode:
            return  # it was freed meanwhile, which is what went wrong
        leases_of(self._plan).count(record)
        self._record = record
        with self._saving:
            self._unsaved = record

    def _save(self, told: Mapping[str, Any]) -> None:
        with self._saving:
            record, self._unsaved = self._unsaved, None
        if record is None:
            return
        if self._plan.records is not None:
            tools = self._toolbox.told(record, spoken=bool(told.get("messages")))
            save_record(self._plan.records, {**record, **tools, **told})


@functools.cache
def _remark(text: str) -> None:
    """Log the text once."""
    _log.warning("%s", text)


def clipped(text: str, max_chars: int) -> str:
    """The text, or its beginning and how much was cut from it."""
    more = len(text) - max_chars
    return text if more <= 0 else f"{text[:max_chars]}\n[{more} more characters were cut]"
