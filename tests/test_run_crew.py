"""The threads of a run: order, retries, what stops them, and how they stop."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakefleet import FakeFleet
from modelserver import Reply, serving, tool_then_submit
from processes import until
from troubled import TASKS, Broken, Closed, Troubled, served

from miroir import Fleet, catalog
from miroir.agents import Agent, CallableAgent, ChatAgent
from miroir.chat import ChatClient
from miroir.episode import Setting
from miroir.errors import EnvError, InvalidArgument, MiroirError, ModelError, NoFreeContainer, RecordError
from miroir.records import load
from miroir.run import Progress, Report, crew
from miroir.run.crew import Crew
from miroir.run.jobs import Job
from miroir.wire import Task

Play = Callable[..., Any]


def task(task_id: str = "plain") -> Task:
    """A task as the troubled environment lists it."""
    return {"id": task_id, "task_hash": "h", "instruction": "Do.", "split": "train", **TASKS.get(task_id, {})}  # type: ignore[typeddict-item]


def jobs(count: int, task_id: str = "plain") -> list[Job]:
    """So many rollouts of the task."""
    return [Job(task(task_id), trial) for trial in range(count)]


def says(session: Any, task: Any, tools: Any, **_: Any) -> None:
    """An agent that succeeds."""
    session.step("say", {})


class Work:
    """One crew over a fleet, and what came of it."""

    def __init__(self, folder: Path, fleet: Fleet, play: Play | Agent, *, retries: int = 0, **setting: Any) -> None:
        agent = play if isinstance(play, ChatAgent) else CallableAgent("tests:agent", play)
        self.folder = folder
        self.report = Report()
        self._make = lambda todo: Crew(fleet, agent, Setting(**setting), folder, todo, retries, self.report)
        self.told: list[Progress] = []

    def play(
        self, todo: list[Job], concurrency: int = 4, progress: Callable[[Progress], object] | None = None
    ) -> Report:
        """Play the jobs."""
        self._make(todo).play(concurrency, progress or self.told.append)
        return self.report

    @property
    def records(self) -> list[dict[str, Any]]:
        """What was saved."""
        return list(load([self.folder]))


@pytest.fixture
def troubled() -> Iterator[Fleet]:
    """A fleet of two troubled containers."""
    with served(Troubled, Troubled) as urls, Fleet(urls) as fleet:
        yield fleet


def test_every_job_is_played_once_and_saved(tmp_path: Path, troubled: Fleet) -> None:
    """More threads than containers play all jobs; every record is saved and counted."""
    work = Work(tmp_path, troubled, says)

    report = work.play(jobs(40), concurrency=8)

    assert Counter(record["trial"] for record in work.records) == dict.fromkeys(range(40), 1)
    assert (report.splits["train"].graded, report.splits["train"].successes, report.unfinished) == (40, 40, 0)


def test_no_more_episodes_run_at_once_than_asked_for(tmp_path: Path) -> None:
    """Concurrency bounds the episodes, not the containers alone."""
    playing, most = 0, 0
    lock = threading.Lock()

    def plays(session: Any, task: Any, tools: Any, **_: Any) -> None:
        nonlocal playing, most
        with lock:
            playing, most = playing + 1, max(most, playing + 1)
        session.step("say", {})
        with lock:
            playing -= 1

    with FakeFleet(*["free"] * 6) as containers, Fleet(containers.urls) as fleet:
        Work(tmp_path, fleet, plays).play(jobs(30), concurrency=3)

    assert 1 <= most <= 3


def test_progress_is_told_in_the_callers_thread(tmp_path: Path, troubled: Fleet) -> None:
    """Progress begins at nought, never goes back, and ends with everything."""
    threads = set()
    told: list[Progress] = []

    def tell(now: Progress) -> None:
        threads.add(threading.current_thread())
        told.append(now)

    Work(tmp_path, troubled, says).play(jobs(6), 2, tell)

    assert threads == {threading.current_thread()}
    assert [now.done for now in told] == sorted(now.done for now in told)
    assert (told[0].done, told[-1].done, told[-1].total, told[-1].successes) == (0, 6, 6, 6)
    assert told[-1].rate > 0
    assert told[-1].left_s == 0


def test_a_void_episode_is_played_again_and_again(tmp_path: Path, troubled: Fleet) -> None:
    """A void episode is saved and put back, each time as a further attempt, until the retries are used up."""
    work = Work(tmp_path, troubled, says, retries=2)

    report = work.play([Job(task("bad-grade"), 0, 5), Job(task(), 0)])

    voids = [record for record in work.records if record["reward"] is None]
    assert sorted(record["attempt"] for record in voids) == [5, 6, 7]
    assert (report.unfinished, report.splits["train"].void, report.splits["train"].graded) == (1, 3, 1)
    assert report.reasons == {"grading failed: RuntimeError: no grader today": 1}
    assert (work.told[-1].done, work.told[-1].void, work.told[-1].successes) == (2, 3, 1)


def test_an_attempt_that_works_ends_the_retries(tmp_path: Path, troubled: Fleet) -> None:
    """What is played again and graded is finished, and its void attempt stays on record."""
    tries: Counter[int] = Counter()

    def plays(session: Any, task: Any, tools: Any, *, trial: int, **_: Any) -> None:
        tries[trial] += 1
        session.step("say" if tries[trial] > 1 else "boom", {})

    work = Work(tmp_path, troubled, plays, retries=2)
    report = work.play(jobs(3))

    assert sorted((r["trial"], r["attempt"], r["reward"]) for r in work.records if r["reward"] is not None) == [
        (0, 1, 1.0),
        (1, 1, 1.0),
        (2, 1, 1.0),
    ]
    assert (report.unfinished, report.splits["train"].void) == (0, 3)


def test_an_agent_that_raises_is_shown_once(tmp_path: Path, troubled: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    """An agent's exception is not played again; its traceback is logged for its author, once a run."""

    def plays(session: Any, task: Any, tools: Any, **_: Any) -> None:
        raise LookupError("no such drawer")

    with caplog.at_level(logging.WARNING, "miroir.run"):
        report = Work(tmp_path, troubled, plays, retries=2).play(jobs(3))

    assert report.unfinished == 3
    assert report.reasons == {"LookupError: no such drawer": 3}
    assert len(caplog.records) == 1
    assert caplog.records[0].getMessage().startswith("task plain, trial ")
    assert "LookupError: no such drawer" in caplog.text


