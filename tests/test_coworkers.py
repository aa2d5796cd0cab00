"""Coworkers played by a chat model over real HTTP."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import pytest
import quirks
from modelserver import Reply, answer, serving

from miroir.coworkers import CoworkerModel, answer_coworkers, answerable
from miroir.errors import ConnectionLost, CoworkerFailed, InvalidArgument
from miroir.wire import CoworkerTurn, Task

KEY = "sk-very-secret-42"
CHAT = [{"role": "system", "content": "You are Ana."}, {"role": "user", "content": "May I?"}]


class World:
    """A session in which coworkers owe replies."""

    def __init__(self, *coworkers: str, status: int | None = 200) -> None:
        self.turns: list[CoworkerTurn] = [{"coworker": name, "messages": CHAT} for name in coworkers]
        self.status = status
        self.replies: list[tuple[str, str]] = []

    def coworker_turns(self) -> list[CoworkerTurn]:
        """Who owes a reply."""
        return self.turns

    def coworker_reply(self, coworker: str, text: str) -> int | None:
        """Take a reply."""
        self.replies.append((coworker, text))
        return self.status


def test_every_owed_turn_is_answered() -> None:
    """Each chat goes to the model as it is; the number of answers is returned."""
    world = World("ana", "ben")
    with serving([Reply(answer("You may.\n")), Reply(answer("No."))]) as server:
        assert answer_coworkers(world, CoworkerModel(f"{server.base_url}/", "m", KEY)) == 2
    assert world.replies == [("ana", "You may.\n"), ("ben", "No.")]
    assert server.bodies == [{"model": "m", "messages": CHAT}] * 2
    assert server.asked[0].path == "/v1/chat/completions"
    assert server.asked[0].headers["Authorization"] == f"Bearer {KEY}"


def test_what_the_answers_cost_is_told() -> None:
    """One entry for each answer whose tokens were counted."""
    uncounted = {key: value for key, value in answer("No.").items() if key != "usage"}
    usages: list[dict[str, int]] = []
    with serving([Reply(answer("Yes.")), Reply(uncounted)]) as server:
        answer_coworkers(World("ana", "ben"), CoworkerModel(server.base_url, "m"), usages=usages)
    assert usages == [{"prompt_tokens": 10, "completion_tokens": 5}]


def test_nobody_to_answer_asks_no_model() -> None:
    """Nothing is sent, not even to an endpoint that is not there."""
    assert answer_coworkers(World(), CoworkerModel("http://127.0.0.1:9", "m")) == 0


def test_temperature_and_key_are_sent_only_when_set() -> None:
    """Zero is a temperature."""
    with serving([Reply(answer("Yes."))]) as server:
        answer_coworkers(World("ana"), CoworkerModel(server.base_url, "m"))
        answer_coworkers(World("ana"), CoworkerModel(server.base_url, "m", temperature=0.0))
    assert "Authorization" not in server.asked[0].headers
    assert "temperature" not in server.bodies[0]
    assert server.bodies[1]["temperature"] == 0.0


def test_a_passing_fault_is_tried_again() -> None:
    """A rate limit does not cost an episode."""
    with serving([Reply("", 503), Reply(answer("Yes."))]) as server:
        assert answer_coworkers(World("ana"), CoworkerModel(server.base_url, "m")) == 1


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply({"error": {"message": f"bad key {KEY}"}}, 401), "HTTP 401: bad key [api key]; check the API key"),
        (Reply({"error": {"message": "Slow down"}}, 429, {"retry-after": "31"}), "it asks to wait 31 s"),
        (quirks.LLAMA_CPP_CONTEXT, "the conversation is longer than the model's context"),
    ],
    ids=["key", "limit", "context"],
)
def test_a_failing_model_fails_the_coworker(reply: Reply, why: str) -> None:
    """The error names coworker, model and URL, says why, and holds no key."""
    world = World("ana")
    with serving([reply]) as server, pytest.raises(CoworkerFailed) as caught:
        answer_coworkers(world, CoworkerModel(server.base_url, "gpt-x", KEY))
    assert str(caught.value).startswith(f"COWORKER_FAILED: ana got no answer from gpt-x at {server.base_url}: ")
    assert why in str(caught.value)
    assert KEY not in str(caught.value)
    assert not world.replies


@pytest.mark.parametrize("text", [None, "", " \n"])
def test_a_blank_answer_fails_the_coworker(text: str | None) -> None:
    """A coworker who says nothing would leave the episode hanging."""
    with serving([Reply(answer(text))]) as server, pytest.raises(CoworkerFailed) as caught:
        answer_coworkers(World("ana"), CoworkerModel(server.base_url, "gpt-x"))
    assert str(caught.value) == (
        f"COWORKER_FAILED: gpt-x at {server.base_url} answered for ana without a word; choose a model that writes text"
    )


def test_an_answer_has_a_deadline() -> None:
    """Its retries included."""
    with (
        serving([Reply([b" "] * 100, pause_s=0.1)]) as server,
        pytest.raises(CoworkerFailed, match="did not end in time"),
    ):
        answer_coworkers(World("ana"), CoworkerModel(server.base_url, "m"), timeout_s=0.4)
    assert len(server.asked) == 1


def test_a_reply_that_the_world_refuses_fails_the_coworker() -> None:
    """Else the same turn would be answered again after every step."""
    with serving([Reply(answer("Yes."))]) as server, pytest.raises(CoworkerFailed) as caught:
        answer_coworkers(World("ana", status=422), CoworkerModel(server.base_url, "gpt-x"))
    assert str(caught.value) == (
        "COWORKER_FAILED: the environment refused ana's answer with status 422 "
        f"(written by gpt-x at {server.base_url}); see the environment's log"
    )


def test_a_world_that_tells_no_status_has_taken_the_reply() -> None:
    """Not every server tells one."""
    with serving([Reply(answer("Yes."))]) as server:
        assert answer_coworkers(World("ana", status=None), CoworkerModel(server.base_url, "m")) == 1


def test_a_lost_session_is_its_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is not blamed for the network."""
    world = World("ana")

    def lost(coworker: str, text: str) -> int | None:
        raise ConnectionLost("gone")

    monkeypatch.setattr(world, "coworker_reply", lost)
    with serving([Reply(answer("Yes."))]) as server, pytest.raises(ConnectionLost):
        answer_coworkers(world, CoworkerModel(server.base_url, "m"))


