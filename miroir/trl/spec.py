"""What a training script holds: datasets, environments and the reward of one fleet."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .. import catalog
from ..calibrate.entries import LEARNABLE
from ..coworkers import CoworkerModel
from ..deadlines import Deadlines
from ..errors import InvalidArgument, MissingExtra
from ..fleet import Fleet
from ..records import writable
from ..run.offer import Offer
from ..urls import Source, Urls
from ..wire import Task, Tool
from .environment import Factory
from .leases import leases_of
from .messages import asked, encodable
from .plan import Plan, Policy
from .preflight import Demand, check_versions, demand, warn_of, warn_of_few, warn_of_template
from .reward import Reward
from .suite import Chosen, eval_tasks, toolsets, train_tasks

Factories = Factory | dict[str, Factory]


class Spec:
    """A fleet as TRL's trainers take it; a context manager that frees every container of this process at its end.

    `tasks` (ids, or tasks of one's own) and `calibration` with `keep` choose among the split's tasks. `records` is the
    folder of the episodes' records, in which `model` names the policy. A tool's answer is cut at `max_chars`
    characters. A reset waits `lease_s` seconds for a free container. After `void_batches` batches in a row
    that are void entirely the training is ended by an error.
    """

    def __init__(
        self,
        urls: Urls,
        token: str | None = None,
        *,
        split: str = "train",
        eval_split: str | None = "eval",
        tasks: Chosen | None = None,
        calibration: str | os.PathLike[str] | None = None,
        keep: Sequence[str] = (LEARNABLE,),
        coworker_model: CoworkerModel | None = None,
        surface: str | None = None,
        max_seconds: int | None = None,
        records: str | os.PathLike[str] | None = None,
        model: str | None = None,
        max_chars: int = 8000,
        lease_s: float = 120.0,
        void_batches: int = 3,
        wait_s: float = 10.0,
        deadlines: Deadlines | None = None,
    ) -> None:
        if min(max_chars, void_batches, 1 if max_seconds is None else max_seconds) < 1 or not lease_s > 0:
            numbers = "max_chars, void_batches and max_seconds must be at least 1, and lease_s more than 0"
            raise InvalidArgument(f"{numbers}; correct the numbers")
        limits = deadlines or Deadlines()
        url = catalog.first_alive(Source.of(urls).read(), token, wait_s=wait_s)
        offer = Offer.of(url, token, surface)
        modelled = coworker_model is not None
        self.tasks = train_tasks(offer, split, tasks, calibration, keep, coworkers=modelled)
        self.eval_tasks = eval_tasks(offer, eval_split, coworkers=modelled)
        self._plan = Plan(
            key=uuid.uuid4().hex,
            urls=Path(urls).absolute() if isinstance(urls, os.PathLike) else urls,
            token=token,
            setting=offer.setting(surface, max_seconds, coworker_model, limits),
            policy=Policy(model=model),
            deadlines=limits,
            lease_s=lease_s,
            records=None if records is None else str(writable(records).absolute()),
            max_chars=max_chars,
            void_batches=void_batches,
        )
        self._toolsets = toolsets([*self.tasks, *self.eval_tasks], offer.tools or self._session_tools())
        self.reward = Reward(self._plan)

    def _session_tools(self) -> list[Tool]:
        """The tools of a plain server, which only a session tells."""
        plan = self._plan
        with (
            Fleet(plan.urls, plan.token, deadlines=plan.deadlines) as fleet,
            fleet.lease(timeout_s=plan.lease_s) as session,
        ):
            tools = session.tools()
        if not tools:
            raise InvalidArgument(
                f"{session.url} lists no tools, and TRL plays by tool calls; serve one that has tools"
            )
        return tools

    @property
    def environment_factory(self) -> Factories:
        """Makes GRPOTrainer's environments; where tasks differ in their tools, a factory for each set of tools."""
        return self._factories(graded=False)

    @property
    def async_environment_factory(self) -> Factories:
        """The same for AsyncGRPOTrainer: the environments grade themselves, and there is no reward function."""
        return self._factories(graded=True)

    @property
    def train_dataset(self) -> Any:
        """A `datasets.Dataset` with a row for each task to train on; MissingExtra without datasets."""
        return self._dataset(self.tasks)

    @property
    def eval_dataset(self) -> Any:
        """The same for the tasks of `eval_split`; InvalidArgument where there are none."""
        if not self.eval_tasks:
            raise InvalidArgument("the environment has no tasks for evaluation; name their split as eval_split")
        return self._dataset(self.eval_tasks)

    def check(self, args: Any, tokenizer: Any = None) -> Demand:
        """Hold a GRPOConfig, or AsyncGRPOConfig, against the fleet and the tasks: how many containers it can want.

        InvalidArgument for what cannot work, warnings for what costs days; with a tokenizer also of its chat template.
        """
        check_versions()
        warn_of(args, [*self.tasks, *self.eval_tasks])
        warn_of_few(args, len(self.tasks))
        if tokenizer is not None:
            warn_of_template(tokenizer)
        found = demand(args, self._plan)
        found.require()
        found.tell()
        return found

    def close(self) -> None:
        """Free every container that this process holds for the training."""
        leases_of(self._plan).close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _factories(self, *, graded: bool) -> Factories:
        check_versions()
        made = {
            name: Factory(self._plan, tools, tasks, "Miroir" if len(self._toolsets) == 1 else f"Miroir-{name}", graded)
            for name, (tools, tasks) in self._toolsets.items()
        }
        return made if len(made) > 1 else next(iter(made.values()))

    def _dataset(self, tasks: Sequence[Task]) -> Any:
        try:
            datasets = import_module("datasets")
        except ModuleNotFoundError as error:
            raise MissingExtra("datasets for TRL need the package datasets; pip install 'miroir[trl]'") from error
        return datasets.Dataset.from_list([self._row(task) for task in tasks])

    def _row(self, task: Task) -> dict[str, Any]:
        """The task as a row of a dataset: what the model is asked, and what tells the environment which task it is."""
        name, (tools, _) = next(item for item in self._toolsets.items() if task["id"] in item[1].tasks)
        content = encodable(asked(task, tools))
        row = {"prompt": [{"role": "user", "content": content}], "task_id": task["id"]}
        return row if len(self._toolsets) == 1 else {**row, "environment": name}
