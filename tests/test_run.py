"""A run from its fleet to its report: what is listed, chosen, left out, done before, and refused."""

from __future__ import annotations

import json
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from modelserver import Reply, answer, serving
from troubled import Troubled, served

from miroir.agents import CallableAgent
from miroir.coworkers import CoworkerModel
from miroir.errors import (
    ConnectionFailed,
    EnvError,
    HttpError,
    InvalidArgument,
    MiroirError,
    RecordError,
    ToolsError,
    UrlFileError,
)
from miroir.records import load
from miroir.run import run
from miroir.run.jobs import numbered, read_tasks

PLAIN = ["plain", "short", "narrow"]


def says(session: Any, task: Any, tools: Any, **_: Any) -> None:
    """An agent that succeeds."""
    session.step("say", {})


def agent(play: Callable[..., Any] = says, **params: Any) -> CallableAgent:
    """The function as an agent."""
    return CallableAgent("tests:agent", play, params)


@pytest.fixture(scope="module")
def urls() -> Iterator[list[str]]:
    """Two troubled containers."""
    with served(Troubled, Troubled) as both:
        yield both


def played(folder: Path) -> list[tuple[str, int]]:
    """The graded rollouts of a folder."""
    return sorted((record["task_id"], record["trial"]) for record in load([folder]) if record["reward"] is not None)


def test_every_task_is_played_k_times(tmp_path: Path, urls: list[str]) -> None:
    """A run plays the chosen tasks of its split k times, and its report counts them by split."""
    report = run(urls, tmp_path, agent(), task_ids=PLAIN, k=3)

    assert played(tmp_path) == [(task_id, trial) for task_id in sorted(PLAIN) for trial in range(3)]
    assert (report.earlier, report.unfinished) == (0, 0)
    totals = report.splits["train"]
    assert (len(totals.tasks), totals.graded, totals.successes, totals.void) == (3, 9, 9, 0)
    assert report.stats["requests_num"] == 9


def test_several_splits_are_played(tmp_path: Path, urls: list[str]) -> None:
    """Splits are played together, each once, and records say which."""
    report = run(urls, tmp_path, agent(), splits=["train", "eval", "eval"], task_ids=["plain", "held-out"])

    assert {(record["task_id"], record["split"]) for record in load([tmp_path])} == {
        ("plain", "train"),
        ("held-out", "eval"),
    }
    assert sorted(report.splits) == ["eval", "train"]
    assert played(tmp_path) == [("held-out", 0), ("plain", 0)]


def test_each_rollout_has_a_seed_of_its_own(tmp_path: Path, urls: list[str]) -> None:
    """The seed depends on base seed, task and trial alone, and the world is sent none."""
    seeds: dict[tuple[str, int], set[int]] = {}

    def plays(session: Any, task: Any, tools: Any, *, trial: int, seed: int, **_: Any) -> None:
        seeds.setdefault((task["id"], trial), set()).add(seed)

    for number in range(2):
        run(urls, tmp_path / str(number), agent(plays), task_ids=PLAIN, k=2)

    assert all(len(drawn) == 1 for drawn in seeds.values())
    assert len({seed for drawn in seeds.values() for seed in drawn}) == 6


# What was done before


def test_a_second_run_plays_what_is_missing(tmp_path: Path, urls: list[str]) -> None:
    """The same command again plays only what has no graded record, and reports all of it."""
    run(urls, tmp_path, agent(), task_ids=PLAIN, k=1)
    report = run(urls, tmp_path, agent(), task_ids=PLAIN, k=2)
    third = run(urls, tmp_path, agent(), task_ids=PLAIN, k=2)

    assert played(tmp_path) == [(task_id, trial) for task_id in sorted(PLAIN) for trial in range(2)]
    assert (report.earlier, third.earlier) == (3, 6)
    assert report.splits["train"].graded == third.splits["train"].graded == 6


