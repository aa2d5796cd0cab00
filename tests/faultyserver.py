"""Servers with one fault each: the kit's own application, with what goes in and out of it bent.

A fault is a class below; its methods see each HTTP answer, each request and each reply.
"""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

TOKEN = "the-right-one"
LIMIT = 16 * 1024 * 1024


class Fault:
    """No fault at all; `rule` is the one that the check must find broken."""

    rule = ""
    max_sessions = 1

    def __init__(self, app: Any) -> None:
        self.app = app
        self.state = app.state

    def http(self, path: str, status: int, body: Any, headers: dict[bytes, bytes]) -> tuple[int, Any]:
        """What becomes of an HTTP answer."""
        return status, body

    def request(self, frame: Any) -> Any:
        """What becomes of a request."""
        return frame

    def reply(self, request: Any, frame: Any) -> Any:
        """What becomes of the reply to a request; None closes the connection."""
        return frame

    async def gone(self, code: int) -> None:
        """What is done when the client has gone."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _http(self, scope: Any, receive: Any, send: Any) -> None:
        start: dict[str, Any] = {}
        content = b""

        async def bend(message: Any) -> None:
            nonlocal content
            if message["type"] == "http.response.start":
                start.update(message)
                return
            content += message.get("body", b"")
            if not message.get("more_body"):
                body = json.loads(content) if content else None
                status, bent = self.http(scope["path"], start["status"], body, dict(scope["headers"]))
                text = json.dumps(bent).encode()
                headers = [(b"content-type", b"application/json"), (b"content-length", str(len(text)).encode())]
                await send({"type": "http.response.start", "status": status, "headers": headers})
                await send({"type": "http.response.body", "body": text})

        await self.app(scope, receive, bend)

    async def _websocket(self, scope: Any, receive: Any, send: Any) -> None:
        requests: list[Any] = []

        async def bend_request() -> Any:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                await self.gone(message.get("code", 1006))
            if message["type"] == "websocket.receive":
                text = message.get("text")
                try:
                    asked = json.loads(text)
                    bent = self.request(json.loads(text))
                except (TypeError, ValueError):
                    asked = None
                else:
                    message = {**message, "text": text if bent == asked else json.dumps(bent)}
                requests.append(asked)
            return message

        async def bend_reply(message: Any) -> None:
            if message["type"] == "websocket.send" and requests:
                frame = self.reply(requests.pop(0), json.loads(message["text"]))
                if frame is None:
                    message = {"type": "websocket.close", "code": 1011}
                else:
                    message = {**message, "text": json.dumps(frame)}
            await send(message)

        await self.app(scope, bend_request, bend_reply)


def data_of(frame: Any) -> Any:
    """The data of a frame."""
    return frame.get("data") or {}


class NeverLeased(Fault):
    """Its health says that it is free, whatever is so."""

    rule = "health-tells-leases"

    def http(self, path, status, body, headers):
        return status, {**body, "leased": False} if path == "/health" else body


class KeepsLeases(Fault):
    """It notices only after seconds that a client went without a word."""

    rule = "release-after-drop"

    async def gone(self, code):
        if code != 1000:
            await asyncio.sleep(2.5)


class LetsTwoIn(Fault):
    """It says that it has one session, and gives two."""

    rule = "capacity"
    max_sessions = 2

    def http(self, path, status, body, headers):
        return status, {**body, "sessions": {**body["sessions"], "max": 1}} if path == "/health" else body


class PlaysOn(Fault):
    """It takes steps after the end."""

    rule = "after-the-end"

    def reply(self, request, frame):
        if data_of(frame).get("code") != "EPISODE_OVER":
            return frame
        observation = {"tool_name": "x", "result": None, "error": {"error_type": "e", "message": "m"}}
        return {"type": "observation", "data": {"observation": observation, "reward": None, "done": False}}


class RaisesForTheModel(Fault):
    """It answers a model's mistake with an error frame."""

    rule = "tool-error"

    def reply(self, request, frame):
        if (data_of(frame).get("observation") or {}).get("error") is None:
            return frame
        return {"type": "error", "data": {"code": "EXECUTION_ERROR", "message": "Unknown tool"}}


class CountsSubmit(Fault):
    """Its records count `submit` as a step."""

    rule = "record"

    def reply(self, request, frame):
        if frame["type"] == "record":
            frame["data"]["diagnostics"]["steps"] += 1
        return frame


class GradesTwice(Fault):
    """Its records have another reward than the last step told."""

    rule = "record"

    def reply(self, request, frame):
        if frame["type"] == "record":
            frame["data"]["reward"] = 0.75
        return frame


class RollsDice(Fault):
    """Each reset shows another world."""

    rule = "determinism"

    def reply(self, request, frame):
        if request and request.get("type") == "reset" and frame["type"] == "observation":
            frame["data"]["observation"]["weather"] = random.random()
        return frame


class NeverEnds(Fault):
    """Its tasks say that they have three steps, and have more."""

    rule = "max-steps"

    def http(self, path, status, body, headers):
        if "tasks" in (body or {}):
            body = {**body, "tasks": [{**task, "max_steps": 3} for task in body["tasks"]]}
        if "task" in (body or {}):
            body = {**body, "task": {**body["task"], "max_steps": 3}}
        return status, body


class HasNoClock(Fault):
    """It forgets how long an episode may last."""

    rule = "max-seconds"

    def request(self, frame):
        if frame.get("type") == "reset" and data_of(frame).get("max_seconds", 0) > 0:
            del frame["data"]["max_seconds"]
        return frame


class LeavesADoorOpen(Fault):
    """It asks HTTP for the token, and not the handshake."""

    rule = "token"

    def http(self, path, status, body, headers):
        known = headers.get(b"authorization") == f"Bearer {TOKEN}".encode()
        return (status, body) if path == "/health" or known else (401, {"detail": "a token is needed"})


class HasASmallDoor(Fault):
    """It closes on frames above 16 MiB."""

    rule = "big-frames"

    def reply(self, request, frame):
        return None if request and len(json.dumps(request)) > LIMIT else frame


class IsFragile(Fault):
    """It closes on what is no JSON."""

    rule = "not-json"

    def reply(self, request, frame):
        return None if data_of(frame).get("code") == "INVALID_JSON" else frame


class TakesLateSteps(Fault):
    """It does not look at whose episode a step is."""

    rule = "stale"

    def request(self, frame):
        if isinstance(frame, dict) and frame.get("type") == "step":
            data_of(frame).pop("metadata", None)
        return frame


class ListsNothingForNames(Fault):
    """An unknown split has no tasks, in place of being unknown."""

    rule = "unknown-names"

    def http(self, path, status, body, headers):
        return (200, {"tasks": [], "env_name": "puppet"}) if status == 400 else (status, body)


class SaysNaN(Fault):
    """It writes what is no JSON."""

    rule = "submit"

    def reply(self, request, frame):
        if data_of(frame).get("done") is True and frame["type"] == "observation":
            frame["data"]["reward"] = float("nan")
        return frame


FAULTS = (
    NeverLeased,
    KeepsLeases,
    LetsTwoIn,
    PlaysOn,
    RaisesForTheModel,
    CountsSubmit,
    GradesTwice,
    RollsDice,
    NeverEnds,
    HasNoClock,
    LeavesADoorOpen,
    HasASmallDoor,
    IsFragile,
    TakesLateSteps,
    ListsNothingForNames,
    SaysNaN,
)
