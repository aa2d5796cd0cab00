"""What containers say of themselves, as a table."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from miroir.pool.status import Status, read_status, read_statuses, table

FULL = {
    "status": "healthy",
    "leased": True,
    "sessions": {"active": 1, "max": 1},
    "env": {"name": "office", "version": "1.0"},
    "protocol": "miroir/1",
    "boot_id": "b00t",
}


ANSWERS = {
    "/full/health": (200, json.dumps(FULL)),
    "/plain/health": (200, '{"status": "healthy"}'),
    "/sick/health": (503, '{"status": "unhealthy", "reason": "a step never ended"}'),
    "/odd/health": (200, '{"status": "healthy", "env": 3, "boot_id": {}, "sessions": "x"}'),
    "/page/health": (200, "<html>"),
}
tokens: list[str | None] = []


class Handler(BaseHTTPRequestHandler):
    """Answers by path prefix."""

    def do_GET(self) -> None:
        status, text = ANSWERS.get(self.path, (404, "none"))
        tokens.append(self.headers.get("Authorization"))
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    """A server of all those answers."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_container_says_all_of_it(url: str) -> None:
    """Each field of /health; a base URL's trailing slash is not doubled."""
    assert read_status(f"{url}/full/") == Status(f"{url}/full/", True, "", True, 1, 1, "office", "1.0", "b00t")


def test_what_is_not_said_is_unknown(url: str) -> None:
    """OpenEnv's answer says only healthy; values of a wrong type are as if not said."""
    assert read_status(f"{url}/plain") == Status(f"{url}/plain", True, "")
    assert read_status(f"{url}/odd") == Status(f"{url}/odd", True, "")


def test_an_unhealthy_container_has_a_reason(url: str) -> None:
    """503 with its reason, 404, a web page, and nobody there."""
    reasons = [read_status(f"{url}/{name}").reason for name in ("sick", "none", "page")]
    assert "a step never ended" in reasons[0]
    assert "404" in reasons[1]
    assert all(reasons)
    gone = read_status("http://127.0.0.1:9")
    assert (gone.healthy, gone.reason) == (False, "connection refused")


def test_statuses_come_in_order_with_the_token(url: str) -> None:
    """A gateway in front of /health may want it."""
    tokens.clear()
    urls = [f"{url}/{name}" for name in ("full", "sick", "plain")] * 3
    assert [status.url for status in read_statuses(urls, "t0ken")] == urls
    assert set(tokens) == {"Bearer t0ken"}


def test_the_table_has_a_line_for_each() -> None:
    """Unknowns are dashes; the unhealthy one shows why."""
    lines = table(
        [
            Status("http://a", True, "", True, 1, 2, "office", "1.0", "b00t"),
            Status("http://bb", True, ""),
            Status("http://c", False, "timed\x1b out" + "!" * 200),
        ]
    ).splitlines()
    assert [line.split() for line in lines] == [
        ["url", "healthy", "leased", "sessions", "env", "version", "boot", "id", "/", "reason"],
        ["http://a", "yes", "yes", "1/2", "office", "1.0", "b00t"],
        ["http://bb", "yes", "-", "-", "-", "-", "-"],
        ["http://c", "NO", "-", "-", "-", "-", "timed", "out" + "!" * 90],
    ]