def test_a_void_rollout_is_played_again_by_the_next_run(tmp_path: Path, urls: list[str]) -> None:
    """A rollout that stayed void is tried again, its attempts counted on."""

    def breaks(session: Any, task: Any, tools: Any, **_: Any) -> None:
        session.step("boom", {})

    first = run(urls, tmp_path, agent(breaks), task_ids=["plain"], retries=1)
    second = run(urls, tmp_path, agent(), task_ids=["plain"], retries=1)

    assert (first.unfinished, second.unfinished, second.earlier) == (1, 0, 0)
    assert [(record["attempt"], record["reward"]) for record in load([tmp_path])] == [(0, None), (1, None), (2, 1.0)]
    assert (second.splits["train"].void, second.splits["train"].graded) == (2, 1)


@pytest.mark.parametrize(
    "other",
    [
        {"agent": agent(rate=0.5)},
        {"agent": CallableAgent("tests:other", says)},
        {"agent": CallableAgent("tests:agent", says, model="m")},
        {"surface": "mcp"},
        {"max_seconds": 60},
    ],
)
def test_another_runs_records_do_not_count(tmp_path: Path, urls: list[str], other: dict[str, Any]) -> None:
    """Records of another agent, model, parameters, surface or limit are another run's."""
    run(urls, tmp_path, agent(), task_ids=["plain"])
    how = {"agent": agent(), **other}

    report = run(urls, tmp_path, how.pop("agent"), task_ids=["plain"], **how)

    assert (report.earlier, report.splits["train"].graded) == (0, 1)
    assert played(tmp_path) == [("plain", 0)] * 2


def test_an_agent_that_tells_its_parameters_is_found_again(tmp_path: Path, urls: list[str]) -> None:
    """Parameters that an agent reports for itself do not make its records another agent's."""

    def plays(session: Any, task: Any, tools: Any, **_: Any) -> Any:
        return {"params": {"rate": 0.3}}

    run(urls, tmp_path, agent(plays), task_ids=["plain"])

    assert run(urls, tmp_path, agent(plays), task_ids=["plain"]).earlier == 1


def test_a_torn_last_line_is_played_again(tmp_path: Path, urls: list[str]) -> None:
    """What a killed process left half written does not count, and does not hinder."""
    run(urls, tmp_path / "whole", agent(), task_ids=["plain"])
    [path] = (tmp_path / "whole").glob("*.jsonl")
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "dead.jsonl").write_bytes(path.read_bytes()[:-40])

    run(urls, tmp_path / "torn", agent(), task_ids=["plain"])

    assert played(tmp_path / "torn") == [("plain", 0)]


def test_a_damaged_trace_file_stops_the_run_before_it_begins(tmp_path: Path, urls: list[str]) -> None:
    """Records that cannot be read might be of these rollouts; nothing is played on top of them."""
    (tmp_path / "damaged.jsonl").write_text("{\n{}\n")

    with pytest.raises(RecordError, match=r"damaged\.jsonl:1"):
        run(urls, tmp_path, agent(), task_ids=["plain"])


def test_other_files_in_the_folder_are_no_records(tmp_path: Path, urls: list[str]) -> None:
    """A list of tasks beside the traces does not hinder."""
    (tmp_path / "tasks.jsonl").write_text('{"id": "plain", "task_hash": "h"}\n')

    assert run(urls, tmp_path, agent(), task_ids=["plain"]).splits["train"].graded == 1


# Shards, files, numbers


def test_shards_share_the_work(tmp_path: Path, urls: list[str]) -> None:
    """The shards of a run play each rollout once between them, in one folder or several."""
    counts = [run(urls, tmp_path, agent(), task_ids=PLAIN, k=4, shard=(i, 3)).splits for i in range(3)]

    assert played(tmp_path) == [(task_id, trial) for task_id in sorted(PLAIN) for trial in range(4)]
    assert sum(splits["train"].graded for splits in counts if "train" in splits) == 12


def test_an_empty_shard_is_done(tmp_path: Path, urls: list[str]) -> None:
    """A shard without a rollout has nothing to do, and says so by an empty report."""
    reports = [run(urls, tmp_path, agent(), task_ids=["plain"], shard=(i, 2)) for i in range(2)]

    assert sorted(sum(t.graded for t in report.splits.values()) for report in reports) == [0, 1]


