"""One episode against real servers: every row of the protocol's table of what becomes void, and what is graded."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from fakefleet import FakeFleet
from modelserver import Reply, serving
from troubled import TASKS, Closed, Troubled, served

from miroir import Fleet, catalog, episode
from miroir.agents import CallableAgent
from miroir.coworkers import CoworkerModel
from miroir.episode import Ended, Setting, agent_entry, play
from miroir.errors import (
    ConnectionLost,
    ContextFull,
    CoworkerFailed,
    EnvError,
    MiroirError,
    ModelError,
    NoFreeContainer,
    NotGraded,
    StepTimeout,
)
from miroir.wire import Task

Play = Callable[..., Any]
NOBODY = "http://127.0.0.1:9/v1"  # the port that nothing listens on
ANSWER = Reply({"choices": [{"message": {"role": "assistant", "content": "42"}, "finish_reason": "stop"}]})


def task(task_id: str = "plain", **more: Any) -> Task:
    """A task as the troubled environment lists it."""
    row = {"id": task_id, "task_hash": f"hash-{task_id}", "instruction": f"Do {task_id}.", "split": "train"}
    return {**row, **TASKS.get(task_id, {}), **more}  # type: ignore[typeddict-item]


def agent(function: Play, **params: Any) -> CallableAgent:
    """The function as an agent."""
    return CallableAgent("tests:agent", function, params)


def says(session: Any, task: Any, tools: Any, **_: Any) -> None:
    """An agent that succeeds."""
    session.step("say", {})


def calls(tool: str, **arguments: Any) -> Play:
    """An agent that calls one tool."""

    def plays(session: Any, task: Any, tools: Any, **_: Any) -> None:
        session.step(tool, arguments)

    return plays


def raises(error: BaseException) -> Play:
    """An agent that raises."""

    def plays(session: Any, task: Any, tools: Any, **_: Any) -> None:
        raise error

    return plays


def swallowing(function: Play) -> Play:
    """The same agent, which says nothing of what went wrong."""

    def plays(session: Any, task: Any, tools: Any, **_: Any) -> None:
        with contextlib.suppress(MiroirError):
            function(session, task, tools)

    return plays


@pytest.fixture
def troubled() -> Iterator[Fleet]:
    """A fleet of one troubled container."""
    with served(Troubled) as urls, Fleet(urls) as fleet:
        yield fleet


def played(fleet: Fleet, function: Play, task_id: str = "plain", setting: Setting | None = None) -> Ended:
    """An episode of the task with the function."""
    return play(lambda: fleet.lease(timeout_s=20), agent(function), task(task_id), setting or Setting())


def states(fleet: Fleet) -> list[str]:
    """What is known of each container."""
    return [container["state"] for container in fleet.stats()["urls"].values()]


# What is graded


def test_the_record_is_the_servers_with_what_the_client_knows(troubled: Fleet) -> None:
    """A graded record has the server's grade and the client's task, prompt, agent, tools, trial and container."""
    listed = catalog.tools(next(iter(troubled.stats()["urls"])))
    setting = Setting(tools=listed, surface="api", max_seconds=60)

    ended = play(troubled.lease, agent(says, rate=0.5), task(), setting, trial=3, attempt=1)

    record = ended.record
    assert (record["reward"], record["metadata"]["success"], record["metadata"]["ended_by"]) == (1.0, True, "submit")
    assert record["env"] == {"name": "troubled", "version": "3"}
    assert record["task"] == task()
    assert record["prompt"].startswith("Do plain.\n\nWhen you are done, call the tool `submit`.\n\nToday is ")
    assert (record["surface"], record["max_seconds"], record["trial"], record["attempt"]) == ("api", 60, 3, 1)
    assert record["agent"] == {"name": "tests:agent", "model": None, "params": {"rate": 0.5}}
    assert [tool["function"]["name"] for tool in record["tools"]] == [tool["name"] for tool in listed]
    assert record["container"] in troubled.stats()["urls"]
    assert "made_by" not in record
    assert (ended.again, ended.fault) == (False, None)


def test_what_an_agent_tells_is_in_the_record(troubled: Fleet) -> None:
    """Messages, usage and parameters that the agent returns are recorded, and what it was given stays known."""
    said = {"messages": [{"role": "user", "content": "hi"}], "usage": {"prompt_tokens": 3}, "params": {"rate": 0.3}}

    record = played(troubled, lambda session, task, tools, **_: said).record

    assert (record["messages"], record["usage"]) == (said["messages"], said["usage"])
    assert record["agent"]["params"] == {"rate": 0.3}
    assert record["agent"]["given"] == {}


def test_an_agent_is_entered_as_it_was_given() -> None:
    """Without parameters of the episode's own the entry holds the agent's alone."""
    assert agent_entry(agent(says, rate=1)) == {"name": "tests:agent", "model": None, "params": {"rate": 1}}


def test_a_task_narrows_the_tools(troubled: Fleet) -> None:
    """An agent sees the tools that its task names, and submit."""
    listed = catalog.tools(next(iter(troubled.stats()["urls"])))
    seen = []

    played(troubled, lambda session, task, tools, **_: seen.extend(tools), "narrow", Setting(tools=listed))

    assert [tool["name"] for tool in seen] == ["say", "submit"]


def test_an_agent_has_the_surface_of_a_session(troubled: Fleet) -> None:
    """State, coworkers and the grade can be asked for; a grade that was asked for is the record's."""
    seen: dict[str, Any] = {}

    def plays(session: Any, task: Any, tools: Any, **_: Any) -> None:
        seen["turns"] = session.coworker_turns()
        seen["reply"] = session.coworker_reply
        seen["state"] = session.state()["episode_id"] == session.episode_id
        seen["before"] = session.done
        seen["grade"] = session.finish()["reward"]
        seen["after"] = session.done

    record = played(troubled, plays).record

    assert seen | {"reply": None} == {
        "turns": [],
        "reply": None,
        "state": True,
        "before": False,
        "grade": 0.0,
        "after": True,
    }
    assert record["reward"] == 0.0


