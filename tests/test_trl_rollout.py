"""Rollouts against real servers, played by hand through the factory: leases, failures, records."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakefleet import FakeFleet
from processes import until
from trlplay import QUICK, environment, free, held
from troubled import Closed, Troubled, served

from miroir.coworkers import CoworkerModel
from miroir.deadlines import Deadlines
from miroir.errors import EnvError, InvalidArgument, RecordError
from miroir.records import load
from miroir.trl import Spec, leases
from miroir.trl.messages import conversation
from miroir.trl.rollout import OVER, clipped

TASKS = ["plain", "short"]
Made = Callable[..., Spec]


@pytest.fixture(scope="module")
def urls() -> Iterator[list[str]]:
    """Two troubled containers."""
    with served(Troubled, Troubled) as both:
        yield both


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    """Makes Specs whose records go to tmp_path, and closes them."""
    specs: list[Spec] = []

    def make(urls: list[str], **options: Any) -> Spec:
        specs.append(Spec(urls, **{**QUICK, "tasks": TASKS, "records": tmp_path, **options}))
        return specs[-1]

    yield make
    for spec in specs:
        spec.close()


def records(folder: Path) -> list[dict[str, Any]]:
    """What was saved."""
    return list(load([folder]))


def graded(*environments: Any) -> list[float | None]:
    """Their rewards, by their own word."""
    found = [one._rollout.grade() for one in environments]
    return [record and record["reward"] for record in found]


def lose(folder: Path) -> None:
    """Have the folder hold no records any more."""
    folder.rmdir()
    folder.touch()


# Leases


def test_a_lease_lasts_from_the_reset_to_the_end(made: Made, urls: list[str]) -> None:
    """No container is held before the first reset, one from then on, none once the model has submitted."""
    env = environment(made(urls))
    assert free(urls)

    env.reset(task_id="plain")
    assert held(urls, 1)

    assert env.say(text="hello") == '{"said":"hello"}'
    env.submit()
    assert free(urls)


def test_a_call_after_the_end_has_a_fixed_answer(made: Made, urls: list[str]) -> None:
    """Once an episode is over, and before there is one, calls are answered without a request."""
    env = environment(made(urls))
    assert env.say() == OVER

    env.reset(task_id="short")
    env.say()
    env.refuse()

    assert env.say() == OVER
    assert graded(env) == [1.0]


def test_the_next_reset_grades_an_episode_that_was_left(made: Made, urls: list[str], tmp_path: Path) -> None:
    """Whoever resets without asking for the reward loses no record, and holds one container."""
    env = environment(made(urls), "plain")
    env.say()

    env.reset(task_id="short")

    assert [(record["task_id"], record["reward"]) for record in records(tmp_path)] == [("plain", 1.0)]
    assert held(urls, 1)
    assert graded(env) == [0.0]


def test_closing_frees_every_container(made: Made, urls: list[str], tmp_path: Path) -> None:
    """A running episode is let go without a record, one that is over is saved, and nothing is leased any more."""
    spec = made(urls)
    running, over = environment(spec, "plain"), environment(spec, "plain")
    over.submit()

    spec.close()

    assert free(urls)
    assert len(records(tmp_path)) == 1
    assert running.say() == OVER
    assert graded(running) == [None]
    with pytest.raises(InvalidArgument, match="this Spec is closed; make another for another training"):
        running.reset(task_id="plain")


def test_a_block_that_raises_frees_every_container(urls: list[str]) -> None:
    """The Spec is a context manager: an exception in the training leaves no lease."""
    with pytest.raises(LookupError), Spec(urls, tasks=TASKS) as spec:
        env = environment(spec, "plain")
        assert held(urls, 1)
        raise LookupError(repr(env))

    assert free(urls)


def test_ctrl_c_in_a_reset_frees_its_container(
    made: Made, urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It passes unchanged, also while a coworker's model is writing, and the environment has no episode."""
    spec = made(urls, tasks=["ask-first"], coworker_model=CoworkerModel("http://127.0.0.1:9/v1", "nobody"))
    env = environment(spec)

    def interrupted(*_: Any, **__: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("miroir.episode.answer_coworkers", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        env.reset(task_id="ask-first")

    assert caught.value
    assert free(urls)
    assert graded(env) == [None]
    assert records(tmp_path) == []


def test_closing_wakes_a_call_that_blocks(made: Made, urls: list[str], tmp_path: Path) -> None:
    """A tool that another thread waits for ends with the Spec, and its episode leaves no record."""
    spec = made(urls)
    env = environment(spec, "plain")
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(env.sleep(seconds=2)))
    thread.start()
    time.sleep(0.2)

    spec.close()
    thread.join(5)

    assert answers == [OVER]
    assert graded(env) == [None]
    assert records(tmp_path) == []
    assert free(urls)


def test_closing_ends_a_reset_that_waits(made: Made, urls: list[str], tmp_path: Path) -> None:
    """A reset that another thread waits in gets no container any more, and leaves none leased."""
    spec = made(urls, lease_s=30)
    others = [environment(spec, "plain") for _ in urls]
    late = environment(spec)
    thread = threading.Thread(target=late.reset, kwargs={"task_id": "plain"})
    thread.start()
    time.sleep(0.3)

    spec.close()
    thread.join(5)

    assert not thread.is_alive()
    assert graded(late, *others) == [None] * 3
    assert records(tmp_path) == []
    assert free(urls)


def test_an_environment_that_is_dropped_frees_its_container(made: Made, urls: list[str]) -> None:
    """Without a close, the last reference frees the container, with a warning."""
    env = environment(made(urls), "plain")

    with pytest.warns(ResourceWarning, match="was dropped without close"):
        del env

    assert free(urls)


SCRIPT = """
import os, sys, time
from miroir.trl import Spec
spec = Spec(sys.argv[2:], tasks=["plain"])
env = spec.environment_factory()
env.reset(task_id="plain")
print("held", flush=True)
if sys.argv[1] == "exit":
    sys.exit(3)
if sys.argv[1] == "raise":
    raise LookupError("no such drawer")
time.sleep(60)
"""


@pytest.mark.parametrize(("how", "code"), [("exit", 3), ("raise", 1), ("kill", -signal.SIGKILL)])
def test_a_process_that_ends_frees_its_containers(urls: list[str], how: str, code: int) -> None:
    """However it ends, without a word to the Spec."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", SCRIPT, how, *urls],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        if how == "kill":
            process.kill()
        _, said = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()

    assert process.returncode == code
    assert "Warning" not in said
    assert free(urls)


def test_a_forked_child_leaves_its_parents_episode_alone(made: Made, urls: list[str], tmp_path: Path) -> None:
    """There the environment has no episode, leases for itself after a reset, and frees that alone."""
    spec = made(urls)
    env = environment(spec, "plain")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
        pid = os.fork()
    if pid == 0:
        try:
            ok = env.say() == OVER and graded(env) == [None]
            env.reset(task_id="plain")
            ok = ok and held(urls, 2) and env.say() != OVER and graded(env) == [1.0]
            spec.close()
        finally:
            os._exit(0 if ok else 1)
    assert os.waitpid(pid, 0)[1] == 0

    assert held(urls, 1)
    env.say()
    assert graded(env) == [1.0]
    assert [record["reward"] for record in records(tmp_path)] == [1.0, 1.0]


# What becomes void


@pytest.mark.parametrize(
    ("task_id", "tool", "reason"),
    [
        ("plain", "boom", "a pipe burst"),
        ("bad-grade", "say", "no grader today"),
        ("no-reward", "say", "reward"),
        ("bad-reset", "say", "no world today"),
    ],
)
def test_the_environments_failure_is_none(
    made: Made, urls: list[str], tmp_path: Path, task_id: str, tool: str, reason: str
) -> None:
    """A world that cannot be made, fails in a call or cannot grade: None, and a void record that says why."""
    env = environment(made(urls, tasks=[task_id]), task_id)
    getattr(env, tool)()

    assert graded(env) == [None]
    [record] = records(tmp_path)
    assert record["reward"] is None
    assert reason in record["metadata"]["void_reason"]
    assert free(urls)


def test_a_late_answer_is_none(made: Made, urls: list[str]) -> None:
    """A call beyond its deadline makes the episode void, and the model is told no more than that it is over."""
    env = environment(made(urls, deadlines=Deadlines(step_s=0.2)), "plain")

    assert env.sleep(seconds=1) == OVER
    assert graded(env) == [None]


def test_a_dead_container_costs_one_rollout(made: Made, tmp_path: Path) -> None:
    """The rollout on a container that dies is None, though the model goes on; the next one plays elsewhere."""
    with served(Troubled) as [good]:
        with served(Troubled) as [bad]:
            spec = made([good, bad])
            envs = [environment(spec, "plain"), environment(spec, "plain")]
            for env in envs:
                env.say()
        for env in envs:
            env.where()

        assert sorted(graded(*envs), key=str) == [1.0, None]
        envs[0].reset(task_id="plain")
        envs[0].say()
        assert graded(envs[0]) == [1.0]
    assert sorted(record["metadata"]["ended_by"] for record in records(tmp_path)) == ["lost", "submit", "submit"]


def test_a_reset_that_fails_is_tried_on_other_containers(made: Made, tmp_path: Path) -> None:
    """One of three containers works, and is found every time."""
    with served(Closed, Closed, Troubled) as urls:
        spec = made(urls)
        for _ in range(3):
            env = environment(spec, "plain")
            env.say()
            assert graded(env) == [1.0]

    assert [record["reward"] for record in records(tmp_path)] == [1.0, 1.0, 1.0]


def test_a_reset_that_fails_everywhere_is_void(made: Made, tmp_path: Path) -> None:
    """Three containers that fail are enough; nothing is raised."""
    with served(Closed, Closed, Closed) as urls:
        env = environment(made(urls), "plain")

        assert (env.say(), graded(env)) == (OVER, [None])
    [record] = records(tmp_path)
    assert "the disk is full" in record["metadata"]["void_reason"]


def test_no_free_container_is_void_and_is_not_waited_for_twice(
    made: Made, urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one reset has waited in vain, the next gives up sooner; both are None, and say what the fleet was."""
    monkeypatch.setattr(leases, "BRIEF_S", 0.1)
    spec = made(urls, lease_s=1.5)
    others = [environment(spec, "plain") for _ in urls]
    began = time.monotonic()

    late = [environment(spec, "plain"), environment(spec, "plain")]

    assert time.monotonic() - began < 2.9
    assert graded(*late) == [None, None]
    assert all("2 leased" in record["metadata"]["void_reason"] for record in records(tmp_path))
    assert graded(*others) == [0.0, 0.0]


def test_a_fleet_that_is_gone_is_void(made: Made) -> None:
    """With nothing alive a reset waits its time and is None."""
    with served(Troubled) as urls:
        spec = made(urls)
    env = environment(spec, "plain")

    assert graded(env) == [None]


# What the caller got wrong


def test_a_row_without_task_id_is_an_error(made: Made, urls: list[str]) -> None:
    """A dataset that tells no task is refused at the first reset."""
    with pytest.raises(InvalidArgument, match=r"no column task_id; .* leave remove_unused_columns False"):
        environment(made(urls)).reset(prompt="x")


@pytest.mark.parametrize("task_id", ["elsewhere", 3])
def test_an_unknown_task_is_an_error(made: Made, urls: list[str], task_id: Any) -> None:
    """A row of another dataset is refused."""
    with pytest.raises(InvalidArgument, match="is among this environment's 3; name one"):
        environment(made(urls)).reset(task_id=task_id)


def test_a_reset_that_is_refused_leaves_no_old_episode(made: Made, urls: list[str], tmp_path: Path) -> None:
    """Its reward is not that of the episode before, which was graded and saved."""
    env = environment(made(urls), "plain")
    env.say()

    with pytest.raises(InvalidArgument):
        env.reset(task_id="elsewhere")

    assert graded(env) == [None]
    assert [record["reward"] for record in records(tmp_path)] == [1.0]


def test_an_option_that_the_environment_refuses_is_an_error(made: Made, urls: list[str]) -> None:
    """What no container will ever take is raised, and leaves no lease."""
    task = {"id": "plain", "task_hash": "h", "instruction": "", "reset": {"colour": "red"}}
    with pytest.raises(EnvError, match="colour"):
        environment(made(urls, tasks=[task]), "plain")

    assert free(urls)


# Records


def test_records_are_saved_once_with_what_the_trainer_knows(made: Made, urls: list[str], tmp_path: Path) -> None:
    """Asked for twice, a record is saved once; it names the policy, and holds what it was given."""
    env = environment(made(urls, model="tiny"), "plain")
    env.say()

    first = env._rollout.grade({"messages": [{"role": "user", "content": "Go."}]})
    second = env._rollout.grade({"messages": []})

    [record] = records(tmp_path)
    assert first is second
    assert record["messages"] == [{"role": "user", "content": "Go."}]
    assert record["agent"] == {"name": "trl", "model": "tiny", "params": {}}
    assert [tool["function"]["name"] for tool in record["tools"]][-1] == "submit"
    assert (record["trial"], record["task"]["id"]) == (0, "plain")


def test_trials_count_up_over_all_processes(
    made: Made, urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of two processes counts 1, 3, 5 for each task."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    env = environment(made(urls))
    for task_id in ("plain", "plain", "short"):
        env.reset(task_id=task_id)
        graded(env)

    assert [record["trial"] for record in records(tmp_path)] == [1, 3, 1]


def test_a_process_that_no_launcher_counts_is_the_only_one(
    made: Made, urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Launchers leave variables empty where there is nothing to say."""
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.setenv(name, "")

    assert graded(environment(made(urls), "plain")) == [0.0]
    assert [record["trial"] for record in records(tmp_path)] == [0]


def test_a_record_that_cannot_be_saved_is_an_error(made: Made, urls: list[str], tmp_path: Path) -> None:
    """A training whose records are lost is not worth going on."""
    env = environment(made(urls, records=tmp_path / "traces"), "plain")
    lose(tmp_path / "traces")

    with pytest.raises(RecordError, match="was not saved"):
        graded(env)


def test_closing_frees_every_container_though_records_are_lost(made: Made, urls: list[str], tmp_path: Path) -> None:
    """The error comes when all are free."""
    spec = made(urls, records=tmp_path / "traces")
    lose(tmp_path / "traces")
    over = [environment(spec, "plain") for _ in range(2)]
    for env in over:
        env.submit()
    running = [environment(spec, "plain") for _ in urls]
    assert held(urls, 2)

    with pytest.raises(RecordError, match="was not saved"):
        spec.close()

    assert free(urls)
    assert graded(*running) == [None, None]


# What the model is shown


def test_a_reset_adds_what_a_first_observation_tells(made: Made, urls: list[str]) -> None:
    """The row's prompt and the reset's text are, together, the prompt of the record."""
    spec = made(urls)
    env = environment(spec)
    row = spec._row(spec.tasks[0])

    text = env.reset(**row)

    [message] = row["prompt"]
    assert message["content"] == "Do plain.\n\nYou have 50 tool calls. When you are done, call the tool `submit`."
    assert text.startswith("\n\nToday is ")
    assert '"hello":"there"' in text
    assert env._rollout.grade()["prompt"] == message["content"] + text


def test_a_long_answer_is_cut_visibly(made: Made, urls: list[str]) -> None:
    """A tool's answer keeps to max_chars, and says how much was cut."""
    env = environment(made(urls, max_chars=20), "plain")

    assert env.say(text="x" * 100) == '{"said":"xxxxxxxxxxx\n[91 more characters were cut]'
    assert clipped("short", 5) == "short"
    assert graded(env) == [1.0]


class Cutting(Troubled):
    """It cuts its answers wherever they are too long."""

    def say(self):
        self.said += 1
        return "so glad \ud83d"


def test_half_a_character_is_replaced(made: Made, tmp_path: Path) -> None:
    """A tokenizer takes no lone surrogate, which servers make that cut their answers; the record keeps it."""
    task = {"id": "plain", "instruction": "Smile \ud83d.", "reset": {"mood": "\ude00"}}
    with served(Cutting) as urls:
        spec = made(urls, tasks=[task])
        env = environment(spec)
        texts = [spec._row(spec.tasks[0])["prompt"][0]["content"], env.reset(task_id="plain"), env.say()]

        assert graded(env) == [1.0]
    assert [text.count("?") for text in texts] == [1, 1, 1]
    assert all(text.isascii() for text in texts)
    assert "\ud83d" in records(tmp_path)[0]["prompt"]


def test_a_models_mistakes_are_answered(made: Made, urls: list[str]) -> None:
    """Unknown arguments, numbers that JSON lacks and refusals are texts for the model; the episode goes on."""
    env = environment(made(urls), "plain")

    assert env.refuse() == "execution_error: not today"
    assert env.say(text=float("nan")).startswith("invalid_args: nothing was called: ")
    env.say()
    assert graded(env) == [1.0]


def test_messages_are_told_as_records_hold_them() -> None:
    """Each tool call gets an id, in its order, and each answer names its own."""
    call = {"type": "function", "function": {"name": "say", "arguments": {}}}
    prompt = [{"role": "user", "content": "Go."}]
    completion = [
        {"role": "assistant", "content": "", "tool_calls": [call, call]},
        {"role": "tool", "name": "say", "content": "a"},
        {"role": "tool", "name": "say", "content": "b"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "say", "content": "c"},
        {"role": "assistant", "content": "Done."},
    ]

    told = conversation(prompt, completion)

    assert [[one["id"] for one in message.get("tool_calls", ())] for message in told] == [
        [],
        ["call_0", "call_1"],
        [],
        [],
        ["call_2"],
        [],
        [],
    ]
    assert [message["tool_call_id"] for message in told if message["role"] == "tool"] == ["call_0", "call_1", "call_2"]
    assert "id" not in call
    assert conversation("text", "text") == []


# Other servers


class OwnTools(Troubled):
    """Each of its tasks has a tool of its own."""

    def task_tools(self):
        return [{"name": "say", "description": "say", "inputSchema": {"type": "object"}}]


def test_tools_that_only_a_reset_tells_are_remarked_on(
    made: Made, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The model cannot be shown what is not listed; the log says so, once for each task."""
    with served(OwnTools) as urls:
        env = environment(made(urls))
        for _ in range(2):
            env.reset(task_id="plain")
            env.say()

        assert graded(env) == [1.0]
    assert caplog.messages == ["task plain has other tools than the model is shown, which the environment lists"]


ADD = {
    "name": "add",
    "description": "Add.",
    "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}},
}


def plainly(frame: dict[str, Any], tools: list[Any]) -> list[dict[str, Any]] | None:
    """What a plain OpenEnv server with these tools answers; the first call is the last."""
    data = frame.get("data") or {}
    answers = {
        "list_tools": {"observation": {"tools": tools}, "reward": None, "done": False},
        "call_tool": {"observation": {"result": "5"}, "reward": 0.75, "done": True},
        "reset": {"observation": {"seed": data.get("seed")}, "reward": None, "done": False},
    }
    kind = data.get("type") or frame["type"]
    return [{"type": "observation", "data": answers[kind]}] if kind in answers else None


def test_a_plain_server_is_trained_on_too(made: Made, tmp_path: Path) -> None:
    """Its tools are asked of a session that is given back at once; the reward is that of its last step."""
    with FakeFleet("plain") as fleet:
        fleet[0].reply = lambda frame: plainly(frame, [ADD])
        spec = made(fleet.urls, tasks=[{"id": "a", "reset": {"seed": 3}}])
        env = environment(spec)
        assert fleet.settled(0)

        assert env.reset(task_id="a").endswith('\n\n{"seed":3}')
        assert [env.add(a=2), env.add(a=2)] == ["5", OVER]
        assert graded(env) == [0.75]
        assert fleet.settled(0)
    assert [record["made_by"] for record in records(tmp_path)] == ["client"]


def test_a_plain_server_without_tools_is_refused(made: Made) -> None:
    """TRL plays by tool calls."""
    with FakeFleet("plain") as fleet:
        fleet[0].reply = lambda frame: plainly(frame, [])
        before = threading.active_count()
        with pytest.raises(InvalidArgument, match="lists no tools, and TRL plays by tool calls; serve one that has"):
            made(fleet.urls, tasks=[{"id": "a"}])
        assert until(lambda: threading.active_count() == before, 5.0)


@pytest.mark.parametrize("narrowed", [[], ["subtract"]])
def test_a_task_that_shows_no_tool_is_refused(made: Made, narrowed: list[str]) -> None:
    """A trainer would show the model nothing that it can call."""
    with FakeFleet("plain") as fleet:
        fleet[0].reply = lambda frame: plainly(frame, [ADD])
        with pytest.raises(InvalidArgument, match="task b shows none of the environment's tools, and TRL plays by"):
            made(fleet.urls, tasks=[{"id": "a"}, {"id": "b", "tools": narrowed}])
        assert fleet.settled(0)


def test_a_plain_servers_odd_tools_are_tools(made: Made) -> None:
    """A tool whose schema is none takes any arguments, and one whose description is none goes by its name."""
    odd = [
        {"name": "add", "description": {"en": "Add."}, "input_schema": "object"},
        {"name": "sub", "inputSchema": [1]},
    ]
    with FakeFleet("plain") as fleet:
        fleet[0].reply = lambda frame: plainly(frame, odd)
        env = environment(made(fleet.urls, tasks=[{"id": "a"}]), "a")

        assert env.add.__doc__.startswith("add\n")
        assert env.sub(a=2) == "5"
        assert graded(env) == [0.75]