def test_a_coworker_model_is_frozen_and_shows_no_key() -> None:
    """Equal ones are one key of a dict."""
    model = CoworkerModel("http://127.0.0.1:9/v1", "m", KEY)
    assert repr(model) == "CoworkerModel(base_url='http://127.0.0.1:9/v1', model='m', temperature=None)"
    assert len({model, CoworkerModel("http://127.0.0.1:9/v1", "m", KEY)}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.model = "other"  # type: ignore[misc]


def test_a_coworker_model_needs_a_base_url() -> None:
    """Found before any episode is begun."""
    with pytest.raises(InvalidArgument, match=r"'localhost:8000' is not a base URL: .*; write http://host:port"):
        CoworkerModel("localhost:8000", "m")


def task(name: str, **more: Any) -> Task:
    """A task row."""
    return {"id": name, "task_hash": "h", "instruction": "", **more}  # type: ignore[typeddict-item]


TASKS = [
    task("alone"),
    task("none", coworkers=[], coworkers_scripted=False),
    task("scripted", coworkers=["ana"], coworkers_scripted=True),
    task("played", coworkers=["ana"], coworkers_scripted=False),
    task("unknown", coworkers=["ben"]),
]


def test_with_a_model_every_task_is_answerable() -> None:
    """The list itself, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert answerable(TASKS, True) is TASKS
        assert answerable(TASKS[:3], False) == TASKS[:3]


def test_without_a_model_the_tasks_that_need_one_are_left_out() -> None:
    """One warning counts them."""
    with pytest.warns(UserWarning, match=r"^2 of 5 tasks are left out: their coworkers need a model; ") as caught:
        assert answerable(TASKS, False) == TASKS[:3]
    assert [warning.filename for warning in caught] == [__file__]
