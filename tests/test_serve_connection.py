"""A connection is a lease: its capacity, its ending however it ends, and the limits of its frames."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import socket
import struct
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import requests
from puppet import Puppet
from serveclient import Client, error, health, leased, until
from websockets.exceptions import ConnectionClosed

from miroir.serve import connection, engine, running, server, session

FREED_S = 0.2  # the protocol's own bound, which holds on a machine that is not overloaded


@pytest.fixture
def url() -> Iterator[str]:
    """A server for one session."""
    with running(Puppet) as base:
        yield base


def closed(client: Client) -> int:
    """The code with which the server closed the connection."""
    with pytest.raises(ConnectionClosed):
        client.socket.recv(timeout=10)
    assert client.socket.close_code is not None
    return client.socket.close_code


def free(url: str) -> bool:
    """Whether the server is free."""
    return not health(url)["leased"]


def test_answers_capacity_reached_to_the_rest(url: str) -> None:
    """A connection beyond the capacity is told so unasked, and closed with 1000."""
    with leased(url) as holder, leased(url) as other:
        holder.ask("state")
        data = error(other.receive(), "CAPACITY_REACHED")
        assert (data["active_sessions"], data["max_sessions"]) == (1, 1)
        assert data["message"] == "all 1 sessions are leased; wait for one, or lease another container"
        assert closed(other) == 1000
        assert holder.ask("state")["type"] == "state"


def test_serves_as_many_sessions_as_it_may() -> None:
    """Sessions of one server have worlds and threads of their own."""
    with running(Puppet, max_sessions=3) as url, leased(url) as one, leased(url) as two:
        places = []
        for client in (one, two):
            client.reset()
            places.append(client.call("where")["data"]["observation"]["result"]["data"])
        assert [place["made"] for place in places] == [place["called"] for place in places]
        assert places[0] != places[1]
        assert all(place["made"].startswith("miroir-world-") for place in places)
        said = health(url)
        assert (said["leased"], said["sessions"]) == (False, {"active": 2, "max": 3, "peak": 2})
        assert said["episodes"] == 2


def test_a_slow_step_holds_up_no_other_session() -> None:
    """While one session's step runs, another's is answered."""
    with running(Puppet, max_sessions=2) as url, leased(url) as slow, leased(url) as quick:
        slow.reset()
        quick.reset()
        slow.socket.send(json.dumps({"type": "step", "data": {"tool_name": "sleep", "arguments": {"seconds": 2}}}))
        begun = time.monotonic()
        quick.call("say", text="a")
        assert time.monotonic() - begun < 1.5
        assert slow.receive()["type"] == "observation"


def test_says_that_no_environment_can_be_made() -> None:
    """A constructor that raises is FACTORY_ERROR with its cause, and close 1000; the slot is free again."""

    class Broken(Puppet):
        def __init__(self) -> None:
            raise OSError("no disk")

    with running(Broken) as url:
        with leased(url) as client:
            data = error(client.receive(), "FACTORY_ERROR")
            assert data["message"] == "the environment could not be made: OSError: no disk"
            assert data["factory_name"] == "Broken"
            assert closed(client) == 1000
        until(lambda: free(url))
        assert health(url)["env"] == {"name": "puppet", "version": "7"}


def test_says_that_a_session_broke(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the server's own is SESSION_ERROR and close 1000, and the world is dropped."""

    async def broken(*_: object) -> None:
        raise LookupError("a bug")

    monkeypatch.setattr(session.Session, "answer", broken)
    with leased(url) as client:
        assert error(client.ask("state"), "SESSION_ERROR")["message"] == "the session broke: LookupError: a bug"
        assert closed(client) == 1000
    until(lambda: free(url))


def test_close_ends_the_session(url: str) -> None:
    """A close frame is answered by close 1000 alone."""
    with leased(url) as client:
        client.reset()
        client.socket.send('{"type":"close"}')
        assert closed(client) == 1000
        assert until(lambda: free(url)) < FREED_S


class Forking(Puppet):
    """A puppet whose every call leaves a process that was forked off, and holds all that the server had open."""

    def call(self, tool, arguments):
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        return str(child)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_connection_ends_although_a_process_of_the_world_holds_it() -> None:
    """The client is told at once, and does not wait for the child to end."""
    with running(Forking) as url:
        with leased(url) as client:
            client.reset()
            child = int(client.call("say", text="a")["data"]["observation"]["result"]["data"])
            begun = time.monotonic()
        took = time.monotonic() - begun
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert took < 5


