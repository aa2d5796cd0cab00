"""Episodes played by the workers of an executor: sent by pickle, leased there, saved here, none twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playing import breaks, raises, says
from troubled import Troubled, served

from miroir.agents import CallableAgent
from miroir.errors import InvalidArgument, MiroirError, ModelError
from miroir.records import load
from miroir.run import run, workers
from miroir.serve import running

HERE = Path(__file__).parent
PLAIN = ["plain", "short", "narrow"]
SCRIPT = """
import json, multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
from miroir.agents import load_agent
from miroir.run import run

if __name__ == "__main__":
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(sys.argv[3])) as executor:
        report = run(json.loads(sys.argv[1]), sys.argv[2], load_agent("playing:says"), token_env="FLEET_TOKEN",
                     task_ids=["plain", "short", "narrow"], k=3, executor=executor)
    print(json.dumps(report.as_json()["splits"]["train"]["graded"]))
"""


class Clientele:
    """An agent with a model whose endpoint is dead."""

    name, model, params, base_seed = "clientele", "m", {}, 0

    def __init__(self) -> None:
        self.client = type(self).Client()

    class Client:
        """Never answered."""

        answered = False

    def play(self, *_: Any, **__: Any) -> None:
        """Fail as an endpoint does."""
        raise ModelError("nobody is there", retryable=True)


class Scripted(Executor):
    """An executor that does what a function says, in the calling thread."""

    def __init__(self, does: Callable[..., Any]) -> None:
        self._does = does
        self.sent: list[tuple[Any, ...]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call it, or the function in its place."""
        future: Future[Any] = Future()
        self.sent.append(args)
        try:
            future.set_result(self._does(fn, *args))
        except BaseException as error:
            future.set_exception(error)
        return future


@pytest.fixture(autouse=True)
def _fleets() -> Iterator[None]:
    """The fleets that this process holds as a worker are closed after each test."""
    yield
    for fleet in workers._fleets.values():
        fleet.close()
    workers._fleets.clear()


@pytest.fixture
def urls() -> Iterator[list[str]]:
    """Two troubled containers."""
    with served(Troubled, Troubled) as both:
        yield both


def rollouts(folder: Path) -> Counter[tuple[str, int, bool]]:
    """The records of a folder: task, trial, and whether they are graded."""
    return Counter((record["task_id"], record["trial"], record["reward"] is not None) for record in load([folder]))


def agent(play: Callable[..., Any] = says) -> CallableAgent:
    """The function as an agent."""
    return CallableAgent("tests:agent", play)


def test_workers_play_and_the_run_saves(tmp_path: Path, urls: list[str]) -> None:
    """Each rollout has one record, in the run's own folder, and the report counts them."""
    with ThreadPoolExecutor(4) as executor:
        report = run(urls, tmp_path, agent(), task_ids=PLAIN, k=4, executor=executor)

    assert rollouts(tmp_path) == {(task, trial, True): 1 for task in PLAIN for trial in range(4)}
    assert (report.unfinished, report.splits["train"].graded, report.splits["train"].successes) == (0, 12, 12)
    assert {record["agent"]["name"] for record in load([tmp_path])} == {"tests:agent"}


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_play_and_read_the_token_themselves(tmp_path: Path, method: str) -> None:
    """What is sent holds the name of the variable; the token is read where the episode is played."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with running(Troubled, token="S3CRET") as url:
        environment = {**os.environ, "FLEET_TOKEN": "S3CRET", "PYTHONPATH": str(HERE)}
        argv = [sys.executable, str(script), json.dumps([url]), str(tmp_path / "out"), method]
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)

    assert (done.stdout, done.returncode) == ("9\n", 0), done.stderr
    assert rollouts(tmp_path / "out") == {(task, trial, True): 1 for task in PLAIN for trial in range(3)}


def test_no_token_is_sent(tmp_path: Path, urls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A token by value is refused with an executor; the pickle of an errand holds only the name of the variable."""
    monkeypatch.setenv("FLEET_TOKEN", "S3CRET")
    executor = Scripted(lambda fn, *args: fn(*args))
    with pytest.raises(InvalidArgument, match="the token travels to no worker; put it into a variable"):
        run(urls, tmp_path, agent(), token="S3CRET", executor=executor)
    run(urls, tmp_path, agent(), token_env="FLEET_TOKEN", task_ids=["plain"], executor=executor)

    ((errand, _, _),) = executor.sent
    assert errand.token_env == "FLEET_TOKEN"
    assert b"S3CRET" not in workers.pickle.dumps(errand)


