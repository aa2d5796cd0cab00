"""The report served to this machine's browser, with notes written at once to a file.

Whoever knows the token in the address may read and write; a page of another origin may neither, even if it knows it.
"""

from __future__ import annotations

import errno
import hmac
import json
import secrets
import socketserver
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

from ..errors import InvalidArgument, MiroirError
from ..notes import Note, append_note

HOST = "127.0.0.1"
MAX_NOTE = 1 << 20  # bytes
_SILENCE_S = 10.0
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class ReviewServer(ThreadingHTTPServer):
    """Serves the pages below `folder`, and appends notes on `records` (hashes by episode) to the file `notes`.

    InvalidArgument where the port is taken. `serve_forever` until `shutdown`; a context manager that closes it.
    """

    NOTES_URL = "notes"  # relative to the report

    daemon_threads = False  # closing waits for the requests that are being answered
    request_queue_size = 64

    def __init__(self, folder: Path, cover: str, notes: Path, records: Mapping[str, str], *, port: int = 0) -> None:
        self.token = secrets.token_urlsafe(24)
        self.folder = folder
        self.cover = cover
        self.notes = notes
        self.records = records
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
            raise InvalidArgument(f"port {port} of {HOST} {reason}; give another with --port") from error
        except OverflowError as error:
            raise InvalidArgument(f"{port} is no port; give one from 0 to 65535") from error

    def server_bind(self) -> None:
        """Bind without asking the name service who we are."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    @property
    def url(self) -> str:
        """The report's address, with the token."""
        return f"http://{HOST}:{self.server_port}/{self.token}/{self.cover}"


class _Handler(BaseHTTPRequestHandler):
    server: ReviewServer
    timeout = _SILENCE_S
    server_version = "miroir"
    sys_version = ""

    def do_GET(self) -> None:
        path = self._allowed_path()
        if path is None:
            return
        if path == self.server.NOTES_URL:
            notes = self.server.notes
            self._answer(HTTPStatus.OK, notes.read_bytes() if notes.exists() else b"", "application/x-ndjson")
            return
        page = (self.server.folder / path).resolve()
        if page.suffix != ".html" or not page.is_relative_to(self.server.folder.resolve()) or not page.is_file():
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
            return
        self._answer(HTTPStatus.OK, page.read_bytes(), "text/html; charset=utf-8")

    def do_POST(self) -> None:
        path = self._allowed_path()
        if path is None:
            return
        if path != self.server.NOTES_URL:
            self._refuse(HTTPStatus.NOT_FOUND, "notes are sent elsewhere")
        elif self.headers.get("Origin") not in self._origins():
            self._refuse(HTTPStatus.FORBIDDEN, "notes are taken from this report's own pages")
        elif self.headers.get("Content-Type") != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a note is application/json")
        else:
            self._take_note()

    def _take_note(self) -> None:
        length = self.headers.get("Content-Length") or ""
        if not length.isdigit() or int(length) > MAX_NOTE:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a note has at most {MAX_NOTE} bytes")
            return
        try:
            note = json.loads(self.rfile.read(int(length)))
            self._check(note)
            append_note(self.server.notes, cast("Note", note))
        except (ValueError, RecursionError, MiroirError) as error:
            self._refuse(HTTPStatus.BAD_REQUEST, error.message if isinstance(error, MiroirError) else "not JSON")
            return
        self._answer(HTTPStatus.NO_CONTENT, b"", "text/plain")

    def _check(self, note: Any) -> None:
        episode = note.get("episode_id") if isinstance(note, dict) else None
        if not isinstance(episode, str) or self.server.records.get(episode) != note.get("record_sha256"):
            raise InvalidArgument("the note is on no record of this report; open the report again")

    def _allowed_path(self) -> str | None:
        """The path below the token; None where the request was refused."""
        origin = self.headers.get("Origin")
        if self.headers.get("Host") not in self._hosts() or (origin is not None and origin not in self._origins()):
            self._refuse(HTTPStatus.FORBIDDEN, "this report is for its own pages on this machine")
            return None
        token, _, path = unquote(self.path.partition("?")[0]).lstrip("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page; open the address that was printed")
            return None
        return path

    def _hosts(self) -> set[str]:
        return {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}

    def _origins(self) -> set[str]:
        return {f"http://{host}" for host in self._hosts()}

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self._answer(status, reason.encode(), "text/plain; charset=utf-8")

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing: an address holds the token."""
