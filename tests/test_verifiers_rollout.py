"""A rollout's episode: graded once, void where it cannot be, and ended from outside whatever it waits for."""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from processes import until
from troubled import TASKS, Troubled, served

from miroir import catalog
from miroir.broker import shared
from miroir.deadlines import Deadlines
from miroir.errors import ConnectionFailed, EnvError, MiroirError
from miroir.fleet import Fleet
from miroir.records import load
from miroir_verifiers import offers
from miroir_verifiers.cancelling import waited
from miroir_verifiers.rollout import Rollout, Seat, Voided
from miroir_verifiers.settings import Settings, settings

STOPPED = "VOID: the rollout was stopped before its episode could be graded; give it more time, or run it again"
asleep, awake = threading.Event(), threading.Event()


class Sleeper(Troubled):
    """Troubled, whose sleeps end with the test."""

    def sleep(self, seconds):
        asleep.set()
        awake.wait(seconds)
        return "slept"


@pytest.fixture
def fleet() -> Iterator[list[str]]:
    """One container."""
    asleep.clear()
    awake.clear()
    with served(Sleeper) as urls:
        try:
            yield urls
        finally:
            awake.set()


def made(urls: list[str], task: str = "plain", **options: Any) -> Rollout:
    """A rollout of the task."""
    row = {"id": task, "task_hash": f"hash-{task}", "instruction": f"Do {task}.", **TASKS.get(task, {})}
    return Rollout(row, settings(urls=urls, **options))


def can_be_leased(urls: list[str]) -> bool:
    """Whether a container is free."""
    with Fleet(urls) as fleet, fleet.lease(timeout_s=5.0):
        return True


def aside(call: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    """A call in a thread of its own, and the error that it raises."""
    errors: list[BaseException] = []

    def work() -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, errors


def test_an_episode_is_graded_and_saved_once(fleet: list[str], tmp_path: Path) -> None:
    """The record says who played; what is told of it beside has its id, container, versions and checks."""
    rollout = made(fleet, traces=tmp_path)
    assert rollout.info == {"task_id": "plain", "task_hash": "hash-plain"}
    rollout.begin()
    assert (rollout.observation["hello"], rollout.done, rollout.submits) == ("there", False, True)
    assert rollout.step("say", {})["done"] is False
    record = rollout.conclude(
        Seat("verifiers/x", "m", {"temperature": 1.0}), {"messages": [], "usage": {}, "params": {}}
    )
    assert rollout.conclude() is record
    assert record["agent"] == {"name": "verifiers/x", "model": "m", "params": {"temperature": 1.0}}
    assert [saved["episode_id"] for saved in load([tmp_path])] == [record["episode_id"]]
    told = rollout.info
    assert (told["episode_id"], told["url"], told["success"]) == (record["episode_id"], fleet[0], True)
    assert told["versions"] == {"miroir": version("miroir"), "troubled": "3"}
    assert told["checks"] == [{"name": "said", "passed": True, "detail": "1 times"}]
    assert can_be_leased(fleet)


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ("bad-grade", "VOID: grading failed: RuntimeError: no grader today"),
        ("no-reward", "VOID: the environment gave no reward"),
    ],
)
def test_an_episode_without_a_grade_is_void(fleet: list[str], task: str, why: str, tmp_path: Path) -> None:
    """That is raised each time it is asked for; its record is saved."""
    rollout = made(fleet, task, traces=tmp_path)
    rollout.begin()
    for _ in range(2):
        with pytest.raises(Voided) as caught:
            rollout.conclude()
        assert str(caught.value).startswith(why)
    assert [saved["reward"] for saved in load([tmp_path])] == [None]
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_world_that_cannot_be_reset_is_void(tmp_path: Path) -> None:
    """Once it was tried on three containers; they are free again."""
    with served(*[Troubled] * 3) as urls:
        rollout = made(urls, "bad-reset", traces=tmp_path)
        with pytest.raises(Voided, match=r"^VOID: EXECUTION_ERROR: .*no world today"):
            rollout.begin()
        assert can_be_leased(urls)
    assert [saved["reward"] for saved in load([tmp_path])] == [None]


def test_an_unknown_task_is_no_episodes_fault(fleet: list[str]) -> None:
    """Its error is the environment's, and nothing is recorded."""
    rollout = made(fleet, "nobody")
    with pytest.raises(EnvError) as caught:
        rollout.begin()
    assert caught.value.code == "UNKNOWN_TASK"
    assert rollout.record is None


def test_a_call_that_breaks_the_world_ends_it(fleet: list[str]) -> None:
    """The model is told, and the episode is void."""
    rollout = made(fleet)
    rollout.begin()
    assert rollout.answer("boom", {}).startswith("EXECUTION_ERROR: ")
    with pytest.raises(Voided):
        rollout.conclude()


