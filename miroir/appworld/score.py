"""The score of a task: AppWorld's own verdict, and the requirements that it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import AppWorldError

HARMLESS = "no_op_pass"  # AppWorld's label of a requirement that doing nothing meets
_VERDICTS = ("success", "passes_fully")


@dataclass(frozen=True)
class Requirement:
    """One requirement of a task; `label` is AppWorld's no_op_fail or no_op_pass, `trace` says how it failed."""

    text: str
    label: str
    passed: bool
    trace: str = ""


@dataclass(frozen=True)
class TaskScore:
    """Whether the task is solved, after how many executions; `detail` is all that `/evaluate` answered."""

    task_id: str
    success: bool
    n_executions: int
    detail: Mapping[str, Any]

    @classmethod
    def read(cls, task_id: str, n_executions: int, detail: Mapping[str, Any]) -> TaskScore:
        """The score in an answer; AppWorldError when it holds no verdict."""
        for key in _VERDICTS:
            if key in detail:
                return cls(task_id, bool(detail[key]), n_executions, detail)
        raise AppWorldError(
            f"/evaluate of {task_id} answered neither success nor passes_fully but {', '.join(sorted(detail))};"
            " is this an AppWorld version that miroir knows?"
        )

    def requirements(self) -> list[Requirement]:
        """The requirements, those that were met first; AppWorldError when the answer does not list them."""
        try:
            return [
                Requirement(str(each["requirement"]), str(each["label"]), passed, str(each.get("trace", "")))
                for key, passed in (("passes", True), ("failures", False))
                for each in self.detail[key]
            ]
        except (KeyError, TypeError, AttributeError) as error:
            raise AppWorldError(
                f"/evaluate of {self.task_id} lists no passes and failures with requirement and label ({error!r});"
                " is this an AppWorld version that miroir knows?"
            ) from error