# The model's endpoint


def chat(url: str, key: str | None = None) -> ChatAgent:
    """A chat agent that does not try again."""
    return ChatAgent(ChatClient(url, "stub", key, retries=0))


def test_an_endpoint_that_never_worked_stops_the_run(tmp_path: Path, troubled: Fleet) -> None:
    """Without a single completion no episode can tell anything: the endpoint's error is raised, nothing is saved."""
    url = next(iter(troubled.stats()["urls"]))
    work = Work(tmp_path, troubled, chat("http://127.0.0.1:9/v1"), tools=catalog.tools(url))

    with pytest.raises(ModelError, match=r"http://127\.0\.0\.1:9/v1/chat/completions \(model stub.*refused"):
        work.play(jobs(20))

    assert work.records == []


@pytest.mark.parametrize(("status", "attempts"), [(503, [0, 1, 2]), (401, [0]), (403, [0])])
def test_an_endpoint_that_dies_makes_episodes_void(
    tmp_path: Path, troubled: Fleet, status: int, attempts: list[int]
) -> None:
    """Once it has worked its faults void episodes, which are played again; a refused key is final."""
    url = next(iter(troubled.stats()["urls"]))
    completions = Counter[str]()

    def script(body: dict[str, Any]) -> Reply:
        completions["all"] += 1
        return tool_then_submit(body) if completions["all"] <= 2 else Reply({"error": {"message": "no"}}, status)

    with serving(script) as model:
        work = Work(tmp_path, troubled, chat(model.base_url), retries=2, tools=catalog.tools(url))
        report = work.play(jobs(2), concurrency=1)

    void = [record for record in work.records if record["reward"] is None]
    assert [record["attempt"] for record in void] == attempts
    assert {record["metadata"]["ended_by"] for record in void} == {"agent_error"}
    assert (report.splits["train"].graded, report.unfinished) == (1, 1)


