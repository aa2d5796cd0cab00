"""Sessions: episodes on a leased container, and every way in which they end."""

from __future__ import annotations

import copy
import gc
import json
import logging
import math
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakefleet import FakeFleet
from processes import alarmed

import miroir
from miroir.deadlines import Deadlines
from miroir.errors import (
    ConnectionLost,
    CoworkerFailed,
    EnvError,
    InvalidArgument,
    MiroirError,
    NoEpisode,
    NoFreeContainer,
    NotGraded,
    StepTimeout,
)
from miroir.fleet import Fleet
from miroir.session import Session


@pytest.fixture
def fleet() -> Iterator[FakeFleet]:
    """One free container."""
    with FakeFleet("free") as running:
        yield running


@pytest.fixture
def session(fleet: FakeFleet) -> Iterator[Session]:
    """A session on it."""
    with Fleet(fleet.urls) as leasing, leasing.lease(timeout_s=5) as opened:
        yield opened


def answering(*replies: Any) -> Callable[[dict[str, Any]], list[Any] | None]:
    """A container's way to answer its next frames, one of these each, then as usual."""
    left = list(replies)
    return lambda frame: [left.pop(0)] if left else None


def error(code: str, message: str = "no", **more: Any) -> dict[str, Any]:
    """An error frame."""
    return {"type": "error", "data": {"code": code, "message": message, **more}}


def record(session: Session, **said: Any) -> dict[str, Any]:
    """The frame of the session's record, in which the server says something else."""
    usual = {"task_hash": "h", "success": True, "harm": False, "ended_by": "submit"}
    row = {"schema": 1, "episode_id": session.episode_id, "task_id": "t", "reward": 1.0, "metadata": usual}
    return {"type": "record", "data": {**row, **said}}


CALLS: dict[str, Callable[[Session], object]] = {
    "reset": lambda session: session.reset("t"),
    "step": lambda session: session.step("echo", {}),
    "act": lambda session: session.act({"move": 1}),
    "coworker_turns": lambda session: session.coworker_turns(),
    "coworker_reply": lambda session: session.coworker_reply("ann", "yes"),
    "state": lambda session: session.state(),
    "finish": lambda session: session.finish(),
}
EPISODE_CALLS = [name for name in CALLS if name not in ("reset", "state")]


