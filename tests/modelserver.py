"""A chat endpoint for tests: a real HTTP server on 127.0.0.1 that answers by script and remembers what it was asked.

As a program, `python modelserver.py [PORT]` prints its port and plays `tool_then_submit` until it is killed.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


@dataclass(frozen=True)
class Reply:
    """One HTTP answer: `body` is a JSON object, text, bytes, or a list of such pieces, sent `pause_s` seconds apart.

    `cut` ends the connection where more was announced.
    """

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    pause_s: float = 0.0
    cut: bool = False


@dataclass(frozen=True)
class Asked:
    """One request as it came in."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    at: float
    port: int  # of the client's socket: the same for two requests on one connection


MODELS = Reply({"object": "list", "data": [{"id": "stub", "object": "model", "max_model_len": 32768}]})
Script = Callable[[dict[str, Any]], Reply]


@dataclass
class ModelServer:
    """Where a running server is, and what it was asked so far."""

    base_url: str
    asked: list[Asked] = field(default_factory=list)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The requests' bodies, in order."""
        return [asked.body for asked in self.asked]


@contextmanager
def serving(script: Script | Sequence[Reply], port: int = 0, *, models: Reply = MODELS) -> Iterator[ModelServer]:
    """A server that answers each POST by the script; a sequence is played once, its last reply again and again.

    `models` answers every GET.
    """
    if not callable(script):
        replies = list(script)
        script = lambda body: replies.pop(0) if len(replies) > 1 else replies[0]  # noqa: E731
    http = _Server(port, script, models)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, name="modelserver")
    thread.start()
    try:
        yield http.model
    finally:
        http.shutdown()
        thread.join()
        http.end()


def answer(
    text: str | None = None,
    calls: Sequence[tuple[str, Mapping[str, Any] | str]] = (),
    *,
    finish_reason: str | None = None,
    usage: Mapping[str, int] | None = USAGE,
) -> dict[str, Any]:
    """A chat completion that says `text` and makes `calls` (name, arguments)."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {
                "id": f"call_{number}",
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
                },
            }
            for number, (name, arguments) in enumerate(calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": finish_reason or ("tool_calls" if calls else "stop")}
    body: dict[str, Any] = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "stub"}
    body["choices"] = [choice]
    return body if usage is None else {**body, "usage": dict(usage)}


def chunks(completion: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same completion as a stream of it would come: a delta, the finish reason, the usage."""
    choice = completion["choices"][0]
    delta = dict(choice["message"])
    if "tool_calls" in delta:
        delta["tool_calls"] = [{**call, "index": index} for index, call in enumerate(delta["tool_calls"])]
    base = {"id": completion["id"], "object": "chat.completion.chunk", "created": 0, "model": completion["model"]}
    return [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
        {**base, "choices": [], "usage": completion.get("usage")},
    ]


def events(stream: Sequence[Any], *, done: bool = True) -> bytes:
    """Chunks as server-sent events, with or without the closing `[DONE]`."""
    ending = b"data: [DONE]\n\n" if done else b""
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in stream) + ending


def stream_reply(body: bytes | Sequence[bytes], *, pause_s: float = 0.0, cut: bool = False) -> Reply:
    """A reply that is a stream of server-sent events."""
    return Reply(body, headers={"Content-Type": "text/event-stream"}, pause_s=pause_s, cut=cut)


def tool_then_submit(body: dict[str, Any]) -> Reply:
    """The first tool with some text for each argument, then `submit` where it is offered, then text.

    Streamed if the request asks for it.
    """
    tools = [tool["function"] for tool in body.get("tools") or []]
    results = sum(message["role"] == "tool" for message in body["messages"])
    submit = next((tool["name"] for tool in tools if tool["name"].endswith("submit")), None)
    if results == 0 and tools:
        arguments = dict.fromkeys((tools[0].get("parameters") or {}).get("properties", {}), "hello")
        completion = answer(calls=[(tools[0]["name"], arguments)])
    elif results == 1 and submit is not None:
        completion = answer(calls=[(submit, {})])
    else:
        completion = answer("all done")
    return stream_reply(events(chunks(completion))) if body.get("stream") else Reply(completion)


class _Server(ThreadingHTTPServer):
    def __init__(self, port: int, script: Script, models: Reply) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.script = script
        self.models = models
        self.model = ModelServer(f"http://127.0.0.1:{self.server_port}/v1")
        self.ended = threading.Event()
        self.connections: list[socket.socket] = []

    def end(self) -> None:
        """Close what is still open, the connections that clients keep alive included."""
        self.ended.set()
        self.server_close()
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.connections.append(self.connection)

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._send(self.server.models)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = Asked(self.path, dict(self.headers), body, time.monotonic(), self.client_address[1])
        self.server.model.asked.append(asked)
        self._send(self.server.script(body))

    def _send(self, reply: Reply) -> None:
        pieces = reply.body if isinstance(reply.body, list | tuple) else [reply.body]
        raw = [_bytes(piece) for piece in pieces]
        length = sum(map(len, raw)) + (100 if reply.cut else 0)
        headers = {"Content-Type": "application/json", "Content-Length": str(length), **reply.headers}
        try:
            self.send_response(reply.status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            for piece in raw:
                self.wfile.write(piece)
                self.wfile.flush()
                self.server.ended.wait(reply.pause_s)
        except OSError:  # the client had enough
            self.close_connection = True
        self.close_connection = self.close_connection or reply.cut


def _bytes(body: Any) -> bytes:
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


if __name__ == "__main__":
    with serving(tool_then_submit, int(sys.argv[1]) if len(sys.argv) > 1 else 0) as running:
        print(running.base_url.rsplit(":", 1)[1].removesuffix("/v1"), flush=True)
        threading.Event().wait()
