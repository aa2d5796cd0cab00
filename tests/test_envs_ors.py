"""The gateway to ORS servers: tasks, sessions, calls that survive a dropped stream, and what the rewards come to."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fakeors import TOOLS, FakeOrs, fake_ors
from processes import until

from miroir import EnvError, Fleet, Session, catalog
from miroir.envs.ors import Ors
from miroir.envs.ors import server as ors_server
from miroir.envs.ors.rewards import Rewards
from miroir.errors import ConnectionFailed, InvalidArgument
from miroir.serve import InvalidOption, UnknownTask, running


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOrs]:
    """A fake ORS server, whose dropped streams are taken up again without much ado."""
    monkeypatch.setattr(ors_server, "PAUSE_S", 0.05)
    with fake_ors() as server:
        yield server


@contextmanager
def gateway(fake: FakeOrs, task_id: str = "one", **options: Any) -> Iterator[Session]:
    """A session of ours on a task, through a gateway in front of the fake."""
    with running(functools.partial(Ors, fake.url, **options)) as url, Fleet([url]) as fleet, fleet.lease() as session:
        session.reset(task_id)
        yield session


def output(text: str = "ok", **more: Any) -> dict[str, Any]:
    """What a tool gives."""
    return {"blocks": [{"type": "text", "text": text, "detail": None}], **more}


def text(step: Any) -> str:
    """The text of a step's result."""
    content: str = step["observation"]["result"]["content"][0]["text"]
    return content


def test_lists_tasks_without_their_solutions(fake: FakeOrs) -> None:
    """A task has its own id where it is the only one, a hash of its row, and nothing of the row itself."""
    fake.tasks["test"] = [{"n": 3}, {"id": "two"}]
    with running(functools.partial(Ors, fake.url)) as url:
        train, test = catalog.tasks(url, "train"), catalog.tasks(url, "test")

    assert [task["id"] for task in train + test] == ["one", "train-1", "test-0", "test-1"]
    assert len({task["task_hash"] for task in train + test}) == 4
    assert "n" not in train[0]


def test_lists_tasks_that_are_only_had_by_index(fake: FakeOrs) -> None:
    """A server that refuses to list is asked for the range."""
    fake.by_index_only = True
    with running(functools.partial(Ors, fake.url)) as url:
        assert [task["id"] for task in catalog.tasks(url)] == ["one", "two"]


def test_an_episode_is_a_session_of_the_server(fake: FakeOrs) -> None:
    """It is created by split and index, has the prompt as its first observation, and is deleted at the end."""
    with running(functools.partial(Ors, fake.url)) as url:
        assert catalog.environment(url) == {"name": "sums", "version": "abc"}
        with Fleet([url]) as fleet, fleet.lease() as session:
            assert session.reset("two") == {"prompt": "Solve it."}
            assert list(fake.sessions.values()) == [{"id": "two", "n": 2}]
            session.reset("one")
            assert list(fake.sessions.values()) == [{"id": "one", "n": 1}]
        assert until(lambda: not fake.sessions)


def test_another_environment_of_the_server_is_named(fake: FakeOrs) -> None:
    """`env` chooses among the server's, in any case."""
    assert Ors(fake.url, "Other").name == "other"
    with pytest.raises(ConnectionFailed, match="has no environment 'more'; it has sums, other"):
        Ors(fake.url, "more")


