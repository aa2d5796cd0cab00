"""A bridge to MCP: one HTTP server of this process, at which harnesses that speak MCP play the episodes of rollouts."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import threading
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs, urlencode

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import JSONResponse

from miroir.errors import MiroirError
from miroir.wire import Tool

from .replay import Memory

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from starlette.types import ASGIApp, Receive, Scope, Send


STOP_S = 1  # how long a closing bridge waits for calls that run
_KEY = "key"
_ENDPOINT = "miroir.endpoint"
_HANDSHAKES = ("initialize", "server/discover")
_LOGGED_IN = "verifiers.v1.mcp.launch"  # which logs the URL of every tool server


class Served(Protocol):
    """What is served of a rollout, from the bridge's own thread: nothing of it may block."""

    def tools(self) -> Sequence[Tool]:
        """The tools of the episode."""

    def call(self, name: str, arguments: dict[str, Any]) -> Future[str]:
        """Call a tool, in another thread: the text that it gives."""

    def turn(self) -> Hashable:
        """Another value after each turn of the model."""


class Endpoint:
    """A rollout's place at the bridge: `url` is whole with its `key`, which may be sent as the bearer instead."""

    def __init__(self, url: str, served: Served) -> None:
        self.key = secrets.token_urlsafe(32)
        self.url = f"{url}?{urlencode({_KEY: self.key})}"
        self.served = served
        self.memory = Memory(served.turn)


class Bridge:
    """The server, on a free port of this machine alone and in a thread of its own, until `close`."""

    def __init__(self) -> None:
        self._endpoints: dict[str, Endpoint] = {}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/mcp"
        # The key keeps out web pages too, and through a proxy this server has another name.
        security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        app = _server().streamable_http_app(json_response=True, stateless_http=True, transport_security=security)
        self._engine = uvicorn.Server(
            uvicorn.Config(
                _keyed(app, self._endpoints),
                lifespan="on",
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=STOP_S,
            )
        )
        self._thread = threading.Thread(
            target=self._engine.run, args=([self._listener],), name="miroir-bridge", daemon=True
        )
        self._thread.start()
        self._guard = _Guard(self._endpoints)
        logging.getLogger(_LOGGED_IN).addFilter(self._guard)

    def close(self) -> None:
        """Stop listening; calls that still run are cut off."""
        logging.getLogger(_LOGGED_IN).removeFilter(self._guard)
        self._engine.should_exit = True
        self._thread.join()
        self._listener.close()

    def open(self, served: Served) -> Endpoint:
        """A place for one rollout."""
        endpoint = Endpoint(self.url, served)
        self._endpoints[endpoint.key] = endpoint
        return endpoint

    def leave(self, endpoint: Endpoint) -> None:
        """Refuse the endpoint's key from now on."""
        self._endpoints.pop(endpoint.key, None)


class _Guard(logging.Filter):
    """Keeps the keys of endpoints out of what is logged."""

    def __init__(self, endpoints: dict[str, Endpoint]) -> None:
        super().__init__()
        self._endpoints = endpoints

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite a message that holds a key; nothing is dropped."""
        message = record.getMessage()
        for key in list(self._endpoints):
            if key in message:
                record.msg, record.args = message.replace(key, "…"), None
        return True


def _keyed(app: ASGIApp, endpoints: dict[str, Endpoint]) -> ASGIApp:
    """The application behind the keys of endpoints: a bearer, or `key` in the query."""

    async def keyed(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            endpoint = endpoints.get(_key(scope))
            if endpoint is None:
                said = {"error": "no rollout has this key; it may be over"}
                await JSONResponse(said, 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
                return
            scope[_ENDPOINT] = endpoint
        await app(scope, receive, send)

    return keyed


def _key(scope: Scope) -> str:
    header: bytes = dict(scope["headers"]).get(b"authorization", b"")
    query: bytes = scope["query_string"]
    scheme, _, bearer = header.decode("latin-1").partition(" ")
    return bearer.strip() if scheme.lower() == "bearer" else parse_qs(query.decode("latin-1")).get(_KEY, [""])[0]


def _server() -> Server[Any]:
    """MCP's own server over the endpoints: their tools, by their own names, and their calls."""

    async def list_tools(ctx: ServerRequestContext[Any], _: Any) -> types.ListToolsResult:
        tools = [
            types.Tool(name=tool["name"], description=tool["description"], input_schema=tool["inputSchema"])
            for tool in _endpoint(ctx).served.tools()
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(ctx: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        endpoint, arguments = _endpoint(ctx), params.arguments or {}
        made = endpoint.memory.call(
            params.name, arguments, ctx.request_id, partial(endpoint.served.call, params.name, arguments)
        )
        try:
            text, failed = await _answer(made.answer)
            made.lost = await ctx.request.is_disconnected()
        except asyncio.CancelledError:
            made.lost = True
            raise
        return types.CallToolResult(content=[types.TextContent(text=text)], is_error=failed)

    async def notice(ctx: ServerRequestContext[Any], call_next: CallNext) -> HandlerResult:
        if ctx.method in _HANDSHAKES:
            _endpoint(ctx).memory.connected()
        return await call_next(ctx)

    server: Server[Any] = Server("miroir", version=version("miroir"), on_list_tools=list_tools, on_call_tool=call_tool)
    server.middleware.append(notice)
    return server


async def _answer(answer: Future[str]) -> tuple[str, bool]:
    """What a call gave, and whether it failed; an error of MCP's own would be sent again by its client."""
    try:
        return await asyncio.shield(asyncio.wrap_future(answer)), False
    except MiroirError as error:
        return str(error), True


def _endpoint(ctx: ServerRequestContext[Any]) -> Endpoint:
    endpoint: Endpoint = ctx.request.scope[_ENDPOINT]
    return endpoint
