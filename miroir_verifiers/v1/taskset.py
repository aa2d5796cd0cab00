"""A fleet's tasks as a taskset."""

from __future__ import annotations

from collections.abc import Iterable

import verifiers.v1 as vf

from .. import offers
from .config import MiroirTasksetConfig
from .task import MiroirTask, MiroirTaskData


class MiroirTaskset(vf.Taskset[MiroirTask, MiroirTasksetConfig]):
    """The tasks of one split that can be played, as a container that is alive lists them."""

    def load(self) -> Iterable[MiroirTask]:
        """Ask the fleet; a MiroirError says what is wrong with it, or with the settings."""
        config = self.config
        settings = config.task.settings(config.split)
        for row in offers.tasks(settings, config.calibration, config.keep):
            data = MiroirTaskData(
                id=row["id"], name=row["id"], prompt=offers.instructions(settings, row), row=dict(row)
            )
            yield MiroirTask(data, config.task)