def test_tasks_of_a_file_are_played(tmp_path: Path, urls: list[str]) -> None:
    """Rows with reset options are played with them, and are found again by their own hash."""
    moods = []

    def plays(session: Any, task: Any, tools: Any, *, observation: Any, **_: Any) -> None:
        moods.append(observation["mood"])

    path = tmp_path / "tasks.jsonl"
    path.write_text('{"id": "plain", "reset": {"mood": "odd"}}\n{"id": "short"}\n')

    reports = [run(urls, tmp_path / "out", agent(plays), tasks=read_tasks(path)) for _ in range(2)]

    assert sorted(moods) == ["good", "odd"]
    assert [report.earlier for report in reports] == [0, 2]


def test_numbered_episodes_are_played(tmp_path: Path) -> None:
    """An environment that plays any id is played so many times."""

    class Any_(Troubled):
        def tasks(self, split):
            return [{"id": f"episode-{n}", "task_hash": str(n), "instruction": ""} for n in range(9)]

    with served(Any_) as urls:
        run(urls, tmp_path, agent(), tasks=numbered(3))

    assert [task_id for task_id, _ in played(tmp_path)] == ["episode-0", "episode-1", "episode-2"]


def test_a_calibration_chooses_among_the_tasks(tmp_path: Path, urls: list[str]) -> None:
    """`narrow` is given the listed tasks and says which are played."""
    given: list[str] = []

    def narrow(tasks: Any) -> Any:
        given.extend(task["id"] for task in tasks)
        return tasks[:1]

    run(urls, tmp_path, agent(), task_ids=PLAIN, narrow=narrow)

    assert given == PLAIN
    assert played(tmp_path) == [("plain", 0)]


# Coworkers


def test_tasks_whose_coworkers_need_a_model_are_left_out(tmp_path: Path, urls: list[str]) -> None:
    """Without a model, scripted coworkers are played, the other tasks left out with a warning that counts them."""

    def asks(session: Any, task: Any, tools: Any, **_: Any) -> Any:
        said = session.step("ask", {})["observation"]["result"]["content"][0]["text"]
        return {"messages": [{"role": "user", "content": said}]}

    with pytest.warns(UserWarning, match="2 of 3 tasks are left out: their coworkers need a model"):
        run(urls, tmp_path, agent(asks), task_ids=["ask", "scripted", "ask-first"])

    [record] = load([tmp_path])
    assert (record["task_id"], record["messages"][0]["content"]) == ("scripted", "Ann says 42")


def test_a_coworkers_model_plays_them_all(tmp_path: Path, urls: list[str]) -> None:
    """With a model every task with coworkers is played, and the model is asked after the step that needs it."""

    def asks(session: Any, task: Any, tools: Any, **_: Any) -> None:
        session.step("ask", {})

    with serving([Reply(answer("42"))]) as model, warnings.catch_warnings():
        warnings.simplefilter("error")
        report = run(
            urls,
            tmp_path,
            agent(asks),
            task_ids=["ask", "scripted", "ask-first"],
            coworker_model=CoworkerModel(model.base_url, "stub"),
        )

    assert report.splits["train"].graded == 3
    assert len(model.asked) == 4