class TestEpisodes:
    """Playing."""

    def test_a_whole_episode(self, session: Session, fleet: FakeFleet) -> None:
        """Reset, steps, finish: the frames are those of the protocol."""
        observation = session.reset("t1", max_seconds=60, coworkers=True, surface="api", seed=7)
        step = session.step("echo", {"x": 1})
        graded = session.finish()

        assert observation == {"task": "t1"}
        assert (step["reward"], step["done"]) == (None, False)
        assert step["observation"]["tool_name"] == "echo"
        assert (graded["reward"], graded["success"]) == (1.0, True)
        assert graded["record"]["episode_id"] == session.episode_id
        assert graded["metadata"] is graded["record"]["metadata"]
        sent = [frame for frame in fleet[0].frames if frame["type"] != "state"]
        assert sent[0] == {
            "type": "reset",
            "data": {
                "task_id": "t1",
                "episode_id": session.episode_id,
                "max_seconds": 60,
                "coworkers": True,
                "surface": "api",
                "seed": 7,
            },
        }
        assert sent[1] == {
            "type": "step",
            "data": {
                "type": "call_tool",
                "tool_name": "echo",
                "arguments": {"x": 1},
                "metadata": {"episode_id": session.episode_id},
            },
        }
        assert sent[2]["data"]["tool_name"] == "submit"
        assert sent[3] == {"type": "record", "data": {"episode_id": session.episode_id}}

    def test_nothing_null_is_sent(self, session: Session, fleet: FakeFleet) -> None:
        """Options that are None are left out, and none can stand in for the episode's id or task."""
        session.reset("t", surface=None, seed=None)
        data = fleet[0].frames[-1]["data"]

        assert set(data) == {"task_id", "episode_id", "coworkers"}

        session.reset("t", episode_id="mine")

        assert fleet[0].frames[-1]["data"]["episode_id"] == session.episode_id != "mine"

    def test_an_id_for_each_episode(self, session: Session) -> None:
        """uuid4 in hex; kept after done and finish until the next reset; None before the first."""
        assert session.episode_id is None

        session.reset("t")
        first = session.episode_id
        session.finish()

        assert first is not None
        assert (len(first), int(first, 16) >= 0, first[12]) == (32, True, "4")
        assert session.episode_id == first

        session.reset("t")

        assert session.episode_id not in (None, first)

    def test_reset_leaves_nothing_of_the_last_episode(self, session: Session) -> None:
        """Steps, grade, limit and done are those of the new one."""
        session.reset("t", max_seconds=5)
        session.step("echo", {})
        session.finish()
        session.reset("t")

        assert (session.steps, session.done, session.max_seconds) == ([], False, None)
        assert session.step("echo", {})["done"] is False

    def test_a_failed_reset_leaves_nothing_either(self, session: Session, fleet: FakeFleet) -> None:
        """The id is None, and calls that need an episode say so; the session lives."""
        session.reset("t", max_seconds=5)
        session.step("echo", {})
        fleet[0].reply = answering(error("UNKNOWN_TASK", "there is no task u"))
        with pytest.raises(EnvError, match="there is no task u") as caught:
            session.reset("u")

        assert caught.value.code == "UNKNOWN_TASK"
        assert (session.episode_id, session.steps, session.max_seconds, session.done) == (None, [], None, False)
        with pytest.raises(NoEpisode):
            session.step("echo", {})

        session.reset("t")

    @pytest.mark.parametrize("name", EPISODE_CALLS)
    def test_no_episode(self, session: Session, name: str) -> None:
        """Calls before a reset are NO_EPISODE and say what to call."""
        with pytest.raises(NoEpisode, match=r"^NO_EPISODE: there is no episode; call reset\(task_id\) first$"):
            CALLS[name](session)

    def test_state_needs_no_episode(self, session: Session) -> None:
        """What the server says of the session may be asked at any time."""
        assert session.state()["episode_id"] is None

    def test_steps_are_kept_as_a_record_lists_them(self, session: Session) -> None:
        """Tool, arguments, result, error, reward, done and times, in seconds."""
        session.reset("t")
        session.step("echo", {"x": 1})
        (step,) = session.steps

        assert {name: step[name] for name in ("tool", "arguments", "result", "error", "reward", "done")} == {  # type: ignore[literal-required]
            "tool": "echo",
            "arguments": {"x": 1},
            "result": '{"x": 1}',
            "error": None,
            "reward": None,
            "done": False,
        }
        assert 0 <= step["at_s"] < 5
        assert 0 < step["seconds"] < 5

    def test_a_raw_action(self, session: Session, fleet: FakeFleet) -> None:
        """`act` sends the action as it is, and keeps it in place of tool and arguments."""
        session.reset("t")
        session.act({"move": "left"})

        assert fleet[0].frames[-1] == {"type": "step", "data": {"move": "left"}}
        assert session.steps[0]["action"] == {"move": "left"}
        assert "tool" not in session.steps[0]

    def test_an_action_of_nothing(self, session: Session, fleet: FakeFleet) -> None:
        """It is the server's to refuse."""
        session.reset("t")
        session.act(None)  # type: ignore[arg-type]

        assert fleet[0].frames[-1] == {"type": "step", "data": None}

    def test_what_is_sent_is_kept_as_it_was(self, session: Session) -> None:
        """An agent may use one dict again and again."""
        session.reset("t")
        arguments = {"n": 1}
        session.step("echo", arguments)
        session.act(arguments)
        arguments["n"] = 2
        session.step("echo", arguments)

        assert [step.get("arguments", step.get("action")) for step in session.steps] == [{"n": 1}, {"n": 1}, {"n": 2}]

    def test_coworkers(self, session: Session, fleet: FakeFleet) -> None:
        """Turns that are owed, and replies with the status of the world."""
        session.reset("t")
        turns = [{"coworker": "ann", "messages": [{"role": "user", "content": "?"}]}]
        fleet[0].reply = answering(
            {"type": "coworkers", "data": {"turns": turns}},
            {"type": "coworker_reply", "data": {"status": 201}},
            {"type": "coworker_reply", "data": {}},
        )

        assert session.coworker_turns() == turns
        assert session.coworker_reply("ann", "yes") == 201
        assert session.coworker_reply("ann", "yes") is None
        assert session.coworker_turns() == []  # the usual answer is UNKNOWN_TYPE: a server without coworkers

    @pytest.mark.parametrize("turn", [{}, {"coworker": "ann"}, {"messages": []}, "ann"])
    def test_a_turn_that_cannot_be_answered(self, session: Session, fleet: FakeFleet, turn: Any) -> None:
        """It fails as a coworker's does, so that its episode is void and none of the agent's faults."""
        session.reset("t")
        fleet[0].reply = answering({"type": "coworkers", "data": {"turns": [turn]}})
        with pytest.raises(CoworkerFailed, match="listed a turn without coworker or messages; run `miroir check` on"):
            session.coworker_turns()