# Containers


def test_a_container_that_dies_costs_an_attempt(tmp_path: Path) -> None:
    """A connection lost in a step is a void record; the rollout is played again elsewhere."""
    cut = threading.Event()

    def plays(session: Any, task: Any, tools: Any, **_: Any) -> None:
        session.step("say", {})
        if not cut.is_set():
            cut.set()
            containers.drop(0)
            containers.drop(1)
        session.step("say", {})

    with FakeFleet("free", "free") as containers, Fleet(containers.urls) as fleet:
        work = Work(tmp_path, fleet, plays, retries=2)
        report = work.play(jobs(1))

    void, graded = sorted(work.records, key=lambda record: record["attempt"])
    assert (void["reward"], void["metadata"]["ended_by"], graded["reward"], graded["attempt"]) == (None, "lost", 1.0, 1)
    assert report.unfinished == 0


def test_a_broken_container_does_not_use_up_the_jobs(tmp_path: Path) -> None:
    """A container on which every episode fails at once is left alone, longer each time, while others play."""

    def plays(session: Any, task: Any, tools: Any, **_: Any) -> None:
        session.step("say", {})
        time.sleep(0.1)

    with served(Broken, Troubled, Troubled) as (bad, *good), Fleet([bad, *good]) as fleet:
        report = Work(tmp_path, fleet, plays, retries=2).play(jobs(30), concurrency=6)

    assert (report.unfinished, report.splits["train"].graded) == (0, 30)
    assert report.splits["train"].void <= 8


def test_a_container_that_cannot_reset_costs_no_episode(tmp_path: Path) -> None:
    """Where one container of a fleet fails every reset, its episodes are played on the others."""

    def plays(session: Any, task: Any, tools: Any, **_: Any) -> None:
        session.step("say", {})
        time.sleep(0.1)

    with served(Closed, Troubled) as urls, Fleet(urls) as fleet:
        report = Work(tmp_path, fleet, plays).play(jobs(15), concurrency=4)

    assert (report.unfinished, report.splits["train"].void, report.splits["train"].graded) == (0, 0, 15)


def test_a_fleet_that_lives_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While its containers are leased by others a run waits, however long that takes."""
    monkeypatch.setattr("miroir.run.workers.LEASE_S", 0.2)
    with FakeFleet("held") as containers, Fleet(containers.urls) as fleet:
        work = Work(tmp_path, fleet, says)
        freed = threading.Timer(1.0, setattr, [containers[0], "mode", "free"])
        freed.start()
        report = work.play(jobs(2))
        freed.join()

    assert report.splits["train"].graded == 2


def test_a_fleet_that_is_dead_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing alive for that long the run is over."""
    monkeypatch.setattr("miroir.run.workers.LEASE_S", 0.3)
    with FakeFleet("down") as containers, Fleet(containers.urls) as fleet, pytest.raises(NoFreeContainer):
        Work(tmp_path, fleet, says).play(jobs(2))


def test_an_unknown_task_ends_the_run(tmp_path: Path, troubled: Fleet) -> None:
    """What the caller has to mend is raised; what was played before is saved."""
    work = Work(tmp_path, troubled, says)

    with pytest.raises(EnvError, match=r"UNKNOWN_TASK: .*no task 'no-such'"):
        work.play([*jobs(2), Job(task("no-such"), 0)], concurrency=1)

    assert len(work.records) == 2