def test_secrets_come_from_the_environment(fake: FakeOrs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their values go to the server's session, the key to every request, and neither into an error."""
    monkeypatch.setenv("WEB_KEY", "s3cret")
    monkeypatch.setenv("SERVER_KEY", "k3y")
    with gateway(fake, secrets="WEB_KEY", api_key_env="SERVER_KEY"):
        assert fake.secrets == {"WEB_KEY": "s3cret"}
        assert fake.keys == {"k3y"}
    with pytest.raises(InvalidArgument, match="the environment variable NOT_SET is empty or not set"):
        Ors(fake.url, secrets="NOT_SET")


def test_a_server_that_is_starting_is_waited_for(fake: FakeOrs) -> None:
    """A prompt that answers 503, still starting, is asked for again, more often than an overload would be."""
    fake.starting = 5
    with gateway(fake) as session:
        assert session.episode_id is not None
        assert fake.asked["prompt"] == 6


def test_an_overloaded_server_is_asked_thrice(fake: FakeOrs) -> None:
    """And then its answer is the error."""
    fake.busy = [503, 429]
    assert Ors(fake.url).name == "sums"
    fake.busy = [503] * 3
    with pytest.raises(Exception, match=r"HTTP_503: .* answered .*busy"):
        Ors(fake.url)


def test_results_pass_as_text_or_as_blocks(fake: FakeOrs) -> None:
    """Text is text; with an image among the blocks they pass as they are."""
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png", "detail": None}
    fake.results = {"add": output("3", reward=0.1), "answer": {"blocks": [image]}}
    with gateway(fake) as session:
        step = session.step("add", {"a": 1, "b": 2})
        assert (text(step), step["reward"], step["done"]) == ("3", 0.1, False)
        assert session.step("answer", {})["observation"]["result"]["structured_content"] == {"blocks": [image]}


@pytest.mark.parametrize("size", [6004, 4096, 40_000])
def test_a_text_with_a_space_at_every_border_arrives_whole(fake: FakeOrs, size: int) -> None:
    """Results come in pieces of 4096 characters, and a piece may begin with a space."""
    long = "".join(" x"[at % 2] for at in range(size)) + "end"
    for shift in range(2):
        fake.results = {"add": output(" " * shift + long)}
        with gateway(fake) as session:
            assert text(session.step("add", {})) == " " * shift + long


@pytest.mark.parametrize("drop", ["token", "chunk", "end"])
def test_a_dropped_stream_is_taken_up_again(fake: FakeOrs, drop: str) -> None:
    """By its token, so that the tool runs once; what had arrived before is not taken twice."""
    fake.results = {"add": output("y" * 5000, reward=0.5)}
    fake.drops = [drop, drop]
    with gateway(fake) as session:
        assert text(session.step("add", {})) == "y" * 5000
    assert [call.get("task_id") for call in fake.calls] == [None, "token-1", "token-1"]
    assert len(fake.running) == 1


def test_a_stream_that_is_silent_counts_as_dropped(fake: FakeOrs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that sends nothing for long is asked again."""
    monkeypatch.setattr(ors_server, "SILENCE_S", 0.2)
    fake.silent_s = 0.5
    fake.drops = []
    with gateway(fake) as session:
        threading.Timer(0.3, lambda: setattr(fake, "silent_s", 0.0)).start()
        assert text(session.step("add", {"a": 1})) == '{"a": 1}'
    assert len(fake.running) == 1


@pytest.mark.parametrize(
    ("drops", "says"),
    [(["start"], "add: its result was lost"), (["token", "unknown"], "add: unknown task_id")],
)
def test_a_call_whose_result_is_lost_makes_the_episode_void(fake: FakeOrs, drops: list[str], says: str) -> None:
    """It may have run, so it is not sent again."""
    fake.drops = drops
    with gateway(fake) as session:
        if "unknown" in drops:
            fake.running = _Forgetful()
        with pytest.raises(EnvError, match=says):
            session.step("add", {})
        graded = session.finish()
    assert graded["reward"] is None
    assert says in str(graded["metadata"]["void_reason"])
    assert sum("task_id" not in call for call in fake.calls) == 1


class _Forgetful(dict):  # type: ignore[type-arg]
    """Forgets every result at once."""

    def __setitem__(self, key: str, value: str) -> None:
        pass


def test_a_tool_that_raises_makes_the_episode_void(fake: FakeOrs) -> None:
    """The server calls such a session dead; its episode has no grade."""
    fake.results = {"add": "db exploded"}
    with gateway(fake) as session:
        with pytest.raises(EnvError, match=r"EXECUTION_ERROR: .*add: db exploded"):
            session.step("add", {})
        assert session.finish()["metadata"]["ended_by"] == "env_error"


@pytest.mark.parametrize(
    ("reason", "error_type"),
    [("input_validation", "invalid_args"), ("not_found", "tool_not_found"), (None, "execution_error")],
)
def test_a_refusal_is_the_tools_error(fake: FakeOrs, reason: str | None, error_type: str) -> None:
    """What the model got wrong is told to it, and the episode goes on."""
    fake.results = {"add": {"ok": False, "error": "no", "reason": reason}}
    with gateway(fake) as session:
        step = session.step("add", {})
        assert step["observation"]["error"] == {"error_type": error_type, "message": "no"}
        assert not step["done"]


@pytest.mark.parametrize(("rule", "reward"), [("last", 1.0), ("sum", 1.25)])
def test_finished_ends_the_episode_with_its_reward(fake: FakeOrs, rule: str, reward: float) -> None:
    """The rule makes the episode's reward of the calls' own."""
    fake.results = {"add": output(reward=0.25), "answer": output(reward=1.0, finished=True, metadata={"expected": 2})}
    with gateway(fake, reward=rule) as session:
        session.step("add", {})
        step = session.step("answer", {})
        assert (step["done"], step["reward"]) == (True, reward)
        graded = session.finish()
    assert (graded["reward"], graded["success"]) == (reward, True)
    assert graded["metadata"]["ended_by"] == "done"
    assert graded["metadata"]["checks"] == [{"name": "finished", "passed": True, "detail": '{"expected": 2}'}]
    assert graded["record"]["diagnostics"]["reward_sum"] == 1.25


def test_a_terminal_tool_is_what_submit_calls(fake: FakeOrs) -> None:
    """The hidden tool that takes a model's last message is reached by `submit`, also at the end of the steps."""
    fake.tools["terminal_tool"] = {"name": "say", "arg": "answer", "description": "Say it."}
    fake.results = {"say": output(reward=1.0, finished=True)}
    with running(functools.partial(Ors, fake.url, max_steps=1)) as url, Fleet([url]) as fleet, fleet.lease() as session:
        submit = catalog.tools(url)[-1]
        assert (submit["name"], submit["description"]) == ("submit", "Say it.")
        assert submit["inputSchema"]["properties"] == {"answer": {"type": "string"}}
        session.reset("one")
        assert session.step("submit", {"answer": "4"})["done"]
        assert session.finish()["reward"] == 1.0
        session.reset("one")
        assert session.step("add", {})["done"]
        assert session.finish()["metadata"]["ended_by"] == "max_steps"
    assert [call["input"] for call in fake.calls] == [{"answer": "4"}, {}, {"answer": ""}]


def test_the_servers_own_submit_is_called(fake: FakeOrs) -> None:
    """Ours is only added where there is none."""
    fake.tools["tools"] = [*TOOLS, {"name": "submit", "description": "Theirs.", "input_schema": None}]
    fake.results = {"submit": output(reward=0.5, finished=True)}
    with gateway(fake) as session:
        session.step("submit", {})
        assert session.finish()["reward"] == 0.5
    assert fake.calls == [{"name": "submit", "input": {}}]


def test_tools_of_the_task_can_be_called(fake: FakeOrs) -> None:
    """A tool that only this task has is one of the episode's."""
    fake.task_tools = {"tools": [*TOOLS, {"name": "peek", "description": "", "input_schema": None}]}
    with gateway(fake) as session:
        assert text(session.step("peek", {})) == "{}"
        assert session.step("poke", {})["observation"]["error"]["error_type"] == "tool_not_found"


def test_a_session_is_kept_alive(fake: FakeOrs, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is pinged while nothing is called; one that the server has dropped is known by the next call."""
    monkeypatch.setattr(ors_server, "PING_S", 0.02)
    with gateway(fake):
        assert until(lambda: fake.asked["ping"] > 2)
        fake.sessions.clear()


def test_what_the_server_no_longer_has_is_an_unknown_task(fake: FakeOrs) -> None:
    """A list that has shrunk, and options that ORS does not have, are the client's errors."""
    environment = Ors(fake.url)
    task = environment.tasks("train")[1]
    fake.tasks["train"].pop()
    how: Any = {"episode_id": "e", "max_seconds": None, "coworkers": False, "surface": "api"}
    with pytest.raises(UnknownTask, match="no longer has task two"):
        environment.reset(task, seed=None, **how)
    with pytest.raises(InvalidOption, match="takes no seed"):
        environment.reset(task, seed=1, **how)


@pytest.mark.parametrize(
    ("rule", "calls", "finished", "final"),
    [
        ("last", [0.1, 0.2], 1.0, 1.0),
        ("last", [0.1], None, None),  # NaN arrives as null
        ("last", [0.1, None], "not", 0.1),
        ("last", [], "not", None),
        ("sum", [0.5, 0.25], 1.0, 1.75),
        ("sum", [0.5], None, 0.5),
        ("sum", [], None, None),
        ("sum", [], "not", 0.0),
        ("sum", [None, 0.5], "not", 0.5),
    ],
)
def test_what_rewards_come_to(rule: str, calls: list[float | None], finished: Any, final: float | None) -> None:
    """Void where the last word was no reward; 0 only for a sum of nothing that the agent chose to leave."""
    rewards = Rewards(rule)
    for reward in calls:
        rewards.add(reward, finished=False)
    if finished != "not":
        rewards.add(finished, finished=True)
    assert rewards.final == final


@pytest.mark.parametrize(
    ("url", "options", "says"),
    [
        ("ftp://nowhere", {}, "--url 'ftp://nowhere' is no base URL; write http://host:port"),
        ("http://127.0.0.1:9", {"reward": "mean"}, "--reward 'mean' is none; name one of last, sum"),
    ],
)
def test_a_wrong_option_is_named(url: str, options: dict[str, str], says: str) -> None:
    """Before anything is asked of the server."""
    with pytest.raises(InvalidArgument, match=says):
        Ors(url, **options)  # type: ignore[arg-type]
