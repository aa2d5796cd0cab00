"""A server of the standard library alone that answers as AppWorld's does, and fails as a test tells it to.

In a test's own process a script of replies may be laid for each path. As a process it takes AppWorld's command line,
and code that it is sent tells it to misbehave: `fault` (a bare 500), `wedge` (no world opens any more, and none can be
closed), `poison` (a bare 500, and no world opens any more), `hang` (nothing is answered any more, SIGTERM ignored),
`abort` (the process dies).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from typing import Any

BARE = "Internal Server Error"
INSTRUCTION = "What is 1 + 1?"
SUPERVISOR = {
    "first_name": "Ada",
    "last_name": "Toy",
    "email": "ada@example.com",
    "phone_number": "5550001",
}
OPENED = {"instruction": INSTRUCTION, "supervisor": SUPERVISOR, "datetime": "2023-05-18T12:00:00"}
MET = {"requirement": "no note was added", "label": "no_op_pass"}
ASKED = {"requirement": "the answer is right", "label": "no_op_fail"}


@dataclass
class Reply:
    """A scripted answer: `body` is sent as JSON, or as it is where it is bytes; `cut` ends it half-way."""

    body: Any = None
    status: int = 200
    delay_s: float = 0.0
    cut: bool = False
    drop: bool = False  # close without an answer


@dataclass
class FakeAppWorld:
    """The server's state: what it was sent, what it is to answer, and its one world."""

    scripts: dict[str, deque[Reply]] = field(default_factory=lambda: defaultdict(deque))
    calls: list[tuple[str, Any]] = field(default_factory=list)
    connections: int = 0
    unknown: frozenset[str] = frozenset({"nope_1"})
    world: str | None = None
    done: bool = False
    solved: bool = False
    wedged: bool = False
    poisoned: bool = False
    log: list[str] = field(default_factory=lambda: ["INFO: started"])
    url: str = ""

    def say(self, path: str, *replies: Reply) -> None:
        """Answer the next requests of the path so."""
        self.scripts[path].extend(replies)

    def paths(self) -> list[str]:
        """The paths that were asked for, in order."""
        return [path for path, _ in self.calls]

    def bodies(self, path: str) -> list[Any]:
        """What was sent to the path."""
        return [body for asked, body in self.calls if asked == path]

    def answer(self, method: str, path: str, body: Any) -> Reply:
        """The reply to a request."""
        self.calls.append((path, body))
        if self.scripts[path]:
            return self.scripts[path].popleft()
        if method == "GET":
            return self._get(path)
        act = getattr(self, path.strip("/"), None)
        return Reply({"detail": "Not Found"}, 404) if act is None else act(body)

    def _get(self, path: str) -> Reply:
        if path == "/":
            return Reply({"message": "Welcome to AppWorld Server!"})
        task_id = path.removeprefix("/tasks/")
        return self._fault("doesn't exist.") if task_id in self.unknown else Reply({"output": {"task_id": task_id}})

    def _fault(self, why: str) -> Reply:
        self.log.append(f"Exception: {why}")
        print(self.log[-1], flush=True)
        return Reply(BARE.encode(), 500)

    def initialize(self, body: Any) -> Reply:
        if body["task_id"] in self.unknown:
            return self._fault(f"The task directory (./data/tasks/{body['task_id']}) doesn't exist.")
        if self.wedged or self.poisoned:
            return self._fault("IndexError: pop from empty list")
        self.world, self.done, self.solved = body["task_id"], False, False
        return Reply({"output": {"task_id": self.world, **OPENED}})

    def execute(self, body: Any) -> Reply:
        code = body["code"]
        if body["task_id"] != self.world or code == "fault":
            return self._fault("the active task is another")
        if code == "wedge":
            self.wedged = True
        if code == "poison":
            self.poisoned = True
            return self._fault("BaseException: b")
        if code == "abort":
            os.abort()
        if code == "hang":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
        if code.startswith("complete"):
            self.done, self.solved = True, code == "complete right"
        return Reply({"output": code.removeprefix("print ") if code.startswith("print ") else "Execution successful."})

    def task_completed(self, body: Any) -> Reply:
        return Reply({"output": self.done})

    def evaluate(self, body: Any) -> Reply:
        failed = [] if self.solved else [{**ASKED, "trace": "AssertionError: 3 is not 2"}]
        return Reply({"output": {"success": self.solved, "difficulty": 1, "num_tests": 2, "failures": failed,
                                 "passes": [MET, *([ASKED] if self.solved else [])]}})  # fmt: skip

    def close(self, body: Any) -> Reply:
        if self.wedged:
            return self._fault("'_freeze_time' object has no attribute 'fake_names'")
        if body["task_id"] != self.world:
            return self._fault("AppWorld has not been initialized.")
        return Reply({"output": None})


def _handler(fake: FakeAppWorld) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            fake.connections += 1
            super().setup()

        def do_GET(self) -> None:
            self._send(fake.answer("GET", self.path, None))

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            self._send(fake.answer("POST", self.path, json.loads(content)))

        def _send(self, reply: Reply) -> None:
            time.sleep(reply.delay_s)
            if reply.drop:
                self.close_connection = True
                return
            content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if reply.cut else content)
            self.close_connection = self.close_connection or reply.cut

        def log_message(self, *args: object) -> None:
            pass

    return Handler


@contextmanager
def faked() -> Iterator[FakeAppWorld]:
    """A fake in this process, on a port of the kernel's."""
    fake = FakeAppWorld()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(fake))
    server.daemon_threads = False
    fake.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def main() -> None:
    """Take `[serve] environment --port P …`, and serve; FAKE_APPWORLD may say to fail, or to be slow."""
    mood = os.environ.get("FAKE_APPWORLD", "")
    port = int(sys.argv[sys.argv.index("--port") + 1])
    if mood == "fail" or mood == f"fail {port}":
        sys.exit("AppWorld is not fully installed")
    if mood == "never":
        time.sleep(600)
    print("INFO: started", flush=True)
    HTTPServer(("0.0.0.0", port), _handler(FakeAppWorld())).serve_forever()  # one thread, as the real one has


if __name__ == "__main__":
    main()
