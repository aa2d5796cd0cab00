"""What a fleet's servers offer to whoever plays on them, whichever protocol they speak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from .. import catalog
from ..coworkers import CoworkerModel
from ..deadlines import Deadlines
from ..episode import Setting
from ..errors import HttpError, InvalidArgument
from ..records.shape import mapping
from ..session.capability import asked
from ..wire import Task, Tool
from .jobs import completed

_NO_ROUTE = frozenset({404, 405, 501})


@dataclass(frozen=True)
class Offer:
    """What the server at `url` offers. `tools` is empty where only a session tells them: on a plain OpenEnv server."""

    url: str
    token: str | None = field(repr=False)
    plain: bool
    env: Mapping[str, str]
    tools: Sequence[Tool]

    @classmethod
    def of(cls, url: str, token: str | None, surface: str | None = None) -> Offer:
        """Ask the server; InvalidArgument for a surface of one that has none."""
        server = asked(url, token)
        if not server.plain:
            return cls(url, token, False, catalog.environment(url, token), catalog.tools(url, token, surface))
        if surface is not None:
            raise InvalidArgument(f"{url} is a plain OpenEnv server and has no surfaces; leave out {surface!r}")
        return cls(url, token, True, server.env, ())

    def tasks(self, splits: Sequence[str]) -> list[Task]:
        """The tasks of the splits, each with its split; InvalidArgument where the server lists none.

        A plain server's task is reset by its split and index, as OpenEnv has it, and by its id.
        """
        tasks: list[Task] = []
        for split in dict.fromkeys(splits):
            rows = completed(self._rows(split), split)
            tasks += [self._task(task, split, index) for index, task in enumerate(rows)]
        return tasks

    def setting(
        self,
        surface: str | None,
        max_seconds: int | None,
        coworker_model: CoworkerModel | None,
        deadlines: Deadlines,
    ) -> Setting:
        """What the episodes have in common that are played on it."""
        return Setting(
            tools=self.tools,
            env=self.env,
            surface=surface,
            max_seconds=max_seconds,
            coworker_model=coworker_model,
            coworker_s=deadlines.coworker_s,
        )

    def _rows(self, split: str) -> list[Task]:
        try:
            return catalog.tasks(self.url, split, self.token)
        except HttpError as error:
            if self.plain and error.status in _NO_ROUTE:
                raise InvalidArgument(
                    f"{self.url} lists no tasks; name a file of them (--tasks), or say how many episodes (--episodes)"
                ) from error
            raise

    def _task(self, task: Task, split: str, index: int) -> Task:
        listed = {**task, "split": task.get("split") or split}
        if self.plain:
            listed["reset"] = {"task_id": task["id"], "split": split, "index": index, **mapping(task.get("reset"))}
        return cast("Task", listed)
