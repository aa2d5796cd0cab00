"""A session on an AppWorld task: how its world is opened, used, scored and closed, and what a fault makes of it."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
from appworldserver import ASKED, BARE, INSTRUCTION, MET, SUPERVISOR, FakeAppWorld, Reply, faked

from miroir.appworld import server as server_module
from miroir.appworld import session as session_module
from miroir.appworld.score import Requirement, TaskScore
from miroir.appworld.server import Refused, Server, Unanswered, Unreadable
from miroir.appworld.session import AppWorldSession, Settings, opened
from miroir.errors import AppWorldError


@pytest.fixture
def fake() -> Iterator[FakeAppWorld]:
    """A server that does as it is told."""
    with faked() as made:
        yield made


def server(fake: FakeAppWorld, timeout_s: float = 5.0) -> Server:
    """A client of the fake."""
    return Server(fake.url, timeout_s=timeout_s, logs=lambda: fake.log)


# Opening


def test_a_world_is_opened_and_closed(fake: FakeAppWorld) -> None:
    """R1, R69, R79, R83, R89: the whole chain with code that is written down here: no model has a part in it."""
    with opened(server(fake), "toy_1", Settings()) as session:
        assert (session.task_id, session.base_url) == ("toy_1", fake.url)
        assert (session.instruction, session.datetime) == (INSTRUCTION, "2023-05-18T12:00:00")
        assert session.execute("print 2") == "2"
        assert not session.is_done()
        assert session.execute("complete right") == "Execution successful."
        assert session.is_done()
        assert session.evaluate().success

    assert fake.paths() == [
        *("/initialize", "/execute", "/task_completed", "/execute", "/task_completed", "/evaluate", "/close"),
    ]
    assert fake.bodies("/close") == [{"task_id": "toy_1"}]


def test_exactly_these_parameters_are_sent(fake: FakeAppWorld) -> None:
    """R73, R74, R75, R76, R77, R78: every switch that an agent would notice, none for tests, no ground_truth_mode."""
    with opened(server(fake), "toy_1", Settings("runs", 12, 34)) as session:
        name = session.experiment_name

    assert fake.bodies("/initialize") == [
        {
            "task_id": "toy_1",
            "experiment_name": name,
            "max_interactions": 12,
            "max_api_calls_per_interaction": 1000,
            "raise_on_unsafe_syntax": True,
            "null_patch_unsafe_execution": True,
            "load_ground_truth": True,
            "raise_on_failure": True,
            "random_seed": 100,
            "timeout_seconds": 34,
            "show_api_response_schemas": True,
            "gc_threshold": 500000,
        }
    ]


def test_each_session_writes_to_a_folder_of_its_own(fake: FakeAppWorld) -> None:
    """R67, R73: the experiment's name begins with the one that was given, and is never used twice."""
    names = set()
    for _ in range(5):
        with opened(server(fake), "toy_1", Settings("runs")) as session:
            names.add(session.experiment_name)

    assert len(names) == 5
    assert all(name.startswith("runs-") for name in names)
    assert names == {body["experiment_name"] for body in fake.bodies("/initialize")}


def test_further_parameters_can_be_given(fake: FakeAppWorld) -> None:
    """A newer AppWorld has others; one that is sent anyway is overridden."""
    extra = {"raise_on_unsafe_execution": True, "random_seed": 7}
    with opened(server(fake), "toy_1", Settings(extra=extra)):
        pass

    assert fake.bodies("/initialize")[0].items() >= extra.items()


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ({}, "no instruction for the task toy_1 but nothing"),
        ({"instruction": "x", "supervisor": {}}, "no datetime for the task toy_1 but instruction, supervisor"),
        ("opened", "no instruction for the task toy_1 but a str"),
        (None, "no instruction for the task toy_1 but a NoneType"),
    ],
)
def test_an_opening_that_lacks_a_key_is_an_error_and_is_closed(fake: FakeAppWorld, output: Any, why: str) -> None:
    """R70, R71: the error names the task, the key, and the keys that are there; the world that was opened is closed."""
    fake.say("/initialize", Reply({"output": output}))
    leased = server(fake)

    with (
        pytest.raises(Unreadable, match=f"^APPWORLD: /initialize answered {why};"),
        opened(leased, "toy_1", Settings()),
    ):
        pytest.fail("it opened")

    assert fake.paths() == ["/initialize", "/close"]
    assert leased.fault is not None


def test_an_unknown_task_is_the_tasks_fault(fake: FakeAppWorld, caplog: pytest.LogCaptureFixture) -> None:
    """R71: the error shows the server's log; a close is sent, and refused; the server is as good as before."""
    leased = server(fake)

    with pytest.raises(Refused, match="The task directory") as caught, opened(leased, "nope_1", Settings()):
        pytest.fail("it opened")

    assert caught.value.log[-1] == "Exception: The task directory (./data/tasks/nope_1) doesn't exist."
    assert fake.paths() == ["/initialize", "/tasks/nope_1", "/close"]
    assert (leased.fault, caplog.records) == (None, [])