@pytest.mark.parametrize(("task_id", "function"), [("short", "say"), ("short", "refuse")])
def test_max_steps_is_graded(troubled: Fleet, task_id: str, function: str) -> None:
    """The last allowed tool call ends the episode, which is graded as it stands; another call is told so."""

    def plays(session: Any, task: Any, tools: Any, **_: Any) -> None:
        while True:
            session.step(function, {})

    ended = played(troubled, plays, task_id)

    assert (ended.record["reward"], ended.record["metadata"]["ended_by"]) == (0.0, "max_steps")
    assert ended.fault is None


def test_max_seconds_is_graded(troubled: Fleet) -> None:
    """An episode whose time is over is graded as it stands."""
    ended = played(troubled, calls("sleep", seconds=1.2), setting=Setting(max_seconds=1))

    assert (ended.record["reward"], ended.record["metadata"]["ended_by"]) == (0.0, "deadline")


def test_a_full_context_is_graded(troubled: Fleet) -> None:
    """An agent that ran out of context has played; the episode is submitted."""
    ended = played(troubled, raises(ContextFull("too long; shorten it")))

    assert (ended.record["reward"], ended.record["metadata"]["ended_by"]) == (0.0, "submit")


# Coworkers


def test_coworkers_are_answered_after_each_step(troubled: Fleet) -> None:
    """The coworkers' model answers those who owe a reply, after the reset and after each step."""
    for task_id in ("ask", "ask-first"):
        with serving([ANSWER]) as model:
            setting = Setting(coworker_model=CoworkerModel(model.base_url, "stub"))
            ended = played(troubled, calls("ask"), task_id, setting)

        assert ended.record["reward"] == 0.0
        assert [body["messages"][0]["content"] for body in model.bodies][:1] == ["the code?"]
        assert len(model.bodies) == (1 if task_id == "ask" else 2)


def test_an_episode_that_ends_while_a_coworker_writes_is_graded(troubled: Fleet) -> None:
    """The time may run out while a coworker's answer is written: the step that asked says done."""
    seen = []

    def plays(session: Any, task: Any, tools: Any, **_: Any) -> None:
        seen.append(session.step("ask", {})["done"])

    body = ANSWER.body
    with serving([Reply(["", body], pause_s=1.2)]) as model:
        setting = Setting(max_seconds=1, coworker_model=CoworkerModel(model.base_url, "stub"))
        ended = played(troubled, plays, "ask", setting)

    assert seen == [True]
    assert (ended.record["reward"], ended.record["metadata"]["ended_by"]) == (0.0, "deadline")


@pytest.mark.parametrize(("endpoint", "again"), [(None, True), (401, False), (403, False)])
def test_a_coworkers_model_that_fails_makes_it_void(troubled: Fleet, endpoint: int | None, again: bool) -> None:
    """COWORKER_FAILED voids the episode; it is worth playing again, unless the endpoint refused the key."""
    with contextlib.ExitStack() as stack:
        url = NOBODY
        if endpoint is not None:
            url = stack.enter_context(serving([Reply({"error": {"message": "no"}}, endpoint)])).base_url
        setting = Setting(coworker_model=CoworkerModel(url, "stub"), coworker_s=0.1)
        ended = played(troubled, swallowing(calls("ask")), "ask", setting)

    metadata = ended.record["metadata"]
    assert (ended.record["reward"], metadata["ended_by"], ended.again) == (None, "env_error", again)
    assert metadata["void_reason"].startswith("COWORKER_FAILED: Ann got no answer from stub at http://127.0.0.1:")
    assert isinstance(ended.fault, CoworkerFailed)
    assert states(troubled) == ["free"]  # it is not the container's fault


