"""Plays episodes over the bridge with MCP's own client, as verifiers' harnesses use it; prints what came of it as JSON.

`python bridge_client.py URL`: URL is a server of the environment in which everything can go wrong.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import httpx
from verifiers.v1.agent import Agents
from verifiers.v1.harnesses.utils.mcp import MCPConnection
from verifiers.v1.trace import Error

from miroir.agents import called
from miroir.catalog import tasks, tools
from miroir.episode import Episode, Setting
from miroir.fleet import Fleet
from miroir.wire import Tool
from miroir_verifiers import load_environment
from miroir_verifiers.bridge import Bridge, Endpoint
from miroir_verifiers.v1 import MiroirEnvConfig
from miroir_verifiers.v1.attempts import Attempts

URL = sys.argv[1]
POOL = ThreadPoolExecutor(4)
LOGGED: list[str] = []


class Rollout:
    """An episode, its endpoint at the bridge, and a client of that; `turns` stands for those of its model."""

    def __init__(self, bridge: Bridge, fleet: Fleet) -> None:
        self.turns = 1
        self.bridge = bridge
        self.episode = Episode(tasks(URL)[0], Setting(tools=tools(URL)))
        self.episode.begin(fleet.lease)
        self.endpoint = bridge.open(self)
        self.connection = MCPConnection({"url": self.endpoint.url})

    def tools(self) -> list[Tool]:
        return self.episode.tools

    def call(self, name: str, arguments: dict[str, Any]) -> Future[str]:
        return POOL.submit(lambda: called(self.episode, name, arguments)[0])

    def turn(self) -> int:
        return self.turns

    async def __aenter__(self) -> Rollout:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.connection.aclose()
        self.bridge.leave(self.endpoint)
        self.episode.close()

    async def send(self, name: str, fails: int = 0, **arguments: Any) -> Any:
        """The tool's result; the client loses the first `fails` answers, and sends the call again by itself."""
        left = [fails]

        async def operation(client: Any) -> Any:
            result = await client.call_tool(name, arguments)
            left[0] -= 1
            if left[0] >= 0:
                raise ConnectionError("the answer was lost")
            return result

        return await self.connection.run(operation)

    def graded(self) -> dict[str, Any]:
        """The steps and the grade of the episode."""
        record = self.episode.finish()["record"]
        return {"reward": record["reward"], "steps": [step["tool"] for step in record["steps"]]}


def text(result: Any) -> str:
    """What a harness shows its model."""
    [block] = result.content
    return str(block.text)


async def listed(rollout: Rollout) -> dict[str, Any]:
    """Names and schemas arrive as the environment wrote them."""
    result = await rollout.connection.run(lambda client: client.list_tools())
    told = [json.dumps([tool.name, tool.description, tool.input_schema]) for tool in result.tools]
    own = [json.dumps([tool["name"], tool["description"], tool["inputSchema"]]) for tool in tools(URL)]
    return {"same": told == own, "names": [tool.name for tool in result.tools]}


async def played(rollout: Rollout) -> dict[str, Any]:
    """A call, a refusal, a broken call, and the end; a call after the end."""
    said = [text(await rollout.send("say", text="hi"))]
    said += [text(await rollout.send("refuse")), text(await rollout.send("fly"))]
    said += [text(await rollout.send("submit"))[:10], text(await rollout.send("say"))]
    return {"said": said, "done": rollout.episode.done, **rollout.graded()}


async def sent_again(rollout: Rollout) -> dict[str, Any]:
    """Three answers are lost; then the model says the same once more."""
    first = text(await rollout.send("say", fails=3, text="hi"))
    rollout.turns += 1
    again = text(await rollout.send("say", text="hi"))
    return {"said": [first, again], **rollout.graded()}


async def given_up(rollout: Rollout) -> dict[str, Any]:
    """A client that waits less long than the call takes connects anew and gets the answer of the call that runs."""
    rollout.connection.spec["timeout"] = 0.5
    result = text(await rollout.send("sleep", seconds=1.2))
    return {"said": [result], **rollout.graded()}


