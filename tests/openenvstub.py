"""The HTTP routes of a plain OpenEnv server, as a test says them; what is not said is 404."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOOL_SCHEMA = {"action": {"title": "CallToolAction", "properties": {"type": {}, "tool_name": {}, "arguments": {}}}}
OWN_SCHEMA = {
    "action": {
        "title": "Move",
        "additionalProperties": False,
        "properties": {
            "metadata": {"type": "object"},
            "to": {"type": "string", "enum": ["left", "right"]},
            "steps": {"type": "integer"},
            "force": {"type": "number"},
            "hard": {"type": "boolean"},
            "kind": {"const": "move"},
            "via": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["to"],
    }
}


class Stub:
    """A server: its URL, and how often each route was asked."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = dict(answers)
        self.asked: Counter[str] = Counter()
        self.url = ""


@contextmanager
def openenv_stub(answers: Mapping[str, Any]) -> Iterator[Stub]:
    """The routes, each with its JSON answer, or an HTTP status."""
    stub = Stub({"health": {"status": "healthy"}, **answers})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            route = self.path.strip("/")
            stub.asked[route] += 1
            answer = stub.answers.get(route, 404)
            status, body = (answer, {"detail": "no"}) if isinstance(answer, int) else (200, answer)
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=lambda: server.serve_forever(0.02), daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