# What is refused


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"k": 0}, InvalidArgument, "k and concurrency must be at least 1, retries at least 0"),
        ({"concurrency": 0}, InvalidArgument, "k and concurrency must be at least 1"),
        ({"retries": -1}, InvalidArgument, "retries at least 0"),
        ({"max_seconds": 0}, InvalidArgument, "an episode of 0 s is none; give it at least one second"),
        ({"shard": (2, 2)}, InvalidArgument, "the shard 2/2 is none; write i/n with i from 0 to n-1"),
        ({"shard": (0, 0)}, InvalidArgument, "the shard 0/0 is none"),
        ({"task_ids": ["no"]}, InvalidArgument, "there is no task 'no'; `miroir tasks` lists them"),
        ({"splits": ["no"]}, HttpError, "HTTP_400: .*no split 'no'.*train, eval"),
        ({"surface": "no"}, ToolsError, "does not list its tools: .*api, mcp"),
        ({"narrow": lambda tasks: []}, InvalidArgument, "there is no task to play; name another split"),
        ({"tasks": [{"id": "no", "task_hash": "h", "instruction": ""}]}, EnvError, "UNKNOWN_TASK: .*no task 'no'"),
    ],
)
def test_refuses_what_cannot_be_played(
    tmp_path: Path, urls: list[str], how: dict[str, Any], error: type[Exception], message: str
) -> None:
    """A wrong number, split, task, surface or choice is refused with what to do, and nothing is saved."""
    with pytest.raises(error) as caught:
        run(urls, tmp_path, agent(), **how)

    assert isinstance(caught.value, MiroirError)
    with pytest.raises(error, match=message):
        raise caught.value
    assert list(tmp_path.iterdir()) == []


def test_refuses_an_agent_that_cannot_play(tmp_path: Path) -> None:
    """A function or its name is no agent yet: what makes one of it is named before anything is asked."""
    play: Any
    for play, kind in ((print, "builtin_function_or_method"), ("module:play", "str")):
        with pytest.raises(InvalidArgument, match=rf"the agent is a {kind}; pass load_agent\('module:function'\)"):
            run(["http://127.0.0.1:9"], tmp_path / "traces", play)

    assert list(tmp_path.iterdir()) == []


def test_refuses_a_folder_that_cannot_be_written(tmp_path: Path, urls: list[str]) -> None:
    """The folder is tried before anything is played."""
    (tmp_path / "file").touch()

    with pytest.raises(RecordError, match=r"file/traces cannot hold records \(Not a directory\); name a folder"):
        run(urls, tmp_path / "file" / "traces", agent())


def test_refuses_a_fleet_that_is_not_there(tmp_path: Path) -> None:
    """With nothing alive for `wait_s` the run does not begin, and says which containers it asked."""
    began = time.monotonic()
    with pytest.raises(ConnectionFailed, match=r"none of 1 containers is alive \(http://127\.0\.0\.1:9: "):
        run(["http://127.0.0.1:9"], tmp_path, agent(), wait_s=0.5)

    assert time.monotonic() - began < 5


def test_refuses_a_url_file_with_junk(tmp_path: Path) -> None:
    """A line that is no base URL is named."""
    (tmp_path / "urls.txt").write_text("what is this\n")

    with pytest.raises(UrlFileError, match="line 1"):
        run(tmp_path / "urls.txt", tmp_path / "out", agent())


def test_refuses_a_wrong_token(tmp_path: Path) -> None:
    """A token that the fleet does not take is said at once, without showing it."""
    with served(Troubled, token="right") as urls, pytest.raises(HttpError) as caught:
        run(urls, tmp_path, agent(), token="wrong-secret")

    assert caught.value.code == "HTTP_401"
    assert "the token is not this server's; check it" in str(caught.value)
    assert "wrong-secret" not in str(caught.value)


def test_a_token_opens_the_fleet(tmp_path: Path) -> None:
    """With the fleet's token everything works, and no record holds it."""
    with served(Troubled, token="s3cret-token") as urls:
        run(urls, tmp_path, agent(), token="s3cret-token", task_ids=["plain"])

    [record] = load([tmp_path])
    assert record["reward"] == 1.0
    assert "s3cret-token" not in json.dumps(record)


def test_trials_are_played_on_all_containers(tmp_path: Path, urls: list[str]) -> None:
    """A run uses its whole fleet."""

    def plays(session: Any, task: Any, tools: Any, **_: Any) -> None:
        session.step("sleep", {"seconds": 0.02})

    run(urls, tmp_path, agent(plays), task_ids=["plain"], k=12, concurrency=4)

    assert set(Counter(record["container"] for record in load([tmp_path]))) == set(urls)