def test_a_world_that_fails_its_coworkers_makes_it_void(troubled: Fleet) -> None:
    """An environment that fails where it is asked for coworkers, right after the reset, ends the episode."""
    with serving([ANSWER]) as model:
        setting = Setting(coworker_model=CoworkerModel(model.base_url, "stub"))
        ended = played(troubled, says, "bad-phone", setting)

    metadata = ended.record["metadata"]
    assert (ended.record["reward"], metadata["ended_by"], ended.again) == (None, "env_error", True)
    assert metadata["void_reason"] == "coworkers failed: RuntimeError: the phone is dead"


# What is void


@pytest.mark.parametrize("wrapped", [lambda function: function, swallowing])
def test_a_lost_connection_makes_it_void(wrapped: Callable[[Play], Play]) -> None:
    """CONNECTION_LOST in a step: void, `lost`, worth playing again, whether or not the agent lets it through."""
    with FakeFleet("free") as containers, Fleet(containers.urls) as fleet:

        def plays(session: Any, task: Any, tools: Any, **_: Any) -> None:
            session.step("say", {"text": "once"})
            containers.drop(0)
            session.step("say", {"text": "twice"})

        ended = played(fleet, wrapped(plays))

    record = ended.record
    assert (record["reward"], record["metadata"]["ended_by"], ended.again) == (None, "lost", True)
    assert record["metadata"]["success"] is False
    assert record["metadata"]["void_reason"].startswith(f"CONNECTION_LOST: {containers.urls[0]}, episode ")
    assert record["made_by"] == "client"
    assert record["metadata"]["task_hash"] == "hash-plain"
    assert record["diagnostics"] == {"steps": 1, "tool_errors": 0}
    assert [(step["tool"], step["arguments"]) for step in record["steps"]] == [("say", {"text": "once"})]
    assert datetime.fromisoformat(record["timings"]["started_at"]).tzinfo == UTC
    assert isinstance(ended.fault, ConnectionLost)


def test_a_late_reply_makes_it_void() -> None:
    """STEP_TIMEOUT: void, `lost`, worth playing again, also when the agent swallows it."""

    def plays(session: Any, task: Any, tools: Any, **_: Any) -> None:
        session.step("sleep", {"s": 5}, timeout_s=0.2)

    with FakeFleet("free") as containers, Fleet(containers.urls) as fleet:
        ended = played(fleet, swallowing(plays))

    assert (ended.record["reward"], ended.record["metadata"]["ended_by"], ended.again) == (None, "lost", True)
    assert isinstance(ended.fault, StepTimeout)


@pytest.mark.parametrize("wrapped", [lambda function: function, swallowing])
def test_a_crash_of_the_environment_makes_it_void(troubled: Fleet, wrapped: Callable[[Play], Play]) -> None:
    """EXECUTION_ERROR in a step: the server's own record, void, with its reason; the container is left alone."""
    ended = played(troubled, wrapped(calls("boom")))

    metadata = ended.record["metadata"]
    assert (ended.record["reward"], metadata["ended_by"], ended.again) == (None, "env_error", True)
    assert metadata["void_reason"] == "boom failed: RuntimeError: a pipe burst"
    assert "made_by" not in ended.record
    assert states(troubled) == ["sick"]


@pytest.mark.parametrize(
    ("task_id", "ended_by", "reason"),
    [
        ("bad-grade", "env_error", "grading failed: RuntimeError: no grader today"),
        ("no-reward", "submit", "the environment gave no reward"),
    ],
)
def test_an_episode_without_a_grade_is_void(troubled: Fleet, task_id: str, ended_by: str, reason: str) -> None:
    """A grader that raises, or gives no reward, makes the episode void, and worth playing again."""
    ended = played(troubled, says, task_id)

    metadata = ended.record["metadata"]
    assert (ended.record["reward"], metadata["ended_by"], metadata["void_reason"]) == (None, ended_by, reason)
    assert ended.again


