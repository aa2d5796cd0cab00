"""The gateway `ors`: one lease of ours is one session of an Open Reward Standard server."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

from ...errors import HttpError, InvalidArgument
from ...rest import secret_from
from ...serve import Check, Environment, Grade, InvalidOption, ToolError, ToolResult, UnknownTask
from ...wire import SUBMIT, Task, Tool, digest, submits
from ...wire import tools as wire_tools
from .rewards import Rewards
from .server import OrsServer, OrsSession

CALL_S = 600.0  # what a call may take where the episode has no limit
MARGIN_S = 10.0  # past the episode's end, when the server here gives the call up
_ERROR_TYPES = {"input_validation": "invalid_args", "not_found": "tool_not_found"}
_ALMOST_ONE = 1.0 - 1e-9
_EVIDENCE = 2000  # characters of what the environment said of a finished episode
_GIVE_UP = "End the episode as it stands. If another tool takes the answer, call that one instead."


class Ors(Environment):
    """An environment of the ORS server at `url`; `env` names which, by default the first.

    `reward` says what the calls' rewards come to: the `last`, or the `sum`. `secrets` names the environment variables,
    with commas between, whose values the environment is given; `api_key_env` the one with the server's own key.
    """

    description = "an environment of an Open Reward Standard server"

    def __init__(
        self,
        url: str,
        env: str | None = None,
        reward: str = "last",
        secrets: str = "",
        api_key_env: str | None = None,
        max_steps: int = 200,
    ) -> None:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise InvalidArgument(f"--url {url!r} is no base URL; write http://host:port")
        self._rewards = Rewards(reward)
        self._rule = reward
        self._secrets = {name: secret_from(name) or "" for name in secrets.split(",") if name}
        self._max_steps = max_steps
        self._server = OrsServer(url, env, secret_from(api_key_env))
        self.name, self.version = self._server.env, self._server.version()
        self._listed: dict[str, list[Task]] | None = None
        self._session: OrsSession | None = None
        self._task_tools: dict[str, Any] = {}
        self._deadline: float | None = None
        self._evidence = ""

    def splits(self) -> Mapping[str, str]:
        """The server's splits."""
        return self._server.splits()

    def tasks(self, split: str) -> Sequence[Task]:
        """The server's tasks; an id that is missing, or that two tasks have, is `<split>-<index>`."""
        if self._listed is None:
            self._listed = self._list()
        return self._listed[split]

    def _list(self) -> dict[str, list[Task]]:
        rows = {split: self._server.tasks(split) for split in self.splits()}
        counts = Counter(_own_id(row) for listed in rows.values() for row in listed)
        return {
            split: [self._task(split, index, row, counts) for index, row in enumerate(listed)]
            for split, listed in rows.items()
        }

    def _task(self, split: str, index: int, row: Any, counts: Counter[str | None]) -> Task:
        own = _own_id(row)
        task = {
            "id": own if own and counts[own] == 1 else f"{split}-{index}",
            "task_hash": digest([self.name, row]),
            "instruction": "",  # the prompt is made for a session: the first observation has it
            "max_steps": self._max_steps,
            "split": split,
            "index": index,
        }
        return cast("Task", task)

    def tools(self, surface: str) -> Sequence[Tool]:  # noqa: ARG002 - there is one surface
        """The tools that every task has."""
        return _tools(self._server.tools())

    def reset(
        self,
        task: Task,
        *,
        episode_id: str,  # noqa: ARG002 - the server has ids of its own
        seed: int | None,
        max_seconds: int | None,
        coworkers: bool,  # noqa: ARG002
        surface: str,  # noqa: ARG002
    ) -> Mapping[str, Any]:
        """A new session of the server on the task; its prompt."""
        if seed is not None:
            raise InvalidOption("an ORS environment takes no seed; leave it out")
        self._end()
        self._rewards = Rewards(self._rule)
        self._evidence = ""
        listed = cast("dict[str, Any]", task)
        try:
            self._session = OrsSession(self._server, listed["split"], listed["index"], self._secrets)
        except HttpError as error:
            if error.status == 400:
                raise UnknownTask(f"the ORS server no longer has task {task['id']}: {error.message}") from error
            raise
        prompt = self._session.prompt()
        self._task_tools = self._session.tools()
        self._deadline = None if max_seconds is None else time.monotonic() + max_seconds
        return {"prompt": _content(prompt)}

    def task_tools(self) -> Sequence[Tool]:
        """The tools of the task, its own among them."""
        return _tools(self._task_tools)

    def call(self, tool: str, arguments: dict[str, Any]) -> ToolResult:
        """Call the tool on the server; `submit` ends the episode where the server has none of its own."""
        if tool == SUBMIT and not submits(self._task_tools["tools"]):
            return self._submit(arguments)
        return self._call(tool, arguments)

    def _call(self, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        assert self._session is not None
        limit_s = CALL_S if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        result = self._session.call(tool, arguments, limit_s + MARGIN_S)
        if not result["ok"]:
            reason = str(result.get("reason") or "execution_error")
            raise ToolError(str(result.get("error")), _ERROR_TYPES.get(reason, reason))
        output = result["output"]
        finished = bool(output.get("finished"))
        self._rewards.add(output.get("reward"), finished=finished)
        if finished:
            self._evidence = json.dumps(output.get("metadata"), ensure_ascii=False)[:_EVIDENCE]
        return ToolResult(_content(output["blocks"]), done=finished, reward=self._rewards.so_far)

    def _submit(self, arguments: Mapping[str, Any]) -> ToolResult:
        """End the episode: by the server's terminal tool where it has one, else as it stands."""
        terminal = self._task_tools.get("terminal_tool")
        if not terminal:
            return ToolResult("The episode is over.", done=True, reward=self._rewards.so_far)
        argument = terminal.get("arg")
        said = self._call(terminal["name"], {argument: arguments.get(argument, "")} if argument else {})
        return ToolResult(said.content, done=True, reward=said.reward)

    def grade(self) -> Grade:
        """The episode's reward by the rule; a success is a finished episode with a reward of at least 1."""
        if not self._rewards.finished and self._task_tools.get("terminal_tool"):
            with contextlib.suppress(ToolError):
                self._submit({})
        reward, finished = self._rewards.final, self._rewards.finished
        given = self._rewards.given
        return Grade(
            reward=reward,
            success=finished and reward is not None and reward >= _ALMOST_ONE,
            checks=[Check("finished", finished, self._evidence)],
            diagnostics={"rewards": len(given), "reward_sum": sum(given), "reward_last": given[-1] if given else 0.0},
        )

    def close(self) -> None:
        """End the server's session."""
        self._end()

    def _end(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


def _tools(answer: Mapping[str, Any]) -> list[Tool]:
    """The tools of the server's answer, and `submit` where it has none."""
    tools = wire_tools(answer["tools"])
    if submits(tools):
        return tools
    terminal = answer.get("terminal_tool") or {}
    properties = {terminal["arg"]: {"type": "string"}} if terminal.get("arg") else {}
    said = terminal.get("description") or ("Give your answer and end the episode." if terminal else _GIVE_UP)
    return [
        *tools,
        {"name": SUBMIT, "description": said, "inputSchema": {"type": "object", "properties": properties}},
    ]


def _content(blocks: Sequence[Mapping[str, Any]]) -> str | dict[str, Any]:
    """Blocks of text as one text; with others among them, such as images, the blocks as they are."""
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(block["text"] for block in blocks)
    return {"blocks": [dict(block) for block in blocks]}


def _own_id(row: Any) -> str | None:
    own = row.get("id") if isinstance(row, dict) else None
    return str(own) if isinstance(own, str | int) and not isinstance(own, bool) and own != "" else None
