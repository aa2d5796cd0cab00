"""What an environment offers: its name, splits, tasks and tools, and the prompt of a task."""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, cast
from urllib.parse import quote, urlencode

from . import rest
from .broker.probe import Prober
from .chat.form import result_text
from .errors import ConnectionFailed, InvalidArgument, MiroirError, ToolsError
from .urls import endpoint
from .wire import Health, Task, Tool, submits
from .wire import tools as wire_tools

_AT_ONCE = 128
_PAUSE_S = 0.25
_SILENT = frozenset({"metadata", "episode_id", "reward", "done"})  # an observation's keys that tell a model nothing


def answering(urls: Sequence[str], token: str | None = None) -> str:
    """The first of `urls` whose environment answers; else the last one's failure is raised."""
    if not urls:
        raise InvalidArgument("there is no URL to ask; pass at least one")
    failure: MiroirError | None = None
    for url in urls:
        try:
            environments(url, token)
        except MiroirError as error:
            failure = error
        else:
            return url
    assert failure is not None
    raise failure


def first_alive(urls: Sequence[str], token: str | None = None, *, wait_s: float = 10.0) -> str:
    """The base URL of a container that is alive, leased or not; ConnectionFailed when none is for `wait_s` seconds."""
    if math.isnan(wait_s):
        raise InvalidArgument("the wait is no number of seconds; give one, such as 10")
    deadline = time.monotonic() + wait_s
    prober = Prober(token)
    order = random.sample(list(urls), len(urls))
    try:
        while True:
            reasons: dict[str, str] = {}
            for url, health in _healths(prober, order):
                if health.healthy:
                    return url
                reasons[url] = health.reason
            if time.monotonic() >= deadline:
                shown = "; ".join(f"{url}: {reason}" for url, reason in list(reasons.items())[:3])
                raise ConnectionFailed(
                    f"none of {len(order)} containers is alive ({shown}); start them (`miroir pool`), or mend the URLs"
                )
            time.sleep(_PAUSE_S)
    finally:
        prober.close()


def capacity(urls: Sequence[str], token: str | None = None) -> int:
    """How many sessions the containers that are healthy now have room for in all, leased or not."""
    prober = Prober(token)
    try:
        return sum(health.slots or 1 for _, health in _healths(prober, urls) if health.healthy)
    finally:
        prober.close()


def _healths(prober: Prober, urls: Sequence[str]) -> Iterator[tuple[str, Health]]:
    """The health of every container, as the answers come; a bounded number is asked at a time."""
    queue = list(urls)
    pending = 0
    while queue or pending:
        while queue and pending < _AT_ONCE:
            prober.start(queue.pop())
            pending += 1
        for answer in prober.poll(1.0):
            pending -= 1
            yield answer


def environment(url: str, token: str | None = None) -> dict[str, str]:
    """Name and version of the environment that the container serves."""
    said = rest.get(endpoint(url, "health"), token=token, timeout_s=rest.HEALTH_TIMEOUT_S)
    env = said.get("env") if isinstance(said, dict) else None
    if not isinstance(env, dict):
        env = rest.get(endpoint(url, "metadata"), token=token)
    return {"name": str(env.get("name")), "version": str(env.get("version"))}


def environments(url: str, token: str | None = None) -> list[str]:
    """The names of the environments that the server has."""
    names = rest.get(endpoint(url, "list_environments"), token=token)
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ConnectionFailed(f"{url} lists no environment; is this an environment server?", url=url)
    return names


def splits(url: str, token: str | None = None) -> list[str]:
    """The names of the environment's splits."""
    listed = rest.get(endpoint(url, f"{_name(url, token)}/splits"), token=token)
    if not isinstance(listed, list):
        raise ConnectionFailed(f"{url} answered no list of splits; is this an environment server?", url=url)
    return [str(split.get("name") if isinstance(split, dict) else split) for split in listed]


def tasks(url: str, split: str = "train", token: str | None = None) -> list[Task]:
    """The tasks of a split, as the environment lists them; HttpError (HTTP_400) for a split that it does not have."""
    answer = rest.post(endpoint(url, f"{_name(url, token)}/tasks"), {"split": split}, token=token)
    rows = answer.get("tasks") if isinstance(answer, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConnectionFailed(f"{url} answered no list of tasks; is this an environment server?", url=url)
    return cast("list[Task]", rows)


def tools(url: str, token: str | None = None, surface: str | None = None) -> list[Tool]:
    """The tools that the environment shows on a surface; a JSON-RPC error becomes ToolsError."""
    query = f"?{urlencode({'surface': surface})}" if surface else ""
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    answer = rest.post(endpoint(url, f"mcp{query}"), request, token=token)
    fault = answer.get("error") if isinstance(answer, dict) else None
    if fault:
        said = fault.get("message") if isinstance(fault, dict) else fault
        raise ToolsError(f"{url} does not list its tools: {said}")
    result = answer.get("result") if isinstance(answer, dict) else None
    listed = result.get("tools") if isinstance(result, dict) else None
    if not isinstance(listed, list):
        raise ToolsError(f"{url} answered no list of tools; is this an environment server?")
    return wire_tools(listed)


def prompt(task: Mapping[str, Any], today: date, *, submit: bool = True) -> str:
    """What the agent is told: the instruction, whom it acts as and within what limits, and the date.

    `submit` false leaves out that `submit` must be called, for environments that have no such tool.
    """
    return "\n\n".join(filter(None, (instructions(task, submit=submit), f"Today is {today.isoformat()} (UTC).")))


def instructions(task: Mapping[str, Any], *, submit: bool = True) -> str:
    """The prompt without the date: what stays the same tomorrow."""
    persona = task.get("persona") or {}
    about: list[str] = []
    if persona.get("description"):
        name = persona.get("name")
        about.append(f"You act as {f'{name}, ' if name else ''}{str(persona['description']).rstrip('. ')}.")
    if task.get("max_steps"):
        about.append(f"You have {task['max_steps']} tool calls.")
    if submit:
        about.append("When you are done, call the tool `submit`.")
    return "\n\n".join(filter(None, (str(task.get("instruction") or "").strip(), " ".join(about))))


def opening(task: Mapping[str, Any], tools: Sequence[Tool], observation: Mapping[str, Any]) -> str:
    """What a model is told first: the prompt, and below it what else the first observation says.

    The date is the world's own where the observation tells it (`now`, ISO-8601), else today's in UTC.
    """
    asked = prompt(task, _today(observation), submit=submits(tools))
    told = {
        key: value
        for key, value in observation.items()
        if key not in _SILENT and value not in (None, "", [], {}) and not (isinstance(value, str) and value in asked)
    }
    if not told:
        return asked
    only = next(iter(told.values()))
    return f"{asked}\n\n{only if len(told) == 1 and isinstance(only, str) else result_text(told)}"


def _today(observation: Mapping[str, Any]) -> date:
    now = observation.get("now")
    if isinstance(now, str):
        with contextlib.suppress(ValueError):
            return datetime.fromisoformat(now).date()
    return datetime.now(UTC).date()


def _name(url: str, token: str | None) -> str:
    return quote(environments(url, token)[0], safe="")
