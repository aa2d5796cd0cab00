"""HTTP in one place: errors by kind, deadlines, proxies, tokens that never show."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from miroir import rest
from miroir.errors import ConnectionFailed, HttpError, InvalidArgument


@contextmanager
def answering(*parts: bytes, pause_s: float = 0.0, seen: list[bytes] | None = None) -> Iterator[str]:
    """A server that reads one request and answers it in parts."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            request = connection.recv(65536)
            if seen is not None:
                seen.append(request)
            for part in parts:
                try:
                    connection.sendall(part)
                except OSError:
                    return
                time.sleep(pause_s)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def ok(body: bytes, status: str = "200 OK") -> bytes:
    """A whole HTTP answer."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body


def test_get_returns_the_json() -> None:
    """The JSON of the answer is returned."""
    with answering(ok(b'{"a": [1]}')) as url:
        assert rest.get(url) == {"a": [1]}


def test_an_error_status_names_code_url_and_body() -> None:
    """An error status becomes HTTP_<status> with the body."""
    with answering(ok(b"no such split; there are train, eval", "400 Bad Request")) as url:
        with pytest.raises(HttpError) as caught:
            rest.post(url, {})

    assert str(caught.value) == f"HTTP_400: {url} answered no such split; there are train, eval"


def test_a_long_body_is_cut() -> None:
    """No more than 2,000 characters of an error's body are repeated."""
    with answering(ok(b"x" * 5000, "500 Oops")) as url, pytest.raises(HttpError) as caught:
        rest.get(url)

    assert caught.value.message.count("x") == rest.BODY_SHOWN


def test_what_is_no_json_is_no_environment() -> None:
    """An answer that is not JSON says so, with its type."""
    with answering(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html>") as url:
        with pytest.raises(ConnectionFailed) as caught:
            rest.get(url)

    assert caught.value.message == f"{url}: the answer is not JSON (text/html); is this an environment server?"


def test_a_closed_port_is_named() -> None:
    """A refused connection is CONNECTION_FAILED with the cause in words."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(ConnectionFailed) as caught:
        rest.get(url)

    assert str(caught.value) == f"CONNECTION_FAILED: {url}: connection refused; is the server running?"


def test_a_body_that_trickles_ends_at_the_deadline() -> None:
    """A server that sends a byte now and then cannot hold a call beyond its deadline."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    began = time.monotonic()
    with answering(head, *[b" "] * 12, pause_s=0.2) as url, pytest.raises(ConnectionFailed):
        rest.get(url, timeout_s=0.5)

    assert time.monotonic() - began < 4


def test_a_server_that_never_answers_times_out() -> None:
    """Silence is CONNECTION_FAILED at the deadline."""
    with answering(b"", pause_s=1.0) as url, pytest.raises(ConnectionFailed):
        rest.get(url, timeout_s=0.3)


def test_the_token_is_a_header_and_netrc_is_not_asked(tmp_path, monkeypatch) -> None:
    """The token goes out as a bearer, whatever .netrc says."""
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1 login a password b\n")
    monkeypatch.setenv("NETRC", str(netrc))
    seen: list[bytes] = []
    with answering(ok(b"1"), seen=seen) as url:
        rest.get(url, token="t0p")

    assert b"Authorization: Bearer t0p\r\n" in seen[0]
    assert b"Basic" not in seen[0]


def test_a_token_with_a_line_break_is_refused_without_being_shown() -> None:
    """A token that no header can hold is refused, and its text is not in the error."""
    with pytest.raises(InvalidArgument) as caught:
        rest.get("http://127.0.0.1:9", token="secret\n")

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "10.1.2.3", "192.168.0.9", "[::1]", "localhost", "a.localhost"])
def test_private_hosts_are_known(host: str) -> None:
    """Loopback and private addresses are told from the rest."""
    assert rest.is_private(f"http://{host}:80/x")
    assert not rest.is_private("http://example.org")
    assert not rest.is_private("http://93.184.216.34")


def test_no_proxy_is_asked_for_a_private_host(monkeypatch) -> None:
    """The environment's proxy is not used for loopback."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("all_proxy", "http://127.0.0.1:9")
    with answering(ok(b"1")) as url:
        assert rest.get(url) == 1


def test_a_secret_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A named variable must hold something; the line break of a file is no part of it."""
    monkeypatch.setenv("SOME_SECRET", "s3cret\n")
    monkeypatch.setenv("NO_SECRET", " \n")

    assert rest.secret_from("SOME_SECRET") == "s3cret"
    assert rest.secret_from(None) is None
    with pytest.raises(InvalidArgument, match="the environment variable NO_SECRET is empty or not set; put the secret"):
        rest.secret_from("NO_SECRET")


@pytest.mark.parametrize("pasted", ["hf_AbC123", "sk-1234", "0123456789", "s3crét"])
def test_a_secret_in_place_of_a_name_is_not_said(pasted: str) -> None:
    """Whoever pastes the token itself does not read it in an error."""
    with pytest.raises(InvalidArgument, match="the environment variable that was named is empty or not set") as caught:
        rest.secret_from(pasted)

    assert pasted not in str(caught.value)