def test_a_submit_that_ends_nothing_makes_it_void() -> None:
    """NOT_GRADED: an environment that does not end at submit leaves a void record of the client's."""
    going_on = {"type": "observation", "data": {"observation": {}, "reward": None, "done": False}}
    with FakeFleet("free") as containers, Fleet(containers.urls) as fleet:
        containers[0].reply = lambda frame: [going_on] if frame["type"] == "step" else None
        ended = played(fleet, says)

    metadata = ended.record["metadata"]
    assert (ended.record["reward"], metadata["ended_by"], ended.again) == (None, "env_error", True)
    assert metadata["void_reason"].startswith("NOT_GRADED: ")
    assert isinstance(ended.fault, NotGraded)


def test_a_record_that_cannot_be_fetched_makes_it_void() -> None:
    """An environment that answers an error where the record is owed leaves a void record, `env_error`."""
    refusal = {"type": "error", "data": {"code": "EXECUTION_ERROR", "message": "no record"}}
    with FakeFleet("free") as containers, Fleet(containers.urls) as fleet:
        containers[0].reply = lambda frame: [refusal] if frame["type"] == "record" else None
        ended = played(fleet, says)

    assert (ended.record["reward"], ended.record["metadata"]["ended_by"], ended.again) == (None, "env_error", True)
    assert isinstance(ended.fault, EnvError)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyError("answer"), "KeyError: 'answer'"),
        (ValueError(), "ValueError"),
        (SystemExit(3), "SystemExit: 3"),
        (ConnectionRefusedError("no database"), "ConnectionRefusedError: no database"),
        (EnvError("VALIDATION_ERROR", "arguments must be an object"), "VALIDATION_ERROR: arguments must be an object"),
    ],
)
def test_an_agent_that_raises_makes_it_void(troubled: Fleet, error: BaseException, reason: str) -> None:
    """What an agent raises voids its episode, `agent_error`; it would raise again, and no container is to blame."""
    ended = played(troubled, raises(error))

    metadata = ended.record["metadata"]
    assert (ended.record["reward"], metadata["ended_by"], ended.again) == (None, "agent_error", False)
    assert metadata["void_reason"] == reason
    assert ended.fault is error
    assert states(troubled) == ["free"]


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (ModelError("the endpoint is down", retryable=True), True),
        (ModelError("no such key", status=401), False),
        (ModelError("not yours", status=403), False),
    ],
)
def test_a_dead_endpoint_makes_it_void(troubled: Fleet, error: ModelError, again: bool) -> None:
    """The model's endpoint fails: `agent_error`; only a fault that may pass is worth playing again."""
    ended = played(troubled, raises(error))

    metadata = ended.record["metadata"]
    assert (metadata["ended_by"], metadata["void_reason"], ended.again) == ("agent_error", str(error), again)


@pytest.mark.parametrize(
    "returned", ["text", [1], {"messages": [float("nan")]}, {"usage": {1, 2}}, {"messages": "hi"}, {"params": [1]}]
)
def test_what_no_record_can_hold_makes_it_void(troubled: Fleet, returned: Any) -> None:
    """An agent that returns what is no JSON object has raised, so to say; the run goes on."""
    ended = played(troubled, lambda session, task, tools, **_: returned)

    metadata = ended.record["metadata"]
    assert (metadata["ended_by"], ended.again) == ("agent_error", False)
    assert metadata["void_reason"].startswith("INVALID_ARGUMENT: the agent returned what no record can hold (")


def test_an_agent_that_closes_its_session_makes_it_void(troubled: Fleet) -> None:
    """An agent that gives its container back before the grade has itself to blame."""

    def plays(session: Any, task: Any, tools: Any, **_: Any) -> None:
        session.step("say", {})
        session.close()

    ended = played(troubled, plays)

    assert (ended.record["metadata"]["ended_by"], ended.again) == ("agent_error", False)
    assert "the agent closed its session" in str(ended.record["metadata"]["void_reason"])
    assert [step["tool"] for step in ended.record["steps"]] == ["say"]
    assert states(troubled) == ["free"]


def test_an_agent_has_a_task_of_its_own(troubled: Fleet) -> None:
    """What an agent does to its task and tools reaches neither the record nor the other episodes."""
    row = task()
    setting = Setting(tools=[{"name": "say", "description": "", "inputSchema": {"type": "object"}}])

    def plays(session: Any, task: Any, tools: Any, **_: Any) -> None:
        task["instruction"] += " Quickly."
        tools[0]["inputSchema"]["type"] = "array"

    record = play(troubled.lease, agent(plays), row, setting).record

    assert record["task"] == row == task()
    assert record["tools"][0]["function"]["parameters"] == {"type": "object"}


