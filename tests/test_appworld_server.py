"""Calls of one AppWorld server: what is sent, and every way in which no proper answer comes."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from appworldserver import BARE, FakeAppWorld, Reply, faked

from miroir.appworld import server as server_module
from miroir.appworld.server import Refused, Server, TooLong, Unanswered, Unreadable
from miroir.errors import AppWorldError


@pytest.fixture
def fake() -> Iterator[FakeAppWorld]:
    """A server that does as it is told."""
    with faked() as made:
        yield made


def server(fake: FakeAppWorld, timeout_s: float = 5.0) -> Server:
    """A client of the fake."""
    return Server(fake.url, timeout_s=timeout_s, logs=lambda: fake.log)


def test_a_call_posts_json_and_returns_the_output(fake: FakeAppWorld) -> None:
    """R90, R93: the envelope is taken off; whatever JSON it held is returned."""
    fake.say("/execute", *(Reply({"output": output}) for output in ("text", None, False, [1])))

    answers = [server(fake).call("/execute", {"task_id": "t", "code": "\ud800"}) for _ in range(4)]

    assert answers == ["text", None, False, [1]]
    assert fake.calls == [("/execute", {"task_id": "t", "code": "\ud800"})] * 4


def test_each_call_has_a_connection_of_its_own(fake: FakeAppWorld) -> None:
    """None is used twice: the real server resets the request that follows on a fault."""
    calling = server(fake)
    for _ in range(3):
        with pytest.raises(Refused):
            calling.call("/execute", {"task_id": "t", "code": "fault"})
        calling.call("/task_completed", {"task_id": "t"})

    assert fake.connections == len(fake.calls) == 6
    assert calling.fault is None


def test_proxies_are_ignored(fake: FakeAppWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """R41: a proxy of the environment is not asked for a server on this machine."""
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    assert server(fake).call("/task_completed", {"task_id": "t"}) is False


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply(delay_s=1.0), "timed out"),
        (Reply({"output": "x" * 1000}, cut=True), "IncompleteRead"),
        (Reply(drop=True), "RemoteDisconnected"),
    ],
    ids=["late", "cut", "dropped"],
)
def test_an_answer_that_does_not_come_whole_is_the_servers_fault(fake: FakeAppWorld, reply: Reply, why: str) -> None:
    """R91, R96: the text names path, type and reason; its cause is kept; nobody should get this server."""
    fake.say("/execute", reply)
    calling = server(fake, timeout_s=0.3)

    with pytest.raises(
        Unanswered, match=r"^APPWORLD: /execute did not complete: \w+: .*; the server at http"
    ) as caught:
        calling.call("/execute", {"task_id": "t", "code": "1"})

    assert why in str(caught.value)
    assert caught.value.__cause__ is not None
    assert calling.fault is not None
    assert calling.fault.startswith("/execute did not complete")


def test_a_server_that_is_gone_is_an_appworld_error() -> None:
    """R91: refused connections are mapped like every other fault."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    calling = Server(f"http://127.0.0.1:{port}", timeout_s=2.0)

    with pytest.raises(AppWorldError, match=r"/close did not complete: .*: connection refused"):
        calling.call("/close", {"task_id": "t"})


def test_a_trickle_of_bytes_does_not_outlast_the_deadline() -> None:
    """R62: the time limit is for the whole answer, not for each of its bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def trickle() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                try:
                    for _ in range(100):
                        connection.sendall(b" ")
                        time.sleep(0.05)
                except OSError:
                    return

        thread = threading.Thread(target=trickle)
        thread.start()
        began = time.monotonic()
        with pytest.raises(Unanswered, match="timed out"):
            Server(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout_s=0.4).call("/execute", {})
        assert time.monotonic() - began < 3.0
        thread.join()


@pytest.mark.parametrize(
    "body",
    [b"<html>hello", b"", b"[1]", b"{}", b'{"detail": "x"}', b"\xff\xfe", b"null", b"[" * 100_000],
    ids=["html", "empty", "list", "no output", "detail", "no utf-8", "null", "deep"],
)
def test_a_body_without_output_is_an_appworld_error(fake: FakeAppWorld, body: bytes) -> None:
    """R12, R93, R94: nothing but the agreed envelope is taken; the text shows at most 500 characters of what came."""
    fake.say("/evaluate", Reply(body))
    calling = server(fake)

    with pytest.raises(Unreadable, match='/evaluate answered no JSON object with "output" but') as caught:
        calling.call("/evaluate", {"task_id": "t"})

    assert body.decode(errors="replace")[:500] in caught.value.message
    assert len(caught.value.message) < 800
    assert calling.fault is not None


@pytest.mark.parametrize("status", [302, 404, 422])
def test_a_status_that_is_no_success_is_told_with_its_body(fake: FakeAppWorld, status: int) -> None:
    """R12, R92: Path, status, and at most 2000 characters of the body; the server itself is not blamed."""
    fake.say("/initialize", Reply({"detail": "x" * 5000}, status))
    calling = server(fake)

    with pytest.raises(Refused, match=rf'/initialize answered {status}: {{"detail": "xxx') as caught:
        calling.call("/initialize", {"task_id": "t"})

    assert (caught.value.status, caught.value.log) == (status, ())
    assert 2000 < len(caught.value.message) < 2200
    assert calling.fault is None


def test_a_bare_500_is_explained_by_the_servers_log(fake: FakeAppWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last lines are awaited, since it writes them after its answer, and stand in the text."""
    fake.say("/execute", Reply(BARE.encode(), 500))
    late = threading.Timer(0.1, fake.log.append, ["sqlite3.ProgrammingError: closed"])
    late.start()

    with pytest.raises(Refused, match="/execute answered 500: Internal Server Error; its log ends:") as caught:
        server(fake).call("/execute", {"task_id": "t", "code": "1"})

    late.join()
    assert caught.value.log == ("INFO: started", "sqlite3.ProgrammingError: closed")
    assert caught.value.message.endswith("\n    sqlite3.ProgrammingError: closed")


def test_a_500_without_a_log_says_where_to_look(fake: FakeAppWorld) -> None:
    """A server that someone else runs has its log elsewhere."""
    fake.say("/close", Reply(b"", 500))

    with pytest.raises(Refused, match=r"/close answered 500: \(no body\); the log of the server at http.* says why"):
        Server(fake.url, timeout_s=5.0).call("/close", {"task_id": "t"})


def test_an_answer_without_end_is_not_kept(fake: FakeAppWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is larger than the limit is no longer read, and the server is not blamed."""
    monkeypatch.setattr(server_module, "MAX_BODY_BYTES", 1000)
    fake.say("/execute", Reply({"output": "x" * 200_000}))
    calling = server(fake)

    with pytest.raises(TooLong, match="/execute answered more than 1000 bytes; have the code print less"):
        calling.call("/execute", {"task_id": "t", "code": "1"})

    assert calling.fault is None


def test_an_interrupt_is_not_mapped(fake: FakeAppWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """R95: Ctrl-C passes through as it is, and blames nobody."""
    calling = server(fake)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(server_module.rest, "send", interrupted)
    with pytest.raises(KeyboardInterrupt):
        calling.call("/execute", {})
    assert calling.fault is None


def test_a_server_shows_the_tasks_that_it_can_load(fake: FakeAppWorld) -> None:
    """Known, unknown, and no answer at all."""
    fake.say("/tasks/late", Reply(drop=True))

    assert [server(fake).shows(task_id) for task_id in ("toy_1", "nope_1", "late")] == [True, False, False]