def test_a_url_file_is_found_from_anywhere(tmp_path: Path, urls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers stand in other directories."""
    (tmp_path / "urls.txt").write_text("\n".join(urls))
    monkeypatch.chdir(tmp_path)
    executor = Scripted(lambda fn, *args: fn(*args))
    run(Path("urls.txt"), tmp_path / "out", agent(), task_ids=["plain"], executor=executor)

    assert executor.sent[0][0].urls == tmp_path / "urls.txt"


def test_two_submissions_are_never_the_same(tmp_path: Path, urls: list[str]) -> None:
    """An executor that remembers results, as Dask does, gives no earlier one again."""
    executor = Scripted(lambda fn, *args: fn(*args))
    for number in range(2):
        run(urls, tmp_path / str(number), agent(), task_ids=["plain"], executor=executor)

    assert executor.sent[0][:2] == executor.sent[1][:2]
    assert executor.sent[0][2] != executor.sent[1][2]


def test_an_agent_that_does_not_pickle_is_refused(tmp_path: Path, urls: list[str]) -> None:
    """Before anything is played."""
    with ThreadPoolExecutor(1) as executor:
        with pytest.raises(InvalidArgument, match=r"cannot be sent to workers .*; pass an agent that pickles"):
            run(urls, tmp_path, agent(lambda *_, **__: None), task_ids=["plain"], executor=executor)

    assert not list(load([tmp_path]))


def test_void_episodes_are_played_again_by_workers(tmp_path: Path, urls: list[str]) -> None:
    """As they are without an executor, attempts counted on."""
    with ThreadPoolExecutor(2) as executor:
        report = run(urls, tmp_path, agent(breaks), task_ids=["plain"], retries=2, executor=executor)

    assert [(record["attempt"], record["reward"]) for record in load([tmp_path])] == [(0, None), (1, None), (2, None)]
    assert report.unfinished == 1


def test_an_agent_that_raises_is_shown(tmp_path: Path, urls: list[str], caplog: pytest.LogCaptureFixture) -> None:
    """Its traceback crosses as text: its error need not be known here."""
    with ThreadPoolExecutor(1) as executor:
        run(urls, tmp_path, agent(raises), task_ids=["plain"], executor=executor)

    assert "LookupError: no such drawer" in caplog.text
    (record,) = load([tmp_path])
    assert record["metadata"]["ended_by"] == "agent_error"


def test_a_worker_that_is_lost_costs_its_episode_a_try(tmp_path: Path, urls: list[str]) -> None:
    """A void record says so, and the episode is played again."""
    lost = iter([True, False])

    def does(fn: Callable[..., Any], *args: Any) -> Any:
        if next(lost):
            raise OSError("the host rebooted")
        return fn(*args)

    report = run(urls, tmp_path, agent(), task_ids=["plain"], executor=Scripted(does))

    first, second = load([tmp_path])
    assert first["metadata"]["ended_by"] == "lost"
    assert first["metadata"]["void_reason"].endswith("the worker was lost that played it: OSError: the host rebooted")
    assert (first["attempt"], second["attempt"], second["reward"]) == (0, 1, 1.0)
    assert report.unfinished == 0


def test_a_broken_executor_ends_the_run(tmp_path: Path, urls: list[str]) -> None:
    """No worker of it will ever play again."""

    def does(*_: Any) -> None:
        raise BrokenExecutor("a child was killed")

    with pytest.raises(MiroirError, match=r"the executor is broken \(a child was killed\); make another"):
        run(urls, tmp_path, agent(), task_ids=["plain"], executor=Scripted(does))


def test_an_endpoint_that_never_answered_ends_the_run(tmp_path: Path, urls: list[str]) -> None:
    """As it does without an executor; one that has answered any worker does not."""
    with pytest.raises(ModelError, match="nobody is there"):
        run(urls, tmp_path, Clientele(), task_ids=["plain"], executor=Scripted(lambda fn, *args: fn(*args)))

    played = Clientele()
    played.client.answered = True
    report = run(urls, tmp_path, played, task_ids=["plain"], retries=0, executor=Scripted(lambda fn, *a: fn(*a)))
    assert report.unfinished == 1


def test_an_interrupt_gives_up_what_workers_still_play(
    tmp_path: Path, urls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has not begun is cancelled, what runs is not waited for, and nothing more is saved."""
    monkeypatch.setattr("miroir.run.crew.FINISH_S", 0.3)
    begun, release, futures = threading.Event(), threading.Event(), []

    class Slow(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            futures.append(super().submit(self._hold, fn, *args))
            return futures[-1]

        def _hold(self, fn: Any, *args: Any) -> Any:
            begun.set()
            release.wait(30)
            return fn(*args)

    def interrupt(progress: Any) -> None:
        begun.wait(10)
        raise KeyboardInterrupt

    with Slow(1) as executor:
        with pytest.raises(KeyboardInterrupt):
            run(urls, tmp_path, agent(), task_ids=PLAIN, executor=executor, progress=interrupt)
        release.set()

    assert sum(future.cancelled() for future in futures) == len(futures) - 1
    assert not list(load([tmp_path]))
