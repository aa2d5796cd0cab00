"""One WebSocket: exchanges under deadlines, what breaks them, and what never happens to a reply."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fakefleet import FakeFleet
from processes import alarmed, interrupt

from miroir import transport as transports
from miroir import wire
from miroir.errors import InvalidArgument
from miroir.transport import HandshakeFailed, HandshakeRefused, LinkClosed, LinkTimeout, Transport, open_transport

STATE = {"type": "state"}


@pytest.fixture
def fleet() -> Iterator[FakeFleet]:
    """One free container."""
    with FakeFleet("free") as running:
        yield running


@pytest.fixture
def link(fleet: FakeFleet) -> Iterator[Transport]:
    """A connection to it."""
    opened = open_transport(fleet.urls[0])
    yield opened
    opened.close()


def step(tool: str = "echo", **arguments: Any) -> dict[str, Any]:
    """A step's frame."""
    return {"type": "step", "data": {"type": "call_tool", "tool_name": tool, "arguments": arguments}}


def answered(reply: dict[str, Any]) -> Any:
    """The arguments that came back."""
    return json.loads(reply["data"]["observation"]["result"]["content"][0]["text"])


class TestOpening:
    """Handshakes."""

    def test_token_and_waiting_are_sent(self, fleet: FakeFleet) -> None:
        """The handshake carries the bearer token and the id of the process."""
        open_transport(fleet.urls[0], "s3cret", waiting="me").close()

        assert fleet[0].headers["authorization"] == "Bearer s3cret"
        assert fleet[0].headers["miroir-waiting"] == "me"

    def test_no_compression_is_offered(self, fleet: FakeFleet) -> None:
        """Compressing costs more than it saves inside a data centre."""
        open_transport(fleet.urls[0]).close()

        assert "sec-websocket-extensions" not in fleet[0].headers

    @pytest.mark.parametrize("path", ["", "/", "/some/prefix", "/some/prefix/"])
    def test_path_prefix_is_kept(self, fleet: FakeFleet, path: str) -> None:
        """`/ws` is asked for under the base URL, with one slash between them."""
        open_transport(fleet.urls[0] + path).close()

        assert fleet[0].paths[-1] == f"{path.removesuffix('/')}/ws"

    @pytest.mark.parametrize("status", [401, 403, 404, 408, 429, 500, 503])
    def test_refusal_has_its_status(self, fleet: FakeFleet, status: int) -> None:
        """An HTTP status in place of the handshake is told."""
        fleet[0].mode, fleet[0].status = "half", status
        with pytest.raises(HandshakeRefused, match=f"^the handshake was refused with HTTP {status}$") as caught:
            open_transport(fleet.urls[0])

        assert caught.value.status == status

    @pytest.mark.parametrize("mode", ["hang", "half_hang"])
    def test_no_answer_ends_in_time(self, fleet: FakeFleet, mode: str) -> None:
        """A server that does not shake hands is given up at the deadline."""
        fleet[0].mode = mode
        began = time.monotonic()
        with pytest.raises(HandshakeFailed, match=r"^the handshake took more than 0\.2 s$"):
            open_transport(fleet.urls[0], timeout_s=0.2)

        assert time.monotonic() - began < 2

    def test_nobody_listens(self) -> None:
        """A refused connection says so, with its errno."""
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            port = sock.getsockname()[1]
        with pytest.raises(HandshakeFailed, match=r"^connection refused$") as caught:
            open_transport(f"http://127.0.0.1:{port}")

        assert caught.value.errno is not None

    @pytest.mark.parametrize("host", ["no-such-host.invalid", "x" * 70 + ".invalid"])
    def test_a_name_that_is_none(self, host: str) -> None:
        """A host that does not resolve, or cannot be a name, is a failed handshake and nothing worse."""
        with pytest.raises(HandshakeFailed):
            open_transport(f"http://{host}:8000", timeout_s=5)

    def test_a_server_that_speaks_no_tls(self, fleet: FakeFleet) -> None:
        """https against a plain server is a failed handshake."""
        with pytest.raises(HandshakeFailed):
            open_transport(fleet.urls[0].replace("http:", "https:"), timeout_s=1)

    def test_a_dial_can_be_ended_from_outside(self, fleet: FakeFleet) -> None:
        """Shutting the socket down that `on_dial` was given ends the attempt at once."""
        fleet[0].mode = "half_hang"
        began = time.monotonic()
        with pytest.raises(HandshakeFailed):
            open_transport(
                fleet.urls[0],
                on_dial=lambda sock: threading.Timer(0.1, sock.shutdown, [socket.SHUT_RDWR]).start(),
            )

        assert time.monotonic() - began < 5

    def test_no_proxy_for_private_hosts(self, fleet: FakeFleet, monkeypatch: pytest.MonkeyPatch) -> None:
        """Loopback and private addresses are reached directly, whatever the environment says of proxies."""
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        opened = open_transport(fleet.urls[0])

        assert opened.exchange(STATE, 5)["type"] == "state"

        opened.close()

    def test_the_environments_proxy_for_the_rest(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A public name is asked of the proxy, by CONNECT."""
        with socket.create_server(("127.0.0.1", 0)) as proxy:
            for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
                monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.getsockname()[1]}")
            monkeypatch.delenv("no_proxy", raising=False)
            monkeypatch.delenv("NO_PROXY", raising=False)
            seen: list[bytes] = []

            def answer() -> None:
                sock, _ = proxy.accept()
                with sock:
                    seen.append(sock.recv(4096))
                    sock.sendall(b"HTTP/1.1 403 no\r\nContent-Length: 0\r\n\r\n")

            thread = threading.Thread(target=answer)
            thread.start()
            with pytest.raises(HandshakeFailed):
                open_transport("http://env.example.com:8000", timeout_s=5)
            thread.join()

        assert seen[0].startswith(b"CONNECT env.example.com:8000 ")

    def test_keepalive_finds_a_host_that_is_gone(self, link: Transport) -> None:
        """The kernel asks a silent peer after 10 s, and gives up on one that answers nothing for 15 s."""
        sock = link._socket

        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert [
            sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
            for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
        ] == [10, 3, 3, 15_000]


class TestExchange:
    """A frame for a reply."""

    def test_reply_is_returned(self, link: Transport) -> None:
        """What the server answers is the result."""
        assert answered(link.exchange(step(x=1), 5)) == {"x": 1}

    def test_any_text_survives(self, link: Transport) -> None:
        """Astral characters, controls and lone surrogates arrive as they were sent."""
        text = "Grüße 日本 \U0001f600 \x00\x1f \ud800"

        assert answered(link.exchange(step(text=text), 5)) == {"text": text}

    def test_three_megabytes_both_ways(self, link: Transport) -> None:
        """A frame larger than common limits goes there and back."""
        assert len(answered(link.exchange(step(text="x" * 3_000_000), 30))["text"]) == 3_000_000

    @pytest.mark.parametrize("bad", [math.nan, math.inf, {1, 2}, b"bytes", object()])
    def test_what_json_cannot_hold_is_refused_before_sending(self, link: Transport, bad: Any) -> None:
        """NaN, Infinity, sets, bytes and objects are InvalidArgument, and the connection stays good."""
        with pytest.raises(InvalidArgument, match=r"^INVALID_ARGUMENT: this cannot be sent as JSON \(.*; send finite"):
            link.exchange(step(bad=bad), 5)

        assert answered(link.exchange(step(x=2), 5)) == {"x": 2}

    def test_what_refers_to_itself_is_refused(self, link: Transport) -> None:
        """A list that holds itself is InvalidArgument."""
        circle: list[Any] = []
        circle.append(circle)
        with pytest.raises(InvalidArgument):
            link.exchange(step(bad=circle), 5)

        assert link.usable

    def test_too_large_is_refused_before_sending(self, link: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
        """More than the largest frame is InvalidArgument that names both sizes, and the connection stays good."""
        monkeypatch.setattr(wire, "MAX_FRAME_BYTES", 10_000)
        with pytest.raises(InvalidArgument, match=r"a frame of 20,\d+ bytes is larger than the 10,000 that may be"):
            link.exchange(step(text="x" * 20_000), 5)

        assert link.exchange(STATE, 5)["type"] == "state"

    def test_the_largest_frame_is_64_mib(self) -> None:
        """The protocol's limit."""
        assert wire.MAX_FRAME_BYTES == 64 * 2**20

    def test_endless_patience_is_allowed(self, link: Transport) -> None:
        """An infinite timeout is one."""
        assert link.exchange(STATE, math.inf)["type"] == "state"

    def test_one_at_a_time(self, link: Transport) -> None:
        """Calls from several threads queue, and each gets its own reply."""
        got: dict[int, Any] = {}

        def call(number: int) -> None:
            got[number] = answered(link.exchange(step(number=number), 10))

        threads = [threading.Thread(target=call, args=[number]) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert got == {number: {"number": number} for number in range(20)}


class TestBreaking:
    """What ends a connection, and that nothing comes after."""

    def test_late_reply_is_never_read(self, link: Transport, fleet: FakeFleet) -> None:
        """After a timeout the connection is closed, so a later call cannot get the earlier one's reply."""
        with pytest.raises(LinkTimeout, match=r"^no reply came within 0\.1 s$"):
            link.exchange(step("sleep", s=0.3), 0.1)
        time.sleep(0.5)
        with pytest.raises(LinkClosed, match=r"^no reply came within 0\.1 s$"):
            link.exchange(STATE, 5)

        assert not link.usable

    def test_interrupted_while_receiving(self, link: Transport) -> None:
        """Ctrl-C while a reply is owed is raised, and the connection is closed."""
        with alarmed(0.2), pytest.raises(KeyboardInterrupt):
            link.exchange(step("sleep", s=5), 30)

        assert not link.usable
        with pytest.raises(LinkClosed, match="interrupted while its reply was owed"):
            link.exchange(STATE, 5)

    def test_interrupted_while_sending(self, fleet: FakeFleet) -> None:
        """Ctrl-C in the middle of a large frame is raised, and the connection is closed."""
        link = self.deaf(fleet)
        with alarmed(1.0), pytest.raises(KeyboardInterrupt):
            link.exchange(step(text="x" * 30_000_000), 30)

        assert not link.usable
        link.close()

    def test_interrupted_anywhere(self, fleet: FakeFleet) -> None:
        """Whatever bytecode Ctrl-C hits, the next call gets its own reply or none."""
        previous = signal.signal(signal.SIGALRM, interrupt)
        try:
            for number in range(150):
                link = open_transport(fleet.urls[0])
                link.exchange(STATE, 5)
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.000_02 * (number + 1))
                    for turn in range(1000):
                        link.exchange(step(old=turn), 5)
                except KeyboardInterrupt:
                    pass
                with contextlib.suppress(LinkClosed):
                    assert answered(link.exchange(step(new=number), 5)) == {"new": number}
                link.close()
        finally:
            signal.signal(signal.SIGALRM, previous)

    def test_a_peer_that_takes_no_data(self, fleet: FakeFleet) -> None:
        """A send that blocks is given up at the deadline."""
        link = self.deaf(fleet)
        began = time.monotonic()
        with pytest.raises(LinkTimeout, match=r"^the peer took no data for 0\.5 s$"):
            link.exchange(step(text="x" * 30_000_000), 0.5)

        assert time.monotonic() - began < 3

    def test_reset_by_the_peer_is_seen_at_once(self, link: Transport, fleet: FakeFleet) -> None:
        """A connection that is reset in mid-call ends the call."""
        threading.Timer(0.2, fleet.drop, [0]).start()
        began = time.monotonic()
        with pytest.raises(LinkClosed):
            link.exchange(step("sleep", s=5), 30)

        assert time.monotonic() - began < 1

    def test_what_the_server_said_before_it_closed_is_read(self, link: Transport, fleet: FakeFleet) -> None:
        """An error that ended the session while nobody asked is the answer to the next call."""
        fleet.send(0, {"type": "error", "data": {"code": "SESSION_ERROR", "message": "reaped"}}, close=True)
        time.sleep(0.2)

        assert link.exchange(STATE, 5)["data"]["message"] == "reaped"

    def test_closed_by_the_server(self, link: Transport, fleet: FakeFleet) -> None:
        """A close frame is named with its code."""
        fleet.send(0, None, close=True)
        time.sleep(0.2)
        with pytest.raises(LinkClosed, match=r"^the server closed it \(1000\)$"):
            link.exchange(STATE, 5)

    def test_a_frame_that_nobody_asked_for(self, link: Transport, fleet: FakeFleet) -> None:
        """A second reply to one request breaks the connection, for the next call would take it for its own."""
        fleet[0].reply = lambda frame: [{"type": "state", "data": {"n": n}} for n in (1, 2)]
        link.exchange(STATE, 5)
        time.sleep(0.2)
        with pytest.raises(LinkClosed, match=r"^it sent a frame that nobody asked for$"):
            link.exchange(STATE, 5)

    def test_a_frame_that_nobody_asked_for_in_an_idle_time(self, link: Transport, fleet: FakeFleet) -> None:
        """One that comes after many good exchanges is found by the next."""
        for _ in range(20):
            link.exchange(STATE, 5)
        fleet.send(0, {"type": "state", "data": {}})
        time.sleep(0.2)
        with pytest.raises(LinkClosed, match=r"^it sent a frame that nobody asked for$"):
            link.exchange(STATE, 5)

    def test_replies_in_pieces(self, link: Transport, fleet: FakeFleet) -> None:
        """A message that comes in several frames, pings between them, is one reply; a second one is too many."""
        pieces = [b'{"type": "state", ', b'"data": ', b'{"n": 1}}']
        fleet[0].reply = lambda frame: [pieces]
        told = [link.exchange(STATE, 5) for _ in range(5)]
        fleet[0].reply = lambda frame: [pieces, pieces]
        link.exchange(STATE, 5)
        time.sleep(0.2)

        assert told == [{"type": "state", "data": {"n": 1}}] * 5
        with pytest.raises(LinkClosed, match=r"^it sent a frame that nobody asked for$"):
            link.exchange(STATE, 5)

    def test_blanks_around_a_reply(self, link: Transport, fleet: FakeFleet) -> None:
        """JSON's blanks before and after the object are none of it."""
        fleet[0].reply = lambda frame: [b'\r\n\t {"type": "state"} \t\r\n']

        assert link.exchange(STATE, 5) == {"type": "state"}

    @pytest.mark.parametrize(
        "junk",
        [b"not json", b"[1]", b'"text"', b"[" * 100_000, b"\xff\xfe", b"", b"{} {}", b"{}\xc2\xa0", b"\xef\xbb\xbf{}"],
    )
    def test_junk_in_place_of_a_reply(self, link: Transport, fleet: FakeFleet, junk: bytes) -> None:
        """What is not a JSON object breaks the connection."""
        fleet[0].reply = lambda frame: [junk]
        with pytest.raises(LinkClosed):
            link.exchange(STATE, 5)

        assert not link.usable

    def test_closed_by_another_thread(self, link: Transport) -> None:
        """A call that is running is woken within a second."""
        threading.Timer(0.2, link.close).start()
        began = time.monotonic()
        with pytest.raises(LinkClosed, match=r"^it was closed$"):
            link.exchange(step("sleep", s=5), 30)

        assert time.monotonic() - began < 1.2

    def test_close_again_and_again(self, link: Transport, fleet: FakeFleet) -> None:
        """It is idempotent, and the container is free after the first."""
        for _ in range(3):
            link.close()

        assert fleet.settled(0)

    def deaf(self, fleet: FakeFleet) -> Transport:
        """A connection to a container that takes no more data."""
        fleet[0].mode = "deaf"
        link = open_transport(fleet.urls[0])
        link.exchange(STATE, 5)
        return link


class TestFork:
    """A child that was forked."""

    def test_the_childs_copy_is_closed_and_refuses(self, link: Transport, fleet: FakeFleet) -> None:
        """The child's calls raise, it holds no descriptor of the lease, and the parent's goes on."""
        child = os.fork()
        if child == 0:
            try:
                link.exchange(STATE, 5)
            except LinkClosed as error:
                told = "inherited by fork" in str(error) and link._socket.fileno() == -1
                os._exit(0 if told and not link.usable else 1)
            os._exit(2)
        _, status = os.waitpid(child, 0)

        assert os.waitstatus_to_exitcode(status) == 0
        assert link.exchange(STATE, 5)["type"] == "state"

    def test_a_socket_that_is_being_dialled_is_closed_too(self, fleet: FakeFleet) -> None:
        """A fork in the middle of a handshake leaves the child no hold on the lease to come."""
        fleet[0].mode = "half_hang"
        failed: list[Exception] = []
        dialled = threading.Event()

        def dial() -> None:
            try:
                open_transport(fleet.urls[0], timeout_s=1, on_dial=lambda _: dialled.set())
            except HandshakeFailed as error:
                failed.append(error)

        thread = threading.Thread(target=dial)
        thread.start()
        dialled.wait(5)
        child = os.fork()
        if child == 0:
            os._exit(any(sock.fileno() != -1 for sock in transports._sockets))
        _, status = os.waitpid(child, 0)
        thread.join()

        assert os.waitstatus_to_exitcode(status) == 0
        assert len(failed) == 1