class TestFinish:
    """Ending and grading."""

    def test_again_with_the_same_answer(self, session: Session, fleet: FakeFleet) -> None:
        """The record is fetched once, and the answer outlives the connection."""
        session.reset("t")
        first = session.finish()

        assert session.finish() is first
        assert fleet.count("record") == 1

        session.close()

        assert session.finish() is first

    def test_done_already(self, session: Session, fleet: FakeFleet) -> None:
        """An episode that the agent submitted is not submitted again."""
        session.reset("t")
        session.step("submit", {})
        session.finish()

        assert sum(frame.get("data", {}).get("tool_name") == "submit" for frame in fleet[0].frames) == 1

    @pytest.mark.parametrize("code", ["EPISODE_OVER", "EXECUTION_ERROR"])
    def test_submit_fails_but_the_episode_is_over(self, session: Session, fleet: FakeFleet, code: str) -> None:
        """A deadline that came first, or a grader that raised: the record is fetched."""
        session.reset("t")
        fleet[0].reply = lambda frame: [error(code)] if frame["type"] == "step" else None
        fleet[0].done = True

        assert session.finish()["success"]

    def test_submit_fails_and_the_episode_is_not_over(self, session: Session, fleet: FakeFleet) -> None:
        """NOT_GRADED says where and why."""
        session.reset("t")
        fleet[0].reply = lambda frame: [error("VALIDATION_ERROR", "bad")] if frame["type"] == "step" else None
        with pytest.raises(NotGraded) as caught:
            session.finish()

        assert str(caught.value) == (
            f"NOT_GRADED: {session.url}, episode {session.episode_id}, step 0: the episode did not end at submit: "
            f"VALIDATION_ERROR: {session.url}, episode {session.episode_id}, step 0: bad"
        )

    def test_submit_does_not_end_it(self, session: Session, fleet: FakeFleet) -> None:
        """A tool error at submit leaves the episode running, and that is NOT_GRADED."""
        reply = {"type": "observation", "data": {"observation": {"error": {"error_type": "x"}}, "done": False}}
        session.reset("t")
        fleet[0].reply = lambda frame: [reply] if frame["type"] == "step" else None
        with pytest.raises(NotGraded, match="the episode did not end at submit: its `submit` must answer done"):
            session.finish()

    def test_done_is_known_by_the_state_alone(self, session: Session, fleet: FakeFleet) -> None:
        """A submit that does not say done is asked about."""
        reply = {"type": "observation", "data": {"observation": {}, "reward": None, "done": False}}
        session.reset("t")
        fleet[0].reply = lambda frame: [reply] if frame["type"] == "step" else None
        fleet[0].done = True

        assert session.finish()["reward"] == 1.0

    def test_a_record_without_metadata(self, session: Session, fleet: FakeFleet) -> None:
        """It cannot be used, and `miroir check` is named."""
        session.reset("t")
        fleet[0].reply = lambda frame: [{"type": "record", "data": {}}] if frame["type"] == "record" else None
        with pytest.raises(NotGraded, match="answered a record without metadata; run `miroir check` on it"):
            session.finish()

    @pytest.mark.parametrize(
        ("said", "flaw"),
        [
            ({"episode_id": "another"}, "whose episode_id is 'another', where {} was played"),
            ({"task_id": "u"}, "whose task_id is 'u', where t was played"),
            ({"schema": 9}, "of schema 9, where this miroir knows 1"),
            ({"reward": "1.0"}, "whose reward is '1.0'"),
            ({"reward": True}, "whose reward is True"),
            ({"metadata": {"task_hash": "h", "harm": False}}, "whose metadata.success is None"),
            ({"metadata": {"task_hash": "h", "success": True, "harm": False}}, "whose metadata.ended_by is None"),
            ({"split": ["train"]}, "whose split is ['train']"),
            ({"diagnostics": [1]}, "whose diagnostics is [1]"),
            ({"timings": "soon"}, "whose timings is 'soon'"),
            ({"steps": 3}, "whose steps is 3"),
        ],
    )
    def test_a_record_that_is_not_this_episodes(
        self, session: Session, fleet: FakeFleet, said: dict[str, Any], flaw: str
    ) -> None:
        """What another episode, schema or type gives is no grade, and is never read as one."""
        session.reset("t")
        fleet[0].reply = lambda frame: [record(session, **said)] if frame["type"] == "record" else None
        with pytest.raises(NotGraded) as caught:
            session.finish()

        assert caught.value.message == (
            f"{session.url} answered a record {flaw.format(session.episode_id)}; run `miroir check` on it"
        )

    def test_a_record_without_reward(self, session: Session, fleet: FakeFleet) -> None:
        """Null says that an episode is void; saying nothing is a fault."""
        session.reset("t")
        said = record(session)
        del said["data"]["reward"]
        fleet[0].reply = lambda frame: [said] if frame["type"] == "record" else None
        with pytest.raises(NotGraded, match="answered a record whose reward is 'missing'"):
            session.finish()

    @pytest.mark.parametrize("reward", [math.nan, math.inf, 10**400, b"1e999", None])
    def test_a_reward_that_is_no_number_is_void(self, session: Session, fleet: FakeFleet, reward: Any) -> None:
        """The record says why, and a success without a reward is none."""
        session.reset("t")
        said = json.dumps(record(session, reward="REWARD")).encode()
        number = reward if isinstance(reward, bytes) else json.dumps(reward).encode()
        fleet[0].reply = lambda frame: [said.replace(b'"REWARD"', number)] if frame["type"] == "record" else None
        graded = session.finish()

        assert (graded["reward"], graded["record"]["reward"], graded["success"]) == (None, None, False)
        assert graded["metadata"]["void_reason"] == (
            "the environment ended the episode without a reward, or with one that is no number"
        )


