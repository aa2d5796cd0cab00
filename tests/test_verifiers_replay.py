"""A tool call that a client sends again is answered from memory; one that a model wants again is made again."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from miroir_verifiers.replay import Made, Memory


class Client:
    """A client of a rollout's memory, which counts how often calls are made."""

    def __init__(self) -> None:
        self.turn = 1
        self.made: list[str] = []
        self.memory = Memory(lambda: self.turn)
        self.memory.connected()

    def call(self, request_id: object, name: str = "add", **arguments: Any) -> Made:
        """Send a call; its answer is how many were made before it."""
        return self.memory.call(name, arguments, request_id, lambda: self._make(name))

    def _make(self, name: str) -> Future[str]:
        answer: Future[str] = Future()
        answer.set_result(f"{name} {len(self.made)}")
        self.made.append(name)
        return answer


@pytest.fixture
def client() -> Client:
    return Client()


def test_sent_again_after_reconnecting_it_is_answered_from_memory(client: Client) -> None:
    """Up to the last of a client's six attempts, whatever ids they have."""
    first = client.call(3, n=1)
    for attempt in range(5):
        client.memory.connected()
        assert client.call(1 + attempt % 3, n=1) is first
    assert client.made == ["add"]


def test_sent_again_under_its_own_id_it_is_answered_from_memory(client: Client) -> None:
    """A request that was merely repeated."""
    assert client.call(3, n=1) is client.call(3, n=1)
    assert client.made == ["add"]


def test_sent_again_after_it_was_lost_it_is_answered_from_memory(client: Client) -> None:
    """A client that gave up one request and made another over the connection that it still has."""
    first = client.call(3, n=1)
    first.lost = True
    assert client.call(4, n=1) is first


def test_several_lost_at_once_are_answered_from_memory(client: Client) -> None:
    """Calls that were under way together when the connection broke."""
    first = [client.call(3, n=1), client.call(4, n=2), client.call(5, "say", text="x")]
    client.memory.connected()
    assert [client.call(1, n=1), client.call(2, n=2), client.call(3, "say", text="x")] == first
    assert len(client.made) == 3


def test_arguments_are_compared_as_json(client: Client) -> None:
    """The order of keys means nothing, their values do."""
    first = client.call(3, a=1, b=[2])
    client.memory.connected()
    assert client.call(1, b=[2], a=1) is first
    assert client.call(2, b=[2], a="1") is not first


def test_a_model_may_repeat_a_call_in_its_next_turn(client: Client) -> None:
    """Also over a new connection, as clients that connect for every call have it."""
    client.call(3, n=1)
    client.turn += 1
    client.memory.connected()
    assert client.call(3, n=1).answer.result() == "add 1"
    assert len(client.made) == 2


def test_a_model_may_make_a_call_twice_in_one_turn(client: Client) -> None:
    """Over one connection each request with an id of its own is a call of its own."""
    assert client.call(3, n=1) is not client.call(4, n=1)
    assert len(client.made) == 2
