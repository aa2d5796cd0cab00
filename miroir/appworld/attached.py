"""One AppWorld server that somebody else runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

from ..errors import AppWorldError, ConnectionFailed, InvalidArgument
from ..rest import fetch
from .server import Server
from .session import AppWorldSession, Settings, opened

PROBE_S = 5.0


class AttachedServer:
    """The server at `url`, with the surface of a pool of one; it is never started, restarted or stopped."""

    def __init__(self, url: str, settings: Settings) -> None:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise InvalidArgument(f"{url!r} is no base URL of an AppWorld server; write http://host:port")
        self._url = url.removesuffix("/")
        self._settings = settings
        self._held = threading.Lock()  # guards the server's one world: a session holds it from its start to its end

    def start(self) -> None:
        """See that the server answers; AppWorldError when it does not."""
        try:
            status, _, _ = fetch("GET", f"{self._url}/", timeout_s=PROBE_S)
        except ConnectionFailed as error:
            raise AppWorldError(f"no AppWorld server answers: {error.message}") from error
        if not 200 <= status < 300:
            raise AppWorldError(f"{self._url}/ answered {status}; is it an AppWorld environment server?")

    def stop(self) -> None:
        """The server is left as it is."""

    @contextlib.contextmanager
    def session(self, task_id: str) -> Iterator[AppWorldSession]:
        """A session on the task, once no other is open; AppWorldError when the server has failed since."""
        with self._held:
            self.start()
            server = Server(self._url, timeout_s=self._settings.timeout_s)
            with opened(server, task_id, self._settings) as session:
                yield session
