"""The review server: pages and notes for whoever has the address, on this machine, from the report's own pages."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from miroir.errors import InvalidArgument
from miroir.notes import read_notes
from miroir.review import ReviewServer

NOTE = {
    "schema": 1, "episode_id": "e1", "record_sha256": "a" * 64, "at": "2026-01-01T00:00:00Z", "reviewer": "Ada",
    "labels": ["grader wrong"], "grade_right": False, "step": None, "text": "no",
}  # fmt: skip


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ReviewServer]:
    """A server of two small pages."""
    pages = tmp_path / "pages"
    (pages / "report-pages").mkdir(parents=True)
    (pages / "report.html").write_text("cover")
    (pages / "report-pages" / "page-0001.html").write_text("page")
    (tmp_path / "secret.html").write_text("secret")
    with ReviewServer(pages, "report.html", tmp_path / "notes.jsonl", {"e1": "a" * 64}) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(
    server: ReviewServer, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> tuple[int, str, http.client.HTTPMessage]:
    """The status, text and headers of an answer; `path` stands below the token unless it begins with /."""
    target = path if path.startswith("/") else f"/{server.token}/{path}"
    with_host = {"Host": f"127.0.0.1:{server.server_port}", **(headers or {})}
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    try:
        connection.request(method, target, body, with_host)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()


def post(server: ReviewServer, note: Any = NOTE, **headers: str) -> tuple[int, str]:
    """The answer to a note sent as the report's page sends it, with changed headers."""
    sent = {"Origin": f"http://127.0.0.1:{server.server_port}", "Content-Type": "application/json", **headers}
    body = note if isinstance(note, bytes) else json.dumps(note).encode()
    return ask(server, "POST", "notes", body, {name.replace("_", "-"): value for name, value in sent.items() if value})[
        :2
    ]


def test_pages_are_served_below_the_token(server: ReviewServer) -> None:
    """With headers that keep other pages from framing, reading or caching them."""
    assert urlsplit(server.url).path == f"/{server.token}/report.html"
    status, text, headers = ask(server, "GET", "report.html?x=1")
    assert (status, text) == (200, "cover")
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers.get("Access-Control-Allow-Origin") is None
    assert ask(server, "GET", "report-pages/page-0001.html")[:2] == (200, "page")


def test_a_note_is_in_the_file_when_the_answer_comes(server: ReviewServer) -> None:
    """One line, and the next reader of the notes has it."""
    assert ask(server, "GET", "notes")[:2] == (200, "")
    assert post(server) == (204, "")
    assert read_notes(server.notes) == [NOTE]
    assert json.loads(ask(server, "GET", "notes")[1]) == NOTE


@pytest.mark.parametrize(
    "path", ["/report.html", "/wrong/report.html", "/", "//", "../secret.html", "%2e%2e/secret.html", "none.html", ""]
)
def test_nothing_else_is_served(server: ReviewServer, path: str) -> None:
    """Without the token, outside the folder, or what is not there."""
    status, text, _ = ask(server, "GET", path)

    assert status == 404
    assert "secret" not in text


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:80"])
def test_another_host_name_is_refused(server: ReviewServer, host: str) -> None:
    """A name that was rebound to this machine gets nothing, whatever it knows."""
    assert ask(server, "GET", "report.html", headers={"Host": host})[0] == 403
    assert post(server, Host=host)[0] == 403
    assert not server.notes.exists()


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1", ""])
def test_another_origin_cannot_write(server: ReviewServer, origin: str) -> None:
    """Not even with the token; and no origin is another one."""
    assert post(server, Origin=origin)[0] == 403
    assert not server.notes.exists()


def test_another_origin_cannot_read(server: ReviewServer) -> None:
    """Asked with an origin, only its own is answered."""
    own = f"http://localhost:{server.server_port}"

    assert ask(server, "GET", "notes", headers={"Origin": "http://evil.example"})[0] == 403
    assert ask(server, "GET", "notes", headers={"Origin": own})[0] == 200
    assert ask(server, "OPTIONS", "notes", headers={"Origin": "http://evil.example"})[0] == 501


@pytest.mark.parametrize(
    ("note", "headers", "status", "said"),
    [
        (b"{", {}, 400, "not JSON"),
        (b"[" * 100_000, {}, 400, "not JSON"),
        ([], {}, 400, "the note is on no record of this report"),
        ({**NOTE, "episode_id": "e2"}, {}, 400, "the note is on no record of this report; open the report again"),
        ({**NOTE, "record_sha256": "b" * 64}, {}, 400, "the note is on no record of this report"),
        ({**NOTE, "reviewer": 7}, {}, 400, "its reviewer is 7"),
        (NOTE, {"Content_Type": "text/plain"}, 415, "a note is application/json"),
        (b"x" * 2_000_000, {}, 413, "a note has at most 1048576 bytes"),
    ],
)
def test_what_is_no_note_is_refused(
    server: ReviewServer, note: Any, headers: dict[str, str], status: int, said: str
) -> None:
    """With a reason, and nothing is written."""
    try:
        found, text = post(server, note, **headers)
    except ConnectionError:  # refused before all of it was sent
        assert status == 413
    else:
        assert found == status
        assert said in text
    assert not server.notes.exists()


def test_notes_go_to_their_place_alone(server: ReviewServer) -> None:
    """Pages take none."""
    own = {"Origin": f"http://127.0.0.1:{server.server_port}", "Content-Type": "application/json"}

    assert ask(server, "POST", "report.html", json.dumps(NOTE).encode(), own)[0] == 404


def test_it_listens_on_this_machine_alone(server: ReviewServer) -> None:
    """On the loopback address."""
    assert server.server_address[0] == "127.0.0.1"


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    """With what to do; so is what is no port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidArgument, match=f"port {port} of 127.0.0.1 is in use; give another with --port"):
            ReviewServer(tmp_path, "report.html", tmp_path / "n", {}, port=port)
    with pytest.raises(InvalidArgument, match="70000 is no port; give one from 0 to 65535"):
        ReviewServer(tmp_path, "report.html", tmp_path / "n", {}, port=70000)
