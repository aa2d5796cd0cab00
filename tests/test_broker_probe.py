"""Many health requests from one thread: mode of the container against what is learnt of it, over real sockets."""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from fakefleet import FakeFleet
from processes import until

from miroir.broker import probe
from miroir.broker.probe import Prober
from miroir.wire import Health


@pytest.fixture
def prober() -> Iterator[Prober]:
    """One that waits 0.4 s for an answer."""
    made = Prober("s3cret", waiting="me", timeout_s=0.4)
    yield made
    made.close()


def answers(prober: Prober, urls: list[str], seconds: float = 5.0) -> dict[str, Health]:
    """What comes of asking them all at once."""
    for url in urls:
        prober.start(url)
    found: dict[str, Health] = {}
    deadline = time.monotonic() + seconds
    while len(found) < len(urls) and time.monotonic() < deadline:
        found.update(prober.poll(0.05))
    return found


def health(prober: Prober, url: str) -> Health:
    """What comes of asking one."""
    return answers(prober, [url])[url]


class Script:
    """A server that sends the same bytes to whoever connects, and closes."""

    def __init__(self, answer: bytes, *, reset: bool = False) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._answer = answer
        self._reset = reset
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        sock, _ = self._server.accept()
        with sock:
            if not self._reset:
                sock.recv(4096)
            sock.sendall(self._answer)

    def __enter__(self) -> str:
        self._thread.start()
        return self.url

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._server.close()


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("free", Health(True, False, 0, 1, status=200)),
        ("held", Health(True, True, 1, 1, status=200)),
        ("plain", Health(True, status=200)),
        ("half", Health(True, False, 0, 1, status=200)),
        ("down", Health(False, reason="/health answered HTTP 503: its disk is full", status=503)),
        ("hang", Health(False, reason="/health did not answer in 0.4 s")),
    ],
)
def test_mode_and_health(prober: Prober, mode: str, expected: Health) -> None:
    """Each kind of container is told from the others, with the reason."""
    with FakeFleet(mode) as fleet:
        assert health(prober, fleet.urls[0]) == expected


def test_token_and_waiting_are_sent(prober: Prober) -> None:
    """A gateway in front may want the token, and the server wants to know who waits."""
    with FakeFleet("free") as fleet:
        health(prober, fleet.urls[0])

        assert fleet[0].headers["authorization"] == "Bearer s3cret"
        assert fleet[0].headers["miroir-waiting"] == "me"


@pytest.mark.parametrize("path", ["", "/", "/prefix", "/prefix/"])
def test_path_prefix_is_kept(prober: Prober, path: str) -> None:
    """`/health` is asked for under the base URL, with one slash between them."""
    with FakeFleet("free") as fleet:
        health(prober, fleet.urls[0] + path)

        assert fleet[0].paths == [f"{path.removesuffix('/')}/health"]


def test_nobody_listens(prober: Prober) -> None:
    """A refused connection is known at once, with its errno."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"

        assert health(prober, url) == Health(False, reason="connection refused", errno=errno.ECONNREFUSED)


def test_names_are_resolved_once(prober: Prober, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host name is resolved off the polling thread, and its addresses are used again."""
    resolved: list[str] = []
    resolve = socket.getaddrinfo
    monkeypatch.setattr(
        probe.socket, "getaddrinfo", lambda host, *rest, **kw: resolved.append(host) or resolve(host, *rest, **kw)
    )
    with FakeFleet("free") as fleet:
        url = fleet.urls[0].replace("127.0.0.1", "localhost")

        assert [health(prober, url).healthy for _ in range(3)] == [True] * 3
        assert resolved == ["localhost"]


def test_a_name_that_is_none(prober: Prober) -> None:
    """It is said that the name does not resolve."""
    assert "the name no-such-host.invalid does not resolve" in health(prober, "http://no-such-host.invalid:80").reason


def test_tls_is_asked_by_workers(prober: Prober) -> None:
    """https against a server that speaks none is unhealthy, with a reason."""
    with FakeFleet("free") as fleet:
        told = health(prober, fleet.urls[0].replace("http:", "https:"))

    assert not told.healthy
    assert told.reason