async def lost(rollout: Rollout) -> dict[str, Any]:
    """A call whose container is gone is answered, and not sent again by its client."""
    rollout.episode.close()
    result = await rollout.send("say")
    return {"error": result.is_error, "code": text(result).partition(":")[0]}


async def refused(bridge: Bridge, endpoint: Endpoint) -> dict[str, int]:
    """Without the key, with a wrong one, with the bearer, with the key in the URL."""
    ping = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accept = {"Accept": "application/json, text/event-stream"}
    ways = {
        "none": (bridge.url, {}),
        "wrong": (bridge.url, {"Authorization": "Bearer wrong"}),
        "wrong in URL": (f"{bridge.url}?key=wrong", {}),
        "bearer": (bridge.url, {"Authorization": f"Bearer {endpoint.key}"}),
        "in URL": (endpoint.url, {}),
    }
    async with httpx.AsyncClient() as client:
        return {
            way: (await client.post(url, json=ping, headers={**accept, **headers})).status_code
            for way, (url, headers) in ways.items()
        }


def redacted(endpoint: Endpoint) -> dict[str, Any]:
    """The errors of a trace whose harness could not reach its tools, and wrote their address."""
    error = Error(type="HarnessError", message=f"401 for {endpoint.url}", traceback=f"File …\n{endpoint.url}\n")
    attempts = Attempts()
    attempts.traces += [SimpleNamespace(errors=[error]), SimpleNamespace(errors=[Error(type="E", message="m")])]
    attempts.redact(endpoint.key)
    return {"message": error.message.partition("?")[2], "kept": endpoint.key in str(error.traceback)}


async def unfit(**agent: Any) -> str:
    """What is said of a harness that could only play without tools."""
    client = {"type": "eval", "base_url": "http://127.0.0.1:1/v1", "api_key_var": "PATH"}
    data = {"taskset": {"id": "miroir_verifiers"}, "agent": {"model": "m", "client": client, **agent}}
    environment = load_environment(urls=[URL])
    try:
        await environment.run(next(iter(environment.taskset.load())), Agents(MiroirEnvConfig.model_validate(data)))
    except ValueError as error:
        return str(error)
    finally:
        await environment.stop()
    return "nothing"


async def main() -> dict[str, Any]:
    """Everything, each with an episode of its own."""
    report: dict[str, Any] = {}
    bridge, fleet = Bridge(), Fleet([URL])
    scenes: list[Callable[[Rollout], Any]] = [listed, played, sent_again, given_up, lost]
    for scene in scenes:
        async with Rollout(bridge, fleet) as rollout:
            report[scene.__name__] = await scene(rollout)
    async with Rollout(bridge, fleet) as rollout:
        logging.getLogger("verifiers.v1.mcp.launch").warning("tool server '%s' (remote): %s", "", rollout.endpoint.url)
        report["refused"] = await refused(bridge, rollout.endpoint)
        report["redacted"] = redacted(rollout.endpoint)
        bridge.leave(rollout.endpoint)
        report["over"] = await refused(bridge, rollout.endpoint)
        report["shown"] = [rollout.endpoint.key in shown for shown in (*LOGGED, repr(rollout.endpoint))]
    report["elsewhere"] = await unfit(harness={"id": "null"}, runtime={"type": "prime"})
    report["without MCP"] = await unfit(harness={"id": "mini_swe_agent"}, runtime={"type": "subprocess"})
    fleet.close()
    bridge.close()
    POOL.shutdown()
    report["threads"] = [thread.name for thread in threading.enumerate() if thread.name == "miroir-bridge"]
    return report


class _Kept(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        LOGGED.append(record.getMessage())


logging.getLogger("verifiers").addHandler(_Kept())
print(json.dumps(asyncio.run(main())))