def test_an_agents_own_wrong_request_is_the_agents(troubled: Fleet) -> None:
    """Arguments that are no object are refused by the server; that voids the episode as the agent's error."""

    def plays(session: Any, task: Any, tools: Any, **_: Any) -> None:
        session.step("say", ["no object"])

    ended = played(troubled, plays)

    assert (ended.record["metadata"]["ended_by"], ended.again) == ("agent_error", False)
    assert ended.record["metadata"]["void_reason"].startswith("VALIDATION_ERROR: ")


# Resets


def test_a_reset_that_fails_is_tried_on_another_container() -> None:
    """Until its first observation an episode belongs to no container; the one that failed is left alone."""
    with served(Closed, Troubled) as (bad, good), Fleet([bad, good]) as fleet:
        first, second = sorted((fleet.lease(), fleet.lease()), key=lambda session: session.url == good)
        first.close()  # only the bad one is free at first
        freed = threading.Timer(0.2, second.close)
        freed.start()
        ended = played(fleet, says)
        seen = fleet.stats()["urls"][bad]
        freed.join()

    assert (ended.record["reward"], ended.record["container"]) == (1.0, good)
    assert seen["state"] == "sick"
    assert seen["reason"].startswith("a reset failed: ")


def test_a_connection_that_is_lost_in_a_reset_is_tried_on_another_container() -> None:
    """A container that goes away while it resets costs no episode."""
    with FakeFleet("free", "free") as containers, Fleet(containers.urls) as fleet:

        def cut(frame: dict[str, Any]) -> Any:
            if frame["type"] == "reset":
                containers.drop(0)
                return []
            return None

        containers[0].reply = cut
        records = [played(fleet, says).record for _ in range(3)]

    assert [record["reward"] for record in records] == [1.0, 1.0, 1.0]
    assert {record["container"] for record in records} == {containers.urls[1]}


def test_a_reset_that_fails_everywhere_makes_it_void() -> None:
    """After three containers the episode is void, `env_error`, and worth playing again later."""
    with served(Troubled, Troubled, Troubled, Troubled) as urls, Fleet(urls) as fleet:
        ended = played(fleet, says, "bad-reset")

        assert sorted(states(fleet))[-3:] == ["sick", "sick", "sick"]
    metadata = ended.record["metadata"]
    assert (ended.record["reward"], metadata["ended_by"], ended.again) == (None, "env_error", True)
    assert "reset failed: RuntimeError: no world today" in metadata["void_reason"]
    assert ended.record["container"] in urls
    assert ended.record["steps"] == []
    assert isinstance(ended.fault, EnvError)


def test_a_fleet_of_one_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no other container the reset is tried on the same one, a bounded number of times."""
    monkeypatch.setattr(episode, "RESET_TRIES", 2)
    with served(Closed) as urls, Fleet(urls) as fleet:
        ended = played(fleet, says)

    assert ended.record["metadata"]["ended_by"] == "env_error"


@pytest.mark.parametrize(
    ("task_id", "options", "code"),
    [("no-such", {}, "UNKNOWN_TASK"), ("plain", {"mode": "odd"}, "VALIDATION_ERROR")],
)
def test_what_no_container_can_play_is_raised(
    troubled: Fleet, task_id: str, options: dict[str, Any], code: str
) -> None:
    """An unknown task or option is the caller's to mend: it is raised, and no container is blamed or kept."""
    with pytest.raises(EnvError) as caught:
        played(troubled, says, task_id, Setting(options=options))

    assert caught.value.code == code
    assert states(troubled) == ["free"]


def test_no_container_is_raised() -> None:
    """An episode that never had a container leaves no record."""
    with FakeFleet("down") as containers, Fleet(containers.urls) as fleet, pytest.raises(NoFreeContainer):
        play(lambda: fleet.lease(timeout_s=0.3), agent(says), task(), Setting())


def test_the_options_of_a_task_go_into_its_reset(troubled: Fleet) -> None:
    """A task's own reset options, and those of the setting, reach the environment."""
    seen = []

    def plays(session: Any, task: Any, tools: Any, *, observation: Any, **_: Any) -> None:
        seen.append(observation["mood"])

    play(troubled.lease, agent(plays), task("plain", reset={"mood": "odd"}), Setting())
    play(troubled.lease, agent(plays), task("plain"), Setting(options={"mood": "calm"}))

    assert seen == ["odd", "calm"]


def test_an_interrupt_leaves_no_record(troubled: Fleet) -> None:
    """Ctrl-C in an episode is raised again, and the container is free."""
    with pytest.raises(KeyboardInterrupt):
        played(troubled, raises(KeyboardInterrupt()))

    assert states(troubled) == ["free"]