def raw(url: str) -> socket.socket:
    """A socket after the handshake, whose owner answers nothing."""
    host, port = urlsplit(url).netloc.split(":")
    opened = socket.create_connection((host, int(port)), timeout=10)
    key = base64.b64encode(bytes(16)).decode()
    opened.sendall(
        f"GET /ws HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    assert b" 101 " in opened.recv(4096)
    return opened


def text_frame(text: bytes) -> bytes:
    """A text frame as a client sends it: short, and masked with zeros."""
    return bytes([0x81, 0x80 | len(text)]) + bytes(4) + text


@pytest.mark.parametrize("how", ["end", "reset", "middle of a frame"])
def test_a_client_that_vanishes_frees_the_lease(url: str, how: str) -> None:
    """A client that goes without a word is noticed at once, and its world is dropped."""
    before = Puppet.alive
    client = raw(url)
    until(lambda: Puppet.alive == before + 1)
    if how == "reset":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if how == "middle of a frame":
        client.sendall(text_frame(b'{"type":"state"}')[:9])
    client.close()
    assert until(lambda: free(url)) < FREED_S
    assert Puppet.alive == before


def test_a_client_that_says_goodbye_frees_the_lease(url: str) -> None:
    """A closing handshake frees the server at once."""
    with leased(url) as client:
        client.reset()
    assert until(lambda: free(url)) < FREED_S


def test_a_step_that_outlives_its_client_holds_the_lease(url: str) -> None:
    """The lease of a client that goes in mid-step ends with the step, and not before."""
    with leased(url) as client:
        client.reset()
        client.socket.send(json.dumps({"type": "step", "data": {"tool_name": "sleep", "arguments": {"seconds": 0.6}}}))
        time.sleep(0.1)
    time.sleep(0.1)
    assert not free(url)
    assert requests.get(f"{url}/health", timeout=10).status_code == 200
    assert until(lambda: free(url)) < 0.5 + FREED_S


def test_a_step_that_will_not_end_makes_the_server_unwell(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that outlives its client by more than its limit is a 503 with the reason, until it ends."""
    monkeypatch.setattr(session, "GRACE_S", 0.1)
    with leased(url) as client:
        client.reset(max_seconds=0.2)
        client.socket.send(json.dumps({"type": "step", "data": {"tool_name": "sleep", "arguments": {"seconds": 1}}}))
        time.sleep(0.1)
    until(lambda: requests.get(f"{url}/health", timeout=10).status_code == 503)
    said = health(url)
    assert said["status"] == "unhealthy"
    assert said["reason"].endswith("past its limit and still runs; restart this server")
    assert said["leased"]
    until(lambda: health(url)["status"] == "healthy" and free(url))


def test_a_void_step_makes_the_server_unwell_once_its_client_has_gone(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the client is there the record of an episode that ran over can be had; after it the server is unwell."""
    monkeypatch.setattr(session, "GRACE_S", 0.1)
    with leased(url) as client:
        client.reset(max_seconds=0.1)
        client.call("sleep", seconds=0.8)
        assert client.record()["reward"] is None
        assert health(url)["status"] == "healthy"
    until(lambda: health(url)["status"] == "unhealthy", 0.5)
    until(lambda: free(url))


def test_a_silent_peer_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that answers no ping is dropped; one that does stays, though it is idle."""
    monkeypatch.setattr(engine, "PING_S", 0.1)
    monkeypatch.setattr(engine, "SILENT_S", 0.3)
    with running(Puppet, max_sessions=2) as url, leased(url) as idle, contextlib.closing(raw(url)):
        idle.ask("state")
        assert health(url)["sessions"]["active"] == 2
        assert until(lambda: health(url)["sessions"]["active"] == 1) < 1
        time.sleep(0.4)
        assert idle.ask("state")["type"] == "state"


def test_a_frozen_peer_cannot_hold_its_connection_for_ever(url: str) -> None:
    """The kernel drops a connection whose peer has taken nothing for a minute."""
    assert engine.PING_S == 20
    assert engine.SILENT_S == 60
    with server._listener("127.0.0.1", 0) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()) as peer:
            accepted, _ = listener.accept()
            with accepted:
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000
                assert peer.getsockname() == accepted.getpeername()


def test_a_frame_above_the_limit_is_answered_and_closed(url: str) -> None:
    """One byte over 64 MiB is an error frame, then close 1009; 64 MiB are read."""
    with leased(url) as client:
        assert error(client.ask_text(" " * (64 * 1024 * 1024)), "INVALID_JSON")
        data = error(client.ask_text(" " * (64 * 1024 * 1024 + 1)), "VALIDATION_ERROR")
        assert data["message"] == "the frame is larger than 67108864 bytes, the limit of the protocol"
        assert closed(client) == 1009
    until(lambda: free(url))


def test_a_reply_above_the_limit_is_an_error(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply that is too large is an error frame in its place, then close 1009."""
    monkeypatch.setattr(connection, "MAX_FRAME_BYTES", 1000)
    with leased(url) as client:
        client.reset()
        data = error(client.call("say", text="a" * 600), "EXECUTION_ERROR")
        assert data["message"].startswith("the reply is larger than")
        assert closed(client) == 1009


@pytest.mark.parametrize("data", [text_frame(b"\xff\xfe"), b"\x81\x02{}", b"\xff\xff\xff\xff", bytes(64)])
def test_bytes_that_are_no_frames_end_that_connection_alone(url: str, data: bytes) -> None:
    """Text that is not UTF-8, frames without a mask and noise end the session, and the server lives."""
    client = raw(url)
    client.sendall(data)
    assert until(lambda: free(url)) < 1
    client.close()
    with leased(url) as next_one:
        assert next_one.ask("state")["type"] == "state"


def test_a_frame_in_fragments_is_one_frame(url: str) -> None:
    """A message may come in fragments."""
    with leased(url) as client:
        client.socket.send(iter(['{"type":', '"state"}']))
        assert client.receive()["type"] == "state"


def test_tells_a_holder_of_others_that_wait(url: str) -> None:
    """wanted_s counts from the last time another client asked, by /health or by a handshake, and not the holder."""
    with leased(url, Miroir_Waiting="mine") as holder:
        assert holder.ask("state")["data"]["wanted_s"] is None
        requests.get(f"{url}/health", headers={"Miroir-Waiting": "mine"}, timeout=10)
        assert holder.ask("state")["data"]["wanted_s"] is None
        requests.get(f"{url}/health", headers={"Miroir-Waiting": "yours"}, timeout=10)
        assert 0 <= holder.ask("state")["data"]["wanted_s"] < 5
        time.sleep(1.0)
        assert holder.ask("state")["data"]["wanted_s"] >= 1.0
        with leased(url, Miroir_Waiting="theirs") as other:
            other.receive()
        assert holder.ask("state")["data"]["wanted_s"] < 0.9
