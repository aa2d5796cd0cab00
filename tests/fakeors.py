"""An ORS server of the standard library alone, which drops, delays and refuses as a test tells it."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOOLS = [
    {"name": "add", "description": "Add.", "input_schema": {"type": "object", "properties": {"a": {}, "b": {}}}},
    {"name": "answer", "description": "Answer.", "input_schema": None},
]
SPLITS = {"train": "train", "test": "test"}
CHUNK = 4096


class FakeOrs:
    """What the server has and does; a test may change all of it."""

    def __init__(self) -> None:
        self.url = ""
        self.tasks: dict[str, list[Any]] = {"train": [{"id": "one", "n": 1}, {"id": "two", "n": 2}], "test": [{"n": 3}]}
        self.by_index_only = False
        self.prompt: list[dict[str, Any]] = [{"type": "text", "text": "Solve it."}]
        self.tools: dict[str, Any] = {"tools": TOOLS, "terminal_tool": None}
        self.task_tools: dict[str, Any] | None = None
        self.starting = 0  # how many prompts are answered by "still starting"
        self.busy: list[int] = []  # statuses of the next requests
        self.results: dict[str, Any] = {}  # what a tool gives: an output, a refusal, or an error's text
        self.drops: list[str] = []  # where the next streams are cut: start, token, chunk or end
        self.silent_s = 0.0
        self.sessions: dict[str, Any] = {}
        self.secrets: dict[str, str] = {}
        self.keys: set[str | None] = set()
        self.asked: Counter[str] = Counter()
        self.calls: list[dict[str, Any]] = []
        self.running: dict[str, str] = {}  # results by token


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    fake: FakeOrs

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        fake = self.fake
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(content) if content else None
        what = self.path.rpartition("/")[2]
        fake.asked[what] += 1
        fake.keys.add(self.headers.get("X-API-Key"))
        if fake.busy:
            self._answer(fake.busy.pop(0), {"detail": "busy"}, {"Retry-After": "0"})
        elif what == "call":
            self._call(body)
        else:
            self._answer(*getattr(self, f"_{what}")(body))

    def _list_environments(self, _: Any) -> tuple[int, Any]:
        return 200, ["sums", "other"]

    def _version(self, _: Any) -> tuple[int, Any]:
        return 200, {"version": "0.1", "build_sha": "abc"}

    def _splits(self, _: Any) -> tuple[int, Any]:
        return 200, [{"name": name, "type": kind} for name, kind in SPLITS.items()]

    def _tasks(self, body: Any) -> tuple[int, Any]:
        if self.fake.by_index_only:
            return 400, {"detail": "use the index-based API"}
        return 200, {"tasks": self.fake.tasks[body["split"]], "env_name": "sums"}

    def _task_range(self, body: Any) -> tuple[int, Any]:
        return 200, {"tasks": self.fake.tasks[body["split"]], "env_name": "sums"}

    def _tools(self, _: Any) -> tuple[int, Any]:
        return 200, self.fake.tools

    def _create(self, body: Any) -> tuple[int, Any]:
        tasks = self.fake.tasks[body["split"]]
        if body["index"] >= len(tasks):
            return 400, {"detail": "Invalid index"}
        sid = self.headers["X-Session-ID"]
        self.fake.sessions[sid] = tasks[body["index"]]
        if "X-Secrets" in self.headers:
            given = json.loads(base64.b64decode(self.headers["X-Secrets"]))
            self.fake.secrets = {name: entry["value"] for name, entry in given.items()}
        return 200, {"sid": sid}

    def _prompt(self, _: Any) -> tuple[Any, ...]:
        if self.fake.starting:
            self.fake.starting -= 1
            return 503, {"detail": "starting"}, {"X-Backend-State": "starting", "Retry-After": "0"}
        return self._of_session(self.fake.prompt)

    def _task_tools(self, _: Any) -> tuple[Any, ...]:
        return self._of_session(self.fake.task_tools or self.fake.tools)

    def _ping(self, _: Any) -> tuple[Any, ...]:
        return self._of_session({"status": "ok"})

    def _delete(self, _: Any) -> tuple[int, Any]:
        self.fake.sessions.pop(self.headers["X-Session-ID"], None)
        return 200, {"sid": self.headers["X-Session-ID"]}

    def _of_session(self, answer: Any) -> tuple[Any, ...]:
        if self.headers["X-Session-ID"] not in self.fake.sessions:
            return 404, {"detail": "Active environment not found"}
        return 200, answer

    def _answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _call(self, body: dict[str, Any]) -> None:
        fake = self.fake
        fake.calls.append(body)
        drop = fake.drops.pop(0) if fake.drops else None
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.close_connection = True
        if drop == "start":
            return
        token = body.get("task_id") or f"token-{len(fake.calls)}"
        if "task_id" in body and token not in fake.running:
            self._event("error", "unknown task_id")
            return
        self._event("task_id", token)
        if token not in fake.running:
            fake.running[token] = self._result(body)
        self.wfile.write(b": ping\r\n\r\n")
        time.sleep(fake.silent_s)
        if drop != "token":
            self._say(fake.running[token], drop)

    def _result(self, body: dict[str, Any]) -> str:
        result = self.fake.results.get(body["name"], {"blocks": [{"type": "text", "text": json.dumps(body["input"])}]})
        if isinstance(result, str):
            return result
        if "ok" in result:
            return json.dumps(result)
        return json.dumps({"ok": True, "output": {"metadata": None, "reward": None, "finished": False, **result}})

    def _say(self, text: str, drop: str | None) -> None:
        if not text.startswith("{"):
            self._event("error", text)
            return
        chunks = [text[at : at + CHUNK] for at in range(0, len(text), CHUNK)]
        for number, chunk in enumerate(chunks):
            last = number == len(chunks) - 1
            if drop == "end" and last:
                self.wfile.write(f"event: end\r\ndata: {chunk[:-5]}".encode())
                return
            self._event("end" if last else "chunk", chunk)
            if drop == "chunk":
                return

    def _event(self, name: str, data: str) -> None:
        self.wfile.write(f"event: {name}\r\ndata: {data}\r\n\r\n".encode())

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def fake_ors() -> Iterator[FakeOrs]:
    """A fake in a thread, until the block is left."""
    fake = FakeOrs()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"fake": fake}))
    fake.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=lambda: server.serve_forever(0.02), daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
