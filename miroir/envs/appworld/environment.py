"""The gateway `appworld`: AppWorld's tasks, its code shell as a tool, and its evaluation as the grade."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...appworld import DEFAULT_IMAGE, AppWorldSession
from ...appworld.data import DataRoot
from ...errors import InvalidArgument
from ...serve.environment import Environment, Grade, ToolError, ToolResult
from ...wire import Persona, Task, Tool
from .backend import Backend, Options, share
from .grading import SUCCESS, check_rule, graded

MAX_OUTPUT = 100_000  # characters
EXECUTE: Tool = {
    "name": "execute",
    "description": (
        "Run Python in a shell that keeps its state, and return what it prints. apis.<app>.<api>(...) calls the apps;"
        " apis.api_docs.show_app_descriptions(), apis.api_docs.show_api_descriptions(app_name=...) and"
        " apis.api_docs.show_api_doc(app_name=..., api_name=...) describe them;"
        " apis.supervisor.show_account_passwords() has the passwords. End the task by"
        " apis.supervisor.complete_task(answer=...), without the answer where none is asked for."
    ),
    "inputSchema": {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
}
_FAILED = "Execution failed."  # how AppWorld's text begins when the code raised or was refused
_KINDS = {"dev": "validation", "test": "test"}  # by what a split's name begins with: test_normal, test_challenge


class AppWorld(Environment):
    """The tasks of `data_root`, in an AppWorld server behind this one.

    That server is a container of `image`, or where `python` names an interpreter that has appworld, a process of it,
    or the one at `url`. `engine` (docker or process) may say which of the first two is meant. `reward` is `success` or
    `partial`. Times are in seconds, `max_output` in characters.
    """

    name = "appworld"
    version = "1"
    description = "AppWorld: everyday tasks over simulated apps, solved by Python code."
    surfaces = ("code",)

    def __init__(
        self,
        data_root: str,
        engine: str | None = None,
        python: str | None = None,
        url: str | None = None,
        image: str = DEFAULT_IMAGE,
        outputs_dir: str | None = None,
        reward: str = SUCCESS,
        max_interactions: int = 40,
        execution_timeout_s: float = 100.0,
        startup_timeout_s: float = 180.0,
        max_output: int = MAX_OUTPUT,
    ) -> None:
        check_rule(reward)
        if max_interactions < 1 or max_output < 1 or execution_timeout_s <= 0 or startup_timeout_s <= 0:
            raise InvalidArgument("max_interactions, max_output and the timeouts must be above 0; correct the numbers")
        self._rule = reward
        self._max_steps = max_interactions
        self._execution_timeout_s = execution_timeout_s
        self._max_output = max_output
        self._data = DataRoot(data_root)
        self._open = contextlib.ExitStack()
        self._session: AppWorldSession | None = None
        options = Options(
            data_root=str(self._data.path),
            engine=engine,
            python=python,
            url=url,
            image=image,
            outputs_dir=outputs_dir,
            startup_timeout_s=startup_timeout_s,
            max_interactions=max_interactions,
            execution_timeout_s=execution_timeout_s,
        )
        self._shared = contextlib.ExitStack()
        self._backend: Backend = self._shared.enter_context(share(options))

    def splits(self) -> Mapping[str, str]:
        """A split for each file of the data root's datasets."""
        return {
            split: _KINDS.get(split, "test" if split.startswith("test") else "train") for split in self._data.splits()
        }

    def tasks(self, split: str) -> Sequence[Task]:
        """The tasks of a split, in the order of its file."""
        return [self._task(split, task_id) for task_id in dict.fromkeys(self._data.task_ids(split))]

    def tools(self, surface: str) -> Sequence[Tool]:  # noqa: ARG002 - there is one
        """`execute`; `submit` is every environment's."""
        return [EXECUTE]

    def reset(
        self,
        task: Task,
        *,
        episode_id: str,  # noqa: ARG002
        seed: int | None,  # noqa: ARG002 - a task's seed is its own: another would be another task
        max_seconds: int | None,  # noqa: ARG002 - a call that runs at the episode's end is cut by the server
        coworkers: bool,  # noqa: ARG002
        surface: str,  # noqa: ARG002
    ) -> Mapping[str, Any]:
        """Open the task's world; the observation says for whom the agent acts and what time it is there."""
        self._close_session()
        self._session = session = self._open.enter_context(self._backend.session(task["id"]))
        return {"instruction": session.instruction, "supervisor": session.supervisor, "now": session.datetime}

    def call(self, tool: str, arguments: dict[str, Any]) -> ToolResult:  # noqa: ARG002 - there is one
        """Run code; the episode is done once the code has called `complete_task`."""
        code = arguments["code"]
        if not isinstance(code, str):
            raise ToolError("code must be text", "invalid_args")
        session = self._playing()
        output = session.execute(code)
        return ToolResult(self._shown(output), done=session.is_done(), is_error=output.startswith(_FAILED))

    def grade(self) -> Grade:
        """AppWorld's own evaluation of the world as it stands."""
        return graded(self._playing().evaluate(), self._rule)

    def close(self) -> None:
        """Close the world; the last environment of its server stops that too."""
        try:
            self._close_session()
        finally:
            self._shared.close()

    def _task(self, split: str, task_id: str) -> Task:
        specs = self._data.specs(task_id)
        limits = [self._max_steps, self._execution_timeout_s]
        decides = {"world": self._data.digest(task_id), "grader": [self.version, self._rule], "limits": limits}
        return {
            "id": task_id,
            "task_hash": hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest(),
            "instruction": specs["instruction"],
            "persona": _persona(specs["supervisor"]),
            "max_steps": self._max_steps,
            "split": split,
            "tags": [],
        }

    def _shown(self, output: str) -> str:
        left = len(output) - self._max_output
        return output if left <= 0 else f"{output[: self._max_output]}\n[{left} more characters were printed]"

    def _playing(self) -> AppWorldSession:
        if self._session is None:
            raise RuntimeError("there is no episode; reset first")
        return self._session

    def _close_session(self) -> None:
        self._session = None
        self._open.close()


def _persona(supervisor: Mapping[str, Any]) -> Persona:
    name = " ".join(supervisor[key] for key in ("first_name", "last_name") if key in supervisor)
    reached = [
        f"the {key.replace('_', ' ')} {supervisor[key]}" for key in ("email", "phone_number") if key in supervisor
    ]
    return {"name": name, "description": f"with {' and '.join(reached)}" if reached else ""}