def test_a_lost_connection_is_the_rollouts_failure() -> None:
    """Whoever calls next is told; the episode is void."""
    with served(Troubled) as urls:
        rollout = made(urls)
        rollout.begin()
    with pytest.raises(MiroirError, match=r"^CONNECTION_LOST: "):
        rollout.answer("say", {})
    assert rollout.failure is not None
    with pytest.raises(Voided, match=r"^VOID: CONNECTION_LOST: "):
        rollout.conclude()


class TestEndingFromOutside:
    """From another thread."""

    def test_a_call_that_runs_is_woken(self, fleet: list[str]) -> None:
        """Within a second, though its tool takes a minute; its episode is void."""
        rollout = made(fleet)
        rollout.begin()
        thread, errors = aside(lambda: rollout.step("sleep", {"seconds": 60}))
        assert asleep.wait(10)
        began = time.monotonic()
        assert rollout.halt()
        rollout.close()
        thread.join()
        assert time.monotonic() - began < 1.0
        assert str(errors[0]).startswith("CONNECTION_LOST: ")
        with pytest.raises(Voided) as caught:
            rollout.conclude()
        assert str(caught.value) == (
            "VOID: STEP_TIMEOUT: the rollout was stopped while one of its calls ran; give it more time, or run it again"
        )

    def test_between_calls_the_episode_can_still_be_graded(self, fleet: list[str]) -> None:
        """But no further step is made."""
        rollout = made(fleet)
        rollout.begin()
        rollout.step("say", {})
        assert not rollout.halt()
        with pytest.raises(Voided) as caught:
            rollout.step("say", {})
        assert str(caught.value) == STOPPED
        assert rollout.conclude()["reward"] == 1.0

    def test_who_waits_for_a_container_is_woken(self, fleet: list[str]) -> None:
        """And gets none later."""
        first, second = made(fleet), made(fleet)
        first.begin()
        thread, errors = aside(second.begin)
        assert until(lambda: shared(fleet, None, Deadlines()).stats()["requests_waiting"] == 1)
        began = time.monotonic()
        second.close()
        thread.join()
        assert time.monotonic() - began < 1.0
        assert [str(error) for error in errors] == [STOPPED]
        with pytest.raises(Voided) as caught:
            second.conclude()
        assert str(caught.value) == STOPPED
        first.close()
        assert can_be_leased(fleet)

    def test_closed_before_it_began_it_never_begins(self, fleet: list[str]) -> None:
        """Closing again does nothing."""
        rollout = made(fleet)
        rollout.close()
        rollout.close()
        with pytest.raises(Voided) as caught:
            rollout.begin()
        assert str(caught.value) == STOPPED

    def test_waiting_that_is_cancelled_wakes_the_call(self, fleet: list[str]) -> None:
        """On an event loop, where nobody waits for the thread."""
        rollout = made(fleet)

        async def main() -> float:
            await waited(rollout, rollout.begin)
            step = asyncio.create_task(waited(rollout, lambda: rollout.step("sleep", {"seconds": 60})))
            assert await asyncio.to_thread(asleep.wait, 10)
            began = time.monotonic()
            step.cancel()
            with pytest.raises(asyncio.CancelledError):
                await step
            return time.monotonic() - began

        assert asyncio.run(main()) < 0.5
        awake.set()
        assert can_be_leased(fleet)


class TestOffers:
    """What is asked of a fleet."""

    def test_a_fleet_is_asked_once(self, fleet: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        """However many ask at the same time."""
        asked = []
        alive = catalog.first_alive

        def first_alive(urls: list[str], token: str | None, *, wait_s: float) -> str:
            asked.append(1)
            time.sleep(0.1)
            return alive(urls, token, wait_s=wait_s)

        monkeypatch.setattr(catalog, "first_alive", first_alive)
        given = settings(urls=fleet)
        threads = [threading.Thread(target=offers.offer, args=[given]) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(asked), offers.offer(given).env) == (1, {"name": "troubled", "version": "3"})

    def test_a_fleet_that_was_dead_is_asked_again(self, fleet: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        """By who comes later."""
        monkeypatch.setattr(offers, "WAIT_S", 0.1)
        given = settings(urls=["http://127.0.0.1:9"])
        with pytest.raises(ConnectionFailed, match="none of 1 containers is alive"):
            offers.offer(given)
        monkeypatch.setattr(Settings, "source", settings(urls=fleet).source)
        assert offers.offer(given).url == fleet[0]

    def test_tasks_that_can_be_played(self, fleet: list[str]) -> None:
        """Those whose coworkers nobody plays are left out; none at all is an error."""
        with pytest.warns(UserWarning, match="3 of 10 tasks are left out"):
            listed = offers.tasks(settings(urls=fleet))
        assert [task["id"] for task in listed][-1] == "scripted"
        told = offers.instructions(settings(urls=fleet), listed[0])
        assert told == "Do plain.\n\nYou have 50 tool calls. When you are done, call the tool `submit`."