def test_a_full_disk_ends_the_run(tmp_path: Path, troubled: Fleet) -> None:
    """A record that cannot be saved is no reason to play on."""
    (tmp_path / "file").touch()

    with pytest.raises(RecordError, match="was not saved to"):
        Work(tmp_path / "file", troubled, says).play(jobs(50))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_miroir_itself_ends_the_run(
    tmp_path: Path, troubled: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody foresaw is raised with its kind, not waited for."""
    monkeypatch.setattr(crew, "play", lambda *_, **__: 1 / 0)

    with pytest.raises(MiroirError, match="an episode ended with ZeroDivisionError: division by zero"):
        Work(tmp_path, troubled, says).play(jobs(3))


def test_threads_that_cannot_be_had_end_the_run(
    tmp_path: Path, troubled: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that starts no more threads is told of as a concurrency that is too high."""
    start, started = threading.Thread.start, []

    def limited(thread: threading.Thread) -> None:
        if thread.name.startswith("miroir-run-"):
            if len(started) == 3:
                raise RuntimeError("can't start new thread")
            started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)

    with pytest.raises(InvalidArgument, match="only 3 of 5 threads could be started; lower the concurrency"):
        Work(tmp_path, troubled, says).play(jobs(9), concurrency=5)


# Stopping


def interrupted_after(count: int) -> Callable[[Progress], None]:
    """An interrupt of the calling thread, as Ctrl-C is one, once so many rollouts are done."""

    def interrupt(now: Progress) -> None:
        if now.done >= count:
            raise KeyboardInterrupt

    return interrupt


def test_an_interrupt_lets_episodes_finish(tmp_path: Path, troubled: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    """Episodes that run when the run is interrupted are finished and saved; no other is begun."""
    begun = []

    def plays(session: Any, task: Any, tools: Any, *, trial: int, **_: Any) -> None:
        begun.append(trial)
        session.step("say", {})
        time.sleep(0.2)

    with pytest.raises(KeyboardInterrupt):
        Work(tmp_path, troubled, plays).play(jobs(50), 2, interrupted_after(2))

    records = list(load([tmp_path]))
    assert sorted(record["trial"] for record in records) == sorted(begun)
    assert all(record["reward"] == 1.0 for record in records)
    assert len(records) < 50
    assert "stopping: episodes that run have 7 s to finish; interrupt again to end at once" in caplog.text


@pytest.mark.parametrize("where", ["agent", "step"])
def test_an_interrupt_abandons_what_does_not_finish(
    tmp_path: Path, troubled: Fleet, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """An episode that is blocked, in its agent's code or in a step, leaves no record, and its container is free."""
    monkeypatch.setattr(crew, "FINISH_S", 0.3)
    monkeypatch.setattr(crew, "ABANDON_S", 0.5)
    blocked = threading.Event()

    def plays(session: Any, task: Any, tools: Any, *, trial: int, **_: Any) -> None:
        if trial == 0:
            return
        if where == "agent":
            blocked.wait(20)
        session.step("sleep", {"seconds": 3})

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        Work(tmp_path, troubled, plays).play(jobs(5), 2, interrupted_after(1))
    took_s = time.monotonic() - began
    blocked.set()

    assert took_s < 2.5
    assert [record["trial"] for record in load([tmp_path])] == [0]
    assert until(lambda: not any(container["held"] for container in troubled.stats()["urls"].values()))


def test_a_second_interrupt_ends_at_once(tmp_path: Path, troubled: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for any more, and the sessions are closed all the same."""

    def interrupted(threads: Any, timeout_s: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(crew, "_join", interrupted)
    blocked = threading.Event()

    def plays(session: Any, task: Any, tools: Any, **_: Any) -> None:
        session.step("say", {})
        blocked.wait(20)
        session.step("say", {})

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        Work(tmp_path, troubled, plays).play(jobs(2), 2, interrupted_after(0))
    took_s = time.monotonic() - began
    blocked.set()

    assert took_s < 2
    assert until(lambda: not any(container["held"] for container in troubled.stats()["urls"].values()))
    assert list(load([tmp_path])) == []
