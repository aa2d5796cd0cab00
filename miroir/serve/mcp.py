"""MCP's JSON-RPC 2.0: what an environment shows to an MCP client. Tools are called in a leased session only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .catalog import Catalog, CatalogError
from .frames import Refusal
from .tools import Toolbox

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
NOT_LEASED = -32000

PROTOCOL_VERSIONS = ("2025-06-18", "2025-03-26", "2024-11-05")


def error(number: Any, code: int, message: str) -> dict[str, Any]:
    """An error reply to request `number`."""
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}


async def over_http(message: Any, catalog: Catalog, surface: str | None) -> dict[str, Any] | None:
    """The reply to a message on the HTTP route; None to a notification."""
    fault = _malformed(message)
    if fault is not None:
        return fault
    if "id" not in message:
        return None
    number, method = message["id"], message["method"]
    if method == "initialize":
        return _result(number, _introduction(message.get("params"), catalog))
    if method == "tools/call":
        text = "tools are called in a session: lease one on /ws, reset it to a task, and send steps"
        return error(number, NOT_LEASED, text)
    if method != "tools/list":
        return _ping(number, method, "initialize, ping and tools/list")
    try:
        return _result(number, {"tools": (await catalog.toolbox(surface)).listing()})
    except Refusal as refusal:
        return error(number, INVALID_PARAMS, refusal.message)
    except CatalogError as failure:
        return error(number, INTERNAL_ERROR, str(failure))


def in_session(message: Mapping[str, Any], toolbox: Toolbox) -> dict[str, Any]:
    """The reply to a message in a session's `mcp` frame."""
    fault = _malformed(message)
    if fault is not None:
        return fault
    number, method = message.get("id"), message["method"]
    if method == "tools/list":
        return _result(number, {"tools": toolbox.listing()})
    return _ping(number, method, "ping and tools/list; tools are called by step frames")


def _malformed(message: Any) -> dict[str, Any] | None:
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
        return error(None, INVALID_REQUEST, "not a JSON-RPC 2.0 request")
    return None


def _ping(number: Any, method: str, known: str) -> dict[str, Any]:
    if method == "ping":
        return _result(number, {})
    return error(number, METHOD_NOT_FOUND, f"no method {method[:100]!r}; there are {known}")


def _introduction(params: Any, catalog: Catalog) -> dict[str, Any]:
    asked = params.get("protocolVersion") if isinstance(params, dict) else None
    return {
        "protocolVersion": asked if asked in PROTOCOL_VERSIONS else PROTOCOL_VERSIONS[0],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": catalog.name, "version": catalog.version},
    }


def _result(number: Any, value: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": value}