def test_a_proxy_is_asked_for_public_hosts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback is reached directly; a public name goes to the environment's proxy."""
    with FakeFleet("free") as proxy, FakeFleet("free") as fleet:
        monkeypatch.setenv("http_proxy", proxy.urls[0])
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        prober = Prober(timeout_s=2)
        told = answers(prober, [fleet.urls[0], "http://env.example.com:8000"])
        prober.close()

        assert all(health.healthy for health in told.values())
        assert proxy[0].paths == ["http://env.example.com:8000/health"]


@pytest.mark.parametrize(
    ("answer", "healthy", "reason"),
    [
        (b'HTTP/1.0 200 OK\r\n\r\n{"status":"healthy"}', True, ""),
        (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n14\r\n{"status":"healthy"}\r\n0\r\n\r\n', True, ""),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{"status":"healthy"}', True, ""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", False, "/health answered HTTP 200"),
        (b'HTTP/1.1 200 OK\r\n\r\n{"status":"ok"}', False, "/health answered HTTP 200: ok"),
        (b"HTTP/1.1 500 no\r\n\r\nInternal Server Error", False, "/health answered HTTP 500"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", False, "/health did not answer in HTTP (BadStatusLine)"),
        (b"", False, "the connection was closed without an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", False, "/health answered HTTP 200"),
        (b"x" * 3_000_000, False, "/health did not answer in HTTP (LineTooLong)"),
    ],
)
def test_answers_of_all_kinds(prober: Prober, answer: bytes, healthy: bool, reason: str) -> None:
    """Old HTTP, chunks, other protocols, and answers that are cut or endless."""
    with Script(answer) as url:
        told = health(prober, url)

    assert (told.healthy, told.reason) == (healthy, reason)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 " + b"2" * 5000 + b" OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: -7\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 5000 + b"\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n" + b'{"sessions":{"max":' + b"9" * 5000 + b"}}",
        b"\0" * 5000,
    ],
)
def test_numbers_beyond_all_measure_harm_nobody_else(prober: Prober, answer: bytes) -> None:
    """The one that says them is unhealthy; the thread that asks, on which every lease depends, goes on."""
    with Script(answer) as url, FakeFleet("free") as fleet:
        told = answers(prober, [url, fleet.urls[0]])

        assert (told[url].healthy, told[fleet.urls[0]].healthy) == (False, True)


def test_hundreds_that_hang_hold_up_nobody(prober: Prober) -> None:
    """300 containers that never answer and one that does: the one is known before any other is given up."""
    with FakeFleet(*["hang"] * 300, "free") as fleet:
        for url in fleet.urls:
            prober.start(url)
        began = time.monotonic()
        first: list[tuple[str, Health]] = []
        while not first:
            first = prober.poll(0.1)
        rest: list[tuple[str, Health]] = []
        while len(rest) < 300 and time.monotonic() < began + 5:
            rest += prober.poll(0.1)

    assert first == [(fleet.urls[300], Health(True, False, 0, 1, status=200))]
    assert len(rest) == 300


def test_wake_ends_a_poll(prober: Prober) -> None:
    """Another thread can end the wait."""
    threading.Timer(0.1, prober.wake).start()
    began = time.monotonic()

    assert prober.poll(10) == []
    assert time.monotonic() - began < 2


def test_wake_after_close_is_harmless() -> None:
    """Whoever comes late wakes nobody."""
    prober = Prober()
    prober.close()
    prober.wake()

    with pytest.raises((OSError, ValueError)):
        prober.poll(0)


def test_closing_drops_what_is_under_way() -> None:
    """Sockets of unanswered requests are closed."""
    with FakeFleet(*["hang"] * 20) as fleet:
        prober = Prober()
        for url in fleet.urls:
            prober.start(url)
        prober.poll(0.1)
        prober.close()

        assert until(lambda: not any(container.writers for container in fleet.containers))


def test_want_of_descriptors_has_its_errno(prober: Prober, monkeypatch: pytest.MonkeyPatch) -> None:
    """EMFILE is told as such, so that it is held against nobody."""

    def no_socket(*_: object) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(probe.socket, "socket", no_socket)

    assert health(prober, "http://127.0.0.1:9") == Health(False, reason="too many open files", errno=errno.EMFILE)
