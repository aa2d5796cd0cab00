"""The server as an ASGI application: its routes, and the token that guards them."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from ..wire import PROTOCOL, WAITING_HEADER
from . import mcp
from .catalog import Catalog, CatalogError
from .connection import LeaseSocket
from .leases import Leases
from .reply import JSONReply
from .schema import SCHEMA
from .tasks import TaskRoutes, body
from .world import Factory

_STOP_S = 1.0

_log = logging.getLogger("miroir.serve")


def create_app(
    factory: Factory, *, token: str | None = None, max_sessions: int = 1, allow_code: bool = False
) -> Starlette:
    """The ASGI application that serves the environments which `factory` makes, at most `max_sessions` at a time."""
    catalog = Catalog(factory, allow_code=allow_code)
    leases = Leases(max_sessions)
    info = _Info(catalog, leases)
    socket = LeaseSocket(factory, catalog, leases, allow_code=allow_code)
    app = Starlette(
        routes=[
            Route("/health", info.health),
            Route("/metadata", info.metadata),
            Route("/schema", info.schema),
            Route("/mcp", info.mcp, methods=["POST"]),
            *TaskRoutes(catalog).routes(),
            WebSocketRoute("/ws", socket),
        ],
        middleware=[Middleware(_Guard, token=token)],
        exception_handlers={HTTPException: _refused, CatalogError: _failed},
        lifespan=_lifespan(catalog),
    )
    app.state.catalog = catalog
    return app


class _Info:
    """The routes that say what the server is and how it fares."""

    def __init__(self, catalog: Catalog, leases: Leases) -> None:
        self._catalog = catalog
        self._leases = leases
        self._boot_id = uuid.uuid4().hex

    async def health(self, request: Request) -> JSONReply:
        """Whether the server can serve, and whether a slot is free."""
        self._leases.note(request.headers.get(WAITING_HEADER))
        sickness = self._leases.sickness() or self._catalog.failure
        self._catalog.retry()
        status = {"status": "healthy"} if sickness is None else {"status": "unhealthy", "reason": sickness}
        said = {
            **status,
            "leased": self._leases.full,
            "sessions": {"active": self._leases.active, "max": self._leases.most, "peak": self._leases.peak},
            "episodes": self._leases.episodes,
            "env": {"name": self._catalog.name, "version": self._catalog.version},
            "protocol": PROTOCOL,
            "boot_id": self._boot_id,
        }
        return JSONReply(said, 200 if sickness is None else 503)

    async def metadata(self, _: Request) -> JSONReply:
        """The environment's name and version, in OpenEnv's shape."""
        return JSONReply(
            {
                "name": self._catalog.name,
                "description": self._catalog.description,
                "readme_content": None,
                "version": self._catalog.version,
                "author": None,
                "documentation_url": None,
            }
        )

    async def schema(self, _: Request) -> JSONReply:
        """The JSON schemas of actions, observations and state, in OpenEnv's shape."""
        return JSONReply(SCHEMA)

    async def mcp(self, request: Request) -> Response:
        """JSON-RPC for MCP clients: what the environment shows on a surface."""
        try:
            message = await body(request)
        except ValueError as error:
            return JSONReply(mcp.error(None, mcp.PARSE_ERROR, str(error)))
        reply = await mcp.over_http(message, self._catalog, request.query_params.get("surface"))
        return Response(status_code=202) if reply is None else JSONReply(reply)


class _Guard:
    """Lets through what carries the token, or where there is none, what no web page has sent; and GET /health."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it, a handshake too."""
        free = scope["type"] == "lifespan" or scope["path"] == "/health"
        refusal = None if free else self._refusal(dict(scope["headers"]))
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, headers: Mapping[bytes, bytes]) -> Response | None:
        if self._token is None:
            # Any web page may open a WebSocket to its reader's loopback; the browser then says where it is from.
            if b"origin" in headers:
                return JSONReply({"detail": "a web page may not use this server; start it with a token"}, 403)
            return None
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        detail = "a token is needed; send it as Authorization: Bearer, as --token-env does"
        if scheme.lower() == b"bearer":
            if hmac.compare_digest(token.strip(), self._token):
                return None
            detail = "the token is not this server's; check it"
        return JSONReply({"detail": detail}, 401, {"WWW-Authenticate": "Bearer"})


async def _refused(_: Request, error: Exception) -> JSONReply:
    assert isinstance(error, HTTPException)
    return JSONReply({"detail": error.detail}, error.status_code, error.headers)


async def _failed(_: Request, error: Exception) -> JSONReply:
    _log.warning("%s", error, exc_info=error)
    return JSONReply({"detail": str(error)}, 500)


def _lifespan(catalog: Catalog) -> Any:
    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            await catalog.open()
        except CatalogError as error:  # sessions tell their clients, by FACTORY_ERROR
            _log.warning("%s", error, exc_info=error)
        yield
        with contextlib.suppress(TimeoutError):  # a listing that never ends must not keep the server from ending
            await asyncio.wait_for(catalog.close(), _STOP_S)

    return lifespan
