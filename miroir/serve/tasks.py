"""The task API, as OpenEnv and ORS have it: environments, splits, and the tasks of a split."""

from __future__ import annotations

import json
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route

from ..wire import Task
from .catalog import Catalog, UnknownSplit
from .reply import JSONReply

_BODY_MOST = 1024 * 1024


async def body(request: Request) -> Any:
    """The JSON in a request's body; ValueError when it holds none."""
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > _BODY_MOST:
            raise HTTPException(413, f"the body is larger than {_BODY_MOST} bytes")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the body is not JSON: {error}") from error


class TaskRoutes:
    """The routes over a catalog; each names the environment in its path, in any case."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def routes(self) -> list[Route]:
        """The routes."""
        return [
            Route("/list_environments", self._environments),
            Route("/{env}/splits", self._splits),
            Route("/{env}/tasks", self._tasks, methods=["POST"]),
            Route("/{env}/num_tasks", self._num_tasks, methods=["POST"]),
            Route("/{env}/task", self._task, methods=["POST"]),
            Route("/{env}/task_range", self._task_range, methods=["POST"]),
        ]

    async def _environments(self, _: Request) -> JSONReply:
        return JSONReply([self._catalog.name])

    async def _splits(self, request: Request) -> JSONReply:
        self._check_name(request)
        splits = await self._catalog.splits()
        return JSONReply([{"name": name, "type": kind} for name, kind in splits.items()])

    async def _tasks(self, request: Request) -> JSONReply:
        tasks, _ = await self._asked(request)
        return JSONReply({"tasks": tasks, "env_name": self._catalog.name})

    async def _num_tasks(self, request: Request) -> JSONReply:
        tasks, _ = await self._asked(request)
        return JSONReply({"num_tasks": len(tasks)})

    async def _task(self, request: Request) -> JSONReply:
        tasks, asked = await self._asked(request, "index")
        index = asked.get("index")
        if index is None or not 0 <= index < len(tasks):
            raise HTTPException(400, f"Invalid task index: {index}; the split has {len(tasks)} tasks")
        return JSONReply({"task": tasks[index], "env_name": self._catalog.name})

    async def _task_range(self, request: Request) -> JSONReply:
        tasks, asked = await self._asked(request, "start", "stop")
        start, stop = asked.get("start", 0), asked.get("stop", len(tasks))
        if not 0 <= start <= stop:
            raise HTTPException(400, f"Invalid task range: {start} to {stop}; the split has {len(tasks)} tasks")
        return JSONReply({"tasks": tasks[start:stop], "env_name": self._catalog.name})

    async def _asked(self, request: Request, *numbers: str) -> tuple[list[Task], dict[str, int]]:
        """The tasks of the split that the body names, and the whole numbers that it may hold besides."""
        self._check_name(request)
        try:
            asked = await body(request)
        except ValueError as error:
            raise HTTPException(422, str(error)) from error
        if not isinstance(asked, dict) or not isinstance(asked.get("split"), str):
            raise HTTPException(422, 'the body must be an object with a "split"')
        others = sorted(set(asked) - {"split", *numbers})
        if others:
            raise HTTPException(422, f"unknown in the body: {', '.join(others)}")
        given = {name: asked[name] for name in numbers if asked.get(name) is not None}
        for name, number in given.items():
            if not isinstance(number, int) or isinstance(number, bool):
                raise HTTPException(422, f"{name} must be a whole number")
        try:
            return await self._catalog.tasks(asked["split"]), given
        except UnknownSplit as error:
            raise HTTPException(400, str(error)) from error

    def _check_name(self, request: Request) -> None:
        name = request.path_params["env"]
        if name.lower() != self._catalog.name.lower():
            raise HTTPException(404, f"no environment {name!r}; this server has {self._catalog.name}")