def test_a_session_that_does_not_come_about_frees_its_container(
    fleet: FakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, though whoever caught the error keeps it, and with it all that was being made."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("miroir.session.capability.capability", interrupted)
    with Fleet(fleet.urls) as leasing, pytest.raises(KeyboardInterrupt) as kept:
        leasing.lease(timeout_s=5)

    assert fleet.settled(0)
    assert leasing.stats()["urls"][fleet.urls[0]]["held"] == 0
    assert kept.value.__traceback__ is not None


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_session_is_not_copied(session: Session, copied: Callable[[Session], object]) -> None:
    """A copy that is dropped would free the container under the session that goes on."""
    session.reset("t")
    with pytest.raises(TypeError, match="a session cannot be copied or pickled; pass its URLs on, and lease another"):
        copied(session)
    gc.collect()

    assert session.step("say", {})["done"] is False


def test_interrupted_as_it_is_closed(fleet: FakeFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its container is free, though the session is kept and says that it is closed."""

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    with Fleet(fleet.urls) as leasing:
        session = leasing.lease(timeout_s=5)
        monkeypatch.setattr("miroir.session.dialogue.Dialogue.close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.close()

        assert session.closed
        assert fleet.settled(0)
        assert leasing.stats()["urls"][fleet.urls[0]]["held"] == 0


class TestErrors:
    """Error frames and broken connections."""

    @pytest.mark.parametrize("code", [["CAPACITY_REACHED"], {}, 5, None])
    def test_an_error_frame_whose_code_is_no_text(self, session: Session, fleet: FakeFleet, code: Any) -> None:
        """It is an error of the environment, and the session lives."""
        session.reset("t")
        fleet[0].reply = answering({"type": "error", "data": {"code": code, "errors": [math.nan]}})
        with pytest.raises(EnvError, match=re.escape("no message ([null])")):
            session.step("say", {})

        assert session.step("say", {})["done"] is False

    def test_numbers_that_json_has_not(self, session: Session, fleet: FakeFleet) -> None:
        """Python's own servers write NaN and Infinity; they read as null, so that records can be saved."""
        session.reset("t")
        observation = {"result": {"x": [math.nan, 1.5, -math.inf]}}
        fleet[0].reply = answering({"type": "observation", "data": {"observation": observation, "reward": math.nan}})
        step = session.step("say", {})

        assert step == {"observation": {"result": {"x": [None, 1.5, None]}}, "reward": None, "done": False}

    def test_numbers_that_no_float_holds(self, session: Session, fleet: FakeFleet) -> None:
        """They read as null like Infinity, which they would become; what a float holds is kept."""
        session.reset("t")
        said = b'{"type": "observation", "data": {"observation": {"result": [1e999, -1E400, 1e308, 1e-999]}}}'
        fleet[0].reply = lambda frame: [said]

        assert session.step("say", {})["observation"] == {"result": [None, None, 1e308, 0.0]}

    def test_an_error_frame_keeps_code_and_details(self, session: Session, fleet: FakeFleet) -> None:
        """The session lives; the error has the frame's code, message and errors, and where it was."""
        session.reset("t")
        fleet[0].reply = answering(error("VALIDATION_ERROR", "Invalid message", errors=[{"loc": ["tool_name"]}]))
        with pytest.raises(EnvError) as caught:
            session.step("echo", {})

        assert (caught.value.code, caught.value.errors) == ("VALIDATION_ERROR", [{"loc": ["tool_name"]}])
        assert str(caught.value) == (
            f"VALIDATION_ERROR: {session.url}, episode {session.episode_id}, step 0: "
            'Invalid message ([{"loc":["tool_name"]}])'
        )

        session.step("echo", {})

    @pytest.mark.parametrize("frame", [{"type": "error", "data": {}}, {"type": "error", "data": {"code": None}}])
    def test_an_error_frame_without_a_code(self, session: Session, fleet: FakeFleet, frame: dict[str, Any]) -> None:
        """It is an error all the same."""
        fleet[0].reply = answering(frame)
        with pytest.raises(MiroirError):
            session.reset("t")

    @pytest.mark.parametrize(
        "reply",
        [{"type": "state", "data": {}}, {"type": "observation"}, {"data": {}}, {"type": "observation", "data": []}, {}],
    )
    def test_a_reply_of_another_type_breaks_the_session(
        self, session: Session, fleet: FakeFleet, reply: dict[str, Any]
    ) -> None:
        """What was not owed is never taken for an answer."""
        session.reset("t")
        fleet[0].reply = answering(reply)
        with pytest.raises(ConnectionLost, match=r"it answered a frame of type .* where 'observation' was owed"):
            session.step("echo", {})

    @pytest.mark.parametrize("code", ["SESSION_ERROR", "FACTORY_ERROR", "CAPACITY_REACHED"])
    def test_the_server_ends_the_session(self, session: Session, fleet: FakeFleet, code: str) -> None:
        """Its closing errors are CONNECTION_LOST with what it said."""
        session.reset("t")
        fleet[0].reply = answering(error(code, "reaped"))
        with pytest.raises(ConnectionLost, match=f"the server ended the session with {code}: reaped"):
            session.step("echo", {})

    @pytest.mark.parametrize("name", CALLS)
    def test_connection_lost(self, session: Session, fleet: FakeFleet, name: str) -> None:
        """Every call that loses its connection names URL, episode and step; every later one raises the same."""
        session.reset("t")
        session.step("echo", {})
        episode = None if name == "reset" else session.episode_id
        steps = 0 if name == "reset" else 1
        fleet[0].reply = lambda frame: fleet.drop(0) or []
        with pytest.raises(ConnectionLost) as caught:
            CALLS[name](session)

        assert (caught.value.url, caught.value.episode_id, caught.value.step) == (fleet.urls[0], episode, steps)
        assert str(caught.value).startswith(f"CONNECTION_LOST: {fleet.urls[0]}, episode {episode}, step {steps}: ")
        assert str(caught.value).endswith("; the episode is void, lease another session")
        for later in CALLS.values():
            with pytest.raises(ConnectionLost) as again:
                later(session)

            assert again.value is caught.value
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)

    def test_step_timeout(self, session: Session, fleet: FakeFleet) -> None:
        """A late reply breaks the session, and no later call can read it."""
        session.reset("t")
        with pytest.raises(StepTimeout) as caught:
            session.step("sleep", {"s": 0.4}, timeout_s=0.2)

        assert str(caught.value) == (
            f"STEP_TIMEOUT: {fleet.urls[0]}, episode {session.episode_id}, step 0: no reply came within 0.2 s; "
            "the session is broken and its episode void, lease another"
        )
        assert caught.value.timeout_s == 0.2
        time.sleep(0.4)
        for name in ("step", "state", "reset"):
            with pytest.raises(StepTimeout) as again:
                CALLS[name](session)

            assert again.value is caught.value

    def test_deadlines_can_be_set(self, fleet: FakeFleet) -> None:
        """Each kind of call has its own, and a step's is the episode's limit and a margin where it has one."""
        deadlines = Deadlines(reset_s=0.2, step_s=0.3, step_margin_s=0.1, finish_s=0.4)
        with Fleet(fleet.urls, deadlines=deadlines) as leasing:
            for name, prepare, limit in (
                ("reset", None, 0.2),
                ("step", {}, 0.3),
                ("step", {"max_seconds": 1}, 1.1),
                ("finish", {}, 0.4),
            ):
                with leasing.lease(timeout_s=5) as session:
                    if prepare is not None:
                        session.reset("t", **prepare)
                    fleet[0].reply = lambda frame: []
                    with pytest.raises(StepTimeout) as caught:
                        CALLS[name](session)
                    fleet[0].reply = None

                assert caught.value.timeout_s == pytest.approx(limit)

    def test_default_step_deadlines(self) -> None:
        """Ten minutes, or the episode's limit and half a minute."""
        assert (Deadlines().step_s, Deadlines().step_margin_s) == (600.0, 30.0)

    @pytest.mark.parametrize("bad", [math.nan, -math.inf, {1}, object()])
    def test_arguments_that_cannot_be_sent(self, session: Session, bad: Any) -> None:
        """They are refused before anything is sent; the episode goes on and counts no step."""
        session.reset("t")
        with pytest.raises(InvalidArgument):
            session.step("echo", {"x": bad})

        assert session.step("echo", {"x": 1})["observation"]["tool_name"] == "echo"
        assert len(session.steps) == 1

    def test_interrupted(self, session: Session) -> None:
        """Ctrl-C in a call is raised as it is, and breaks the session."""
        session.reset("t")
        with alarmed(0.2), pytest.raises(KeyboardInterrupt):
            session.step("sleep", {"s": 5})
        with pytest.raises(ConnectionLost, match="interrupted while its reply was owed"):
            session.step("echo", {})

    def test_a_server_that_is_gone_is_seen_at_once(self, session: Session, fleet: FakeFleet) -> None:
        """A reset connection ends a step that is running."""
        session.reset("t")
        threading.Timer(0.2, fleet.drop, [0]).start()
        began = time.monotonic()
        with pytest.raises(ConnectionLost):
            session.step("sleep", {"s": 10})

        assert time.monotonic() - began < 1


class TestThreads:
    """One call at a time."""

    def test_calls_queue(self, session: Session, fleet: FakeFleet) -> None:
        """Twenty threads on one session each get their own answer."""
        session.reset("t")
        got: dict[int, Any] = {}

        def call(number: int) -> None:
            step = session.step("echo", {"number": number})
            got[number] = step["observation"]["result"]["content"][0]["text"]

        threads = [threading.Thread(target=call, args=[number]) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert got == {number: f'{{"number": {number}}}' for number in range(20)}
        assert len(session.steps) == 20

    def test_close_wakes_a_call(self, session: Session, fleet: FakeFleet) -> None:
        """From another thread, within a second; calls that queue behind it raise too."""
        session.reset("t")
        raised: list[float] = []
        began = time.monotonic()

        def call() -> None:
            try:
                session.step("sleep", {"s": 20})
            except ConnectionLost:
                raised.append(time.monotonic() - began)

        threads = [threading.Thread(target=call) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        session.close()
        for thread in threads:
            thread.join()

        assert len(raised) == 3
        assert max(raised) < 1.2

    def test_closed_by_a_signal_handler_in_mid_call(self, session: Session, fleet: FakeFleet) -> None:
        """A handler that closes the session in the calling thread ends the call, and hands nothing on."""
        session.reset("t")
        session.step("submit", {})
        with alarmed(0.2, lambda *_: session.close()), pytest.raises(ConnectionLost):
            session.step("sleep", {"s": 5})

        assert session.closed


class TestClosing:
    """Giving the container back."""

    def test_free_at_once_and_idempotent(self, session: Session, fleet: FakeFleet) -> None:
        """The container is free, a second close does nothing, and calls say that it was closed."""
        session.close()
        session.close()

        assert fleet.settled(0)
        assert session.closed
        with pytest.raises(ConnectionLost, match=f"the session on {session.url} was closed; lease another$"):
            session.state()

    def test_with_closes(self, fleet: FakeFleet) -> None:
        """At the end of the block, an exception or not."""
        with Fleet(fleet.urls) as leasing, pytest.raises(ZeroDivisionError), leasing.lease(timeout_s=5):
            assert fleet[0].active == 1
            raise ZeroDivisionError

        assert fleet.settled(0)

    @pytest.mark.parametrize(
        ("play", "same"),
        [
            (lambda session: None, True),
            (lambda session: session.reset("t") and session.finish(), True),
            (lambda session: session.reset("t"), False),
            (lambda session: (session.reset("t"), session.finish(), session.reset("t")), False),
        ],
        ids=["never begun", "done", "running", "running again"],
    )
    def test_what_is_handed_on(self, fleet: FakeFleet, play: Callable[[Session], object], same: bool) -> None:
        """An open connection goes to the waiter only when its episode is done or never began."""
        with Fleet(fleet.urls) as leasing:
            first = leasing.lease(timeout_s=5)
            play(first)
            threading.Timer(0.2, first.close).start()
            with leasing.lease(timeout_s=5) as second:
                assert (second._lease.transport is first._lease.transport) is same

                second.reset("u")

                assert second.steps == []

    def test_a_failed_reset_is_not_handed_on(self, fleet: FakeFleet) -> None:
        """Nobody knows what such a world is in."""
        with Fleet(fleet.urls) as leasing:
            first = leasing.lease(timeout_s=5)
            fleet[0].reply = answering(error("EXECUTION_ERROR"))
            with pytest.raises(EnvError):
                first.reset("t")
            threading.Timer(0.2, first.close).start()
            with leasing.lease(timeout_s=5) as second:
                assert second._lease.transport is not first._lease.transport

    def test_dropped_without_close(self, fleet: FakeFleet) -> None:
        """The container is free within a second, and a ResourceWarning says which session it was."""
        with Fleet(fleet.urls) as leasing:
            session = leasing.lease(timeout_s=5)
            session.reset("t")
            text = repr(session)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                del session
                gc.collect()

            assert [str(warning.message) for warning in caught if warning.category is ResourceWarning] == [
                f"{text} was dropped without close()"
            ]
            assert fleet.settled(0, seconds=1)
            leasing.lease(timeout_s=5).close()

    def test_used_as_the_interpreter_ends(self, fleet: FakeFleet) -> None:
        """Calls of a user's finalizer raise, and closing waits for no thread: there is none that reads any more."""
        script = textwrap.dedent(f"""
            import miroir

            class Env:
                def __init__(self):
                    self.fleet = miroir.Fleet({fleet.urls!r})
                    self.session = self.fleet.lease(timeout_s=5)
                    self.session.reset("t")

                def __del__(self):
                    for call in (self.session.finish, self.fleet.lease):
                        try:
                            call()
                        except Exception as error:
                            print(error)
                    self.session.close()
                    self.fleet.close()
                    print("closed")

            env = Env()
        """)
        told = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True, cwd="/"
        )

        lost, refused, closed = told.stdout.splitlines()
        assert lost.startswith(f"CONNECTION_LOST: {fleet.urls[0]}, episode ")
        assert lost.endswith(
            "the interpreter is ending, and nobody reads replies any more; the episode is void, lease another session"
        )
        assert refused == "INVALID_ARGUMENT: the interpreter is ending; lease before it does, or in an atexit function"
        assert (closed, told.stderr) == ("closed", "")
        assert fleet.settled(0)

    def test_closed_or_broken_ones_warn_of_nothing(self, fleet: FakeFleet) -> None:
        """Closing is all that is asked."""
        with Fleet(fleet.urls) as leasing:
            session = leasing.lease(timeout_s=5)
            session.close()
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                del session
                gc.collect()

            assert fleet.settled(0)

    def test_a_broken_session_frees_its_container(self, fleet: FakeFleet) -> None:
        """After a timeout and close the next lease has it."""
        with Fleet(fleet.urls) as leasing:
            with leasing.lease(timeout_s=5) as session:
                session.reset("t")
                with pytest.raises(StepTimeout):
                    session.step("sleep", {"s": 0.3}, timeout_s=0.1)
            leasing.lease(timeout_s=5).close()

    def test_repr_tells_state_and_no_secret(self, fleet: FakeFleet, caplog: pytest.LogCaptureFixture) -> None:
        """URL and state; the token is in no repr, log or error."""
        fleet[0].token = "s3cret"
        texts = []
        with caplog.at_level(logging.DEBUG), Fleet(fleet.urls, "s3cret") as leasing:
            session = leasing.lease(timeout_s=5)
            texts.append(repr(session))
            session.reset("t")
            texts.append(repr(session))
            with pytest.raises(NoFreeContainer) as caught:
                leasing.lease(wait_busy=False)
            texts += [repr(caught.value), repr(leasing), repr(leasing.stats()), repr(vars(session))]
            fleet.drop(0)
            with pytest.raises(ConnectionLost) as lost:
                session.step("echo", {})
            texts += [repr(session), repr(lost.value)]
            session.close()
            texts.append(repr(session))

        assert texts[0] == f"<miroir.Session {fleet.urls[0]} episode None>"
        assert texts[-1] == f"<miroir.Session {fleet.urls[0]} closed>"
        assert "s3cret" not in " ".join([*texts, caplog.text])


class TestLeasing:
    """`Session.lease`, the short way."""

    def test_one_waiting_line_for_each_list(self, fleet: FakeFleet) -> None:
        """Sessions of one list share a line, so that a container is handed on."""
        first = Session.lease(fleet.urls, timeout_s=5)
        threading.Timer(0.2, first.close).start()
        with Session.lease(fleet.urls, timeout_s=5) as second:
            assert second._lease.transport is first._lease.transport

    def test_a_url_file(self, fleet: FakeFleet, tmp_path: Path) -> None:
        """A path-like is a URL file."""
        (tmp_path / "urls.txt").write_text(f"{fleet.urls[0]}/  # the only one\n")
        with Session.lease(tmp_path / "urls.txt", timeout_s=5) as session:
            assert session.url == f"{fleet.urls[0]}/"

    @pytest.mark.parametrize("bad", [[], "http://h:1", "urls.txt", ["h:1"], [""]])
    def test_bad_lists_are_value_errors(self, bad: Any) -> None:
        """An empty list, a bare text, and what is no base URL."""
        with pytest.raises(ValueError):
            Session.lease(bad)

    def test_the_public_name(self, fleet: FakeFleet) -> None:
        """Twelve lines against `from miroir import Session` work."""
        with miroir.Session.lease(fleet.urls) as session:
            session.reset("t")
            session.step("echo", {"x": 1})

            assert session.finish()["success"]


class TestFork:
    """Children of a process that holds sessions."""

    def test_every_call_of_the_childs_copy_raises(self, fleet: FakeFleet) -> None:
        """Closing it there is harmless; the parent's session goes on."""
        with Fleet(fleet.urls) as leasing, leasing.lease(timeout_s=5) as session:
            session.reset("t")
            child = os.fork()
            if child == 0:
                told = 0
                for call in CALLS.values():
                    try:
                        call(session)
                    except ConnectionLost as caught:
                        told += "belongs to the process that leased it; lease one in this process" in str(caught)
                session.close()
                os._exit(0 if told == len(CALLS) else 1)
            _, status = os.waitpid(child, 0)

            assert os.waitstatus_to_exitcode(status) == 0
            assert session.step("echo", {"x": 1})["done"] is False

    def test_a_fork_in_mid_call(self, fleet: FakeFleet) -> None:
        """The child's copy raises at once, though the parent's call was running."""
        with Fleet(fleet.urls) as leasing, leasing.lease(timeout_s=5) as session:
            session.reset("t")
            thread = threading.Thread(target=session.step, args=["sleep", {"s": 0.5}])
            thread.start()
            time.sleep(0.1)
            child = os.fork()
            if child == 0:
                try:
                    session.state()
                except ConnectionLost:
                    session.close()
                    os._exit(0)
                os._exit(1)
            _, status = os.waitpid(child, 0)
            thread.join()

            assert os.waitstatus_to_exitcode(status) == 0
            assert len(session.steps) == 1

    def test_the_parent_killed_while_a_child_lives(self, fleet: FakeFleet) -> None:
        """The container is free at once: no child holds the lease open."""
        code = """
            import json, os, sys, time
            from miroir import Session
            session = Session.lease(json.loads(sys.argv[1]))
            session.reset("t")
            if os.fork() == 0:
                time.sleep(20)
                os._exit(0)
            print("leased", flush=True)
            time.sleep(20)
        """
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), json.dumps(fleet.urls)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "leased\n"
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
        process.wait()
        process.stdout.close()
        freed = fleet.settled(0, seconds=1)
        for child in children:
            os.kill(int(child), signal.SIGKILL)

        assert len(children) == 1
        assert freed