def test_a_world_that_does_not_open_for_a_known_task_is_the_servers_fault(fake: FakeAppWorld) -> None:
    """Once wedged it would fail for every task: nobody should get it again."""
    fake.wedged = True
    leased = server(fake)

    with pytest.raises(Refused, match="pop from empty list"), opened(leased, "toy_1", Settings()):
        pytest.fail("it opened")

    assert leased.fault == "/initialize answered 500 for toy_1, which it can load"


def test_an_interrupt_while_a_world_opens_closes_it(fake: FakeAppWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C passes through unchanged, after a close."""
    leased = server(fake)
    call = leased.call

    def interrupted(path: str, body: Any, **options: Any) -> Any:
        answer = call(path, body, **options)
        if path == "/initialize":
            raise KeyboardInterrupt
        return answer

    monkeypatch.setattr(leased, "call", interrupted)
    with pytest.raises(KeyboardInterrupt), opened(leased, "toy_1", Settings()):
        pytest.fail("it opened")

    assert fake.paths() == ["/initialize", "/close"]


# Using


def test_the_supervisor_is_a_copy(fake: FakeAppWorld) -> None:
    """R79: what a caller does to it reaches nobody."""
    with opened(server(fake), "toy_1", Settings()) as session:
        session.supervisor["email"] = "changed"
        assert session.supervisor == SUPERVISOR


def test_errors_of_the_code_are_text(fake: FakeAppWorld) -> None:
    """R80: a model's bad code is told apart from a broken environment."""
    texts = ["Execution failed. Traceback:\nZeroDivisionError", "Exception: Execution timed out after 5 seconds."]
    fake.say("/execute", *(Reply({"output": text}) for text in texts))

    with opened(server(fake), "toy_1", Settings()) as session:
        assert [session.execute("1/0"), session.execute("while True: pass")] == texts
        assert session.n_executions == 2


def test_executions_count_once_they_were_answered(fake: FakeAppWorld) -> None:
    """R81, R82: a fault of the network does not count; an output of the wrong kind does, and is an error."""
    leased = server(fake)
    with opened(leased, "toy_1", Settings()) as session:
        fake.say("/execute", Reply({"output": 5}), Reply(drop=True))
        with pytest.raises(AppWorldError, match="/execute answered a int as output, not text"):
            session.execute("1")
        assert session.n_executions == 1
        with pytest.raises(Unanswered):
            session.execute("1")
        assert session.n_executions == 1


def test_an_output_that_is_far_too_long_is_the_codes_doing(fake: FakeAppWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is dropped and said so, as text; the session goes on."""
    monkeypatch.setattr(server_module, "MAX_BODY_BYTES", 1000)
    leased = server(fake)
    with opened(leased, "toy_1", Settings()) as session:
        fake.say("/execute", Reply({"output": "x" * 2000}))
        text = "Execution finished, but its output was dropped: /execute answered more than 1000 bytes; "
        assert session.execute("print('x' * 2000)").startswith(text)
        assert session.execute("print 2") == "2"
        assert session.n_executions == 2
    assert leased.fault is None


def test_a_fault_in_a_call_leaves_the_close_to_succeed(fake: FakeAppWorld, caplog: pytest.LogCaptureFixture) -> None:
    """A bare 500 is this session's alone: the close after it is answered, and the server stays."""
    leased = server(fake)
    with opened(leased, "toy_1", Settings()) as session:
        with pytest.raises(Refused):
            session.execute("fault")
        assert session.execute("print 2") == "2"

    assert fake.paths()[-1] == "/close"
    assert (leased.fault, caplog.records) == (None, [])


def test_is_done_is_a_bool(fake: FakeAppWorld) -> None:
    """R84: whatever the server answers."""
    fake.say("/task_completed", Reply({"output": None}), Reply({"output": "yes"}))
    with opened(server(fake), "toy_1", Settings()) as session:
        assert [session.is_done(), session.is_done()] == [False, True]


# Scoring


def test_a_score_holds_the_whole_answer(fake: FakeAppWorld) -> None:
    """R85, R87, R88: faults of the requirements are asked to be suppressed; the detail is all that was answered."""
    with opened(server(fake), "toy_1", Settings()) as session:
        session.execute("complete wrong")
        score = session.evaluate()

    assert fake.bodies("/evaluate") == [{"task_id": "toy_1", "suppress_errors": True, "report": False}]
    assert (score.task_id, score.success, score.n_executions) == ("toy_1", False, 1)
    assert score.detail["failures"] == [{**ASKED, "trace": "AssertionError: 3 is not 2"}]
    assert score.requirements() == [
        Requirement(MET["requirement"], "no_op_pass", True),
        Requirement(ASKED["requirement"], "no_op_fail", False, "AssertionError: 3 is not 2"),
    ]
    with pytest.raises(dataclasses.FrozenInstanceError):
        score.success = True  # type: ignore[misc]


@pytest.mark.parametrize(
    ("answer", "success"),
    [({"success": True, "passes_fully": False}, True), ({"passes_fully": 1}, True), ({"success": 0}, False)],
)
def test_the_first_verdict_counts(answer: dict[str, Any], success: bool) -> None:
    """R86: `success`, else `passes_fully`."""
    assert TaskScore.read("t", 0, answer).success is success


def test_an_answer_without_a_verdict_is_no_failed_score(fake: FakeAppWorld) -> None:
    """R85, R86: the error lists the keys, sorted; an output that is no object names its kind."""
    fake.say("/evaluate", Reply({"output": {"passes": [], "failures": []}}), Reply({"output": "report"}))
    with opened(server(fake), "toy_1", Settings()) as session:
        with pytest.raises(AppWorldError, match="neither success nor passes_fully but failures, passes"):
            session.evaluate()
        with pytest.raises(AppWorldError, match="/evaluate answered a str as output, not an object"):
            session.evaluate()


@pytest.mark.parametrize(
    "detail", [{}, {"passes": [], "fails": []}, {"passes": [{"label": "x"}], "failures": []}, {"passes": 1}]
)
def test_requirements_that_are_not_listed_are_no_requirements_met(detail: dict[str, Any]) -> None:
    """Another version's shape is an error, never an empty list."""
    with pytest.raises(AppWorldError, match="lists no passes and failures with requirement and label"):
        TaskScore("t", True, 0, detail).requirements()


# Closing


def test_a_closed_session_refuses_every_call(fake: FakeAppWorld) -> None:
    """R72, R89: the server would answer as if nothing had happened."""
    with opened(server(fake), "toy_1", Settings()) as session:
        session.close()
        session.close()
    asked = len(fake.calls)
    for call in (lambda: session.execute("1"), session.is_done, session.evaluate):
        with pytest.raises(AppWorldError, match=r"the session on toy_1 is closed; open another by pool.session"):
            call()

    assert len(fake.calls) == asked
    assert fake.paths().count("/close") == 1
    assert repr(session) == f"AppWorldSession('toy_1' at {fake.url}, closed)"


def test_a_close_that_fails_is_logged_and_not_raised(fake: FakeAppWorld, caplog: pytest.LogCaptureFixture) -> None:
    """R97, R103: the result is at hand; the server, whose world may be open, is given to nobody any more."""
    leased = server(fake)
    with opened(leased, "toy_1", Settings()) as session:
        session.execute("wedge")

    assert leased.fault == "/close failed, so that its world of toy_1 may still be open"
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith(f"the world of toy_1 at {fake.url} was not closed: /close answered 500")


def test_the_error_of_the_block_is_the_one_that_is_raised(fake: FakeAppWorld) -> None:
    """R101: also where the close fails after it."""
    fake.say("/close", Reply(BARE.encode(), 500))
    with pytest.raises(ZeroDivisionError), opened(server(fake), "toy_1", Settings()):
        raise ZeroDivisionError


def test_a_server_that_hangs_is_not_waited_for_when_closing(
    fake: FakeAppWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A close is sent all the same, with little patience."""
    monkeypatch.setattr(session_module, "_LOST_CLOSE_TIMEOUT_S", 0.2)
    fake.say("/execute", Reply(delay_s=1.0))
    fake.say("/close", Reply(delay_s=2.0))
    leased = server(fake, timeout_s=0.3)
    began = time.monotonic()
    with pytest.raises(Unanswered), opened(leased, "toy_1", Settings()) as session:
        session.execute("hang")

    assert time.monotonic() - began < 1.9
    assert fake.paths() == ["/initialize", "/execute", "/close"]


def test_an_interrupted_close_passes_through(fake: FakeAppWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """R100: Ctrl-C is nobody's fault, and is not counted as a failed close."""
    leased = server(fake)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), opened(leased, "toy_1", Settings()):
        monkeypatch.setattr(leased, "call", interrupted)
    assert leased.fault is None


def test_the_deadline_outlasts_the_codes_own() -> None:
    """R12, R62: a call is waited for thirty seconds longer than the code may run."""
    assert Settings(execution_timeout_s=7).timeout_s == 37
    assert Settings().timeout_s == 130


def test_a_session_shows_where_it_is(fake: FakeAppWorld) -> None:
    """Its task and its server, nothing else."""
    assert repr(AppWorldSession(server(fake), "toy_1", Settings())) == f"AppWorldSession('toy_1' at {fake.url})"
