"""A server of the standard library alone that takes the command line of `miroir serve`, and misbehaves as told.

Its ENV is a behaviour: `well`, `exit`, `silent` (never listens), `junk` (a port file with junk), `loud` (prints much
at its start), `stubborn` (ignores SIGTERM), `once:FOLDER` (fails where another one has already started), `orphans`
(starts a child that outlives it). POST /crash, /sick and /shout change a running one.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

BOOT = uuid.uuid4().hex


class Handler(BaseHTTPRequestHandler):
    """/health, and what a test asks for."""

    sick = False

    def do_GET(self) -> None:
        said = {"status": "unhealthy", "reason": "told to be"} if Handler.sick else {"status": "healthy"}
        env = {"name": "pooled", "version": os.environ.get("POOLED_VERSION", "1")}
        self._answer(
            503 if Handler.sick else 200, {**said, "leased": False, "env": env, "boot_id": BOOT, "pid": os.getpid()}
        )

    def do_POST(self) -> None:
        if self.path == "/crash":
            print("about to crash", flush=True)
            os._exit(7)
        if self.path == "/sick":
            Handler.sick = True
        if self.path == "/shout":
            print("x" * 1024 + "\n", end="", flush=True)
            sys.stdout.write("y" * 99 + "\n" + "z" * 200_000 + "\n")
            sys.stdout.flush()
        self._answer(200, {})

    def _answer(self, status: int, body: dict[str, object]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        pass


def end_with(descriptor: int) -> None:
    """End this process when the pool's pipe ends."""
    os.read(descriptor, 1)
    os._exit(0)


def behave(env: str, port_file: Path) -> None:
    """What the behaviour asks for before the server listens."""
    kind, _, detail = env.partition(":")
    if kind == "exit":
        for number in range(70):
            print(f"line {number}\x1b[31m")
        sys.exit("error: told to fail")
    if kind == "junk":
        port_file.write_text("http://nobody\n")
    if kind in {"junk", "silent"}:
        time.sleep(600)
    if kind == "loud":
        sys.stdout.write("a long line of output\n" * 20_000)
    if kind == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if kind == "orphans":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path(detail).write_text(str(child.pid))
    if kind == "once":
        try:
            Path(detail).mkdir()
        except FileExistsError:
            time.sleep(0.5)
            sys.exit("error: not again")


def main() -> None:
    """Serve on a port of the kernel's."""
    parser = argparse.ArgumentParser()
    parser.add_argument("env")
    parser.add_argument("--port", type=int)
    parser.add_argument("--port-file", type=Path)
    parser.add_argument("--death-fd", type=int)
    parser.add_argument("--token-env")
    parser.add_argument("--max-sessions", type=int)
    parser.add_argument("--allow-code", action="store_true")
    args = parser.parse_args()
    print("argv", *sys.argv[1:], flush=True)
    threading.Thread(target=end_with, args=(args.death_fd,), daemon=True).start()
    behave(args.env, args.port_file)
    server = ThreadingHTTPServer(("127.0.0.1", args.port), Handler)
    args.port_file.write_text(str(server.server_port))
    server.serve_forever()


if __name__ == "__main__":
    main()
