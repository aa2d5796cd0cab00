"""The reward of a batch: graded at once, None for void, logged, and loud when nothing can be learnt."""

from __future__ import annotations

import pickle
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from processes import alarmed
from trlplay import QUICK, environment, free
from troubled import Closed, Troubled, served

from miroir.errors import InvalidArgument, MiroirError
from miroir.records import load
from miroir.serve import Grade, running
from miroir.session import Session
from miroir.trl import Spec
from miroir.trl.leases import state

PROMPT = [{"role": "user", "content": "Go."}]
DONE = [{"role": "assistant", "content": "Done."}]


class Harmful(Troubled):
    """Its grade takes a second, and finds harm."""

    def grade(self):
        time.sleep(1)
        return Grade(0.5, True, harms=[SimpleNamespace(name="mail", detail="sent to all")])


class Stuck(Troubled):
    """Its grades come when they are let."""

    going = threading.Event()

    def grade(self):
        self.going.wait(20)
        return Grade(1.0, True)


@pytest.fixture(scope="module")
def urls() -> Iterator[list[str]]:
    """Two troubled containers."""
    with served(Troubled, Troubled) as both:
        yield both


def rewarded(spec: Spec, envs: list[Any], **more: Any) -> list[float | None]:
    """The rewards of a batch, as GRPOTrainer asks for them."""
    count = len(envs)
    return spec.reward(
        prompts=[PROMPT] * count,
        completions=[DONE] * count,
        completion_ids=[[1]] * count,
        environments=envs,
        task_id=["plain"] * count,
        log_extra=None,
        **more,
    )


def test_void_is_none_and_the_rest_is_the_environments_word(urls: list[str], tmp_path: Path) -> None:
    """Rewards are in the order of the environments, and the metrics are means over those that were graded."""
    logged: dict[str, float] = {}
    with Spec(urls, tasks=["plain"], records=tmp_path) as spec:
        good, bad = (environment(spec, "plain") for _ in range(2))
        good.say()
        bad.boom()

        rewards = rewarded(
            spec, [good, bad], trainer_state=SimpleNamespace(global_step=7), log_metric=logged.__setitem__
        )

    assert rewards == [1.0, None]
    assert logged.pop("episode_s") > 0
    assert logged == {"void": 0.5, "success": 1.0, "harm": 0.0, "tool_calls": 1.0}
    records = list(load([tmp_path]))
    assert [record["training"] for record in records] == [{"step": 7, "rank": 0}] * 2
    assert [record["messages"] for record in records] == [PROMPT + DONE] * 2


def test_it_may_be_asked_twice(urls: list[str], tmp_path: Path) -> None:
    """The same rewards again, and no second record."""
    with Spec(urls, tasks=["plain"], records=tmp_path) as spec:
        envs = [environment(spec, "plain") for _ in range(2)]

        assert rewarded(spec, envs) == rewarded(spec, envs) == [0.0, 0.0]

    assert len(list(load([tmp_path]))) == 2


def test_sixteen_slow_grades_take_as_long_as_one() -> None:
    """Sixteen episodes, each of which takes a second to grade, are graded within two."""
    with running(Harmful, max_sessions=16) as url, Spec([url], tasks=["plain"]) as spec:
        envs = [environment(spec, "plain") for _ in range(16)]
        logged: dict[str, float] = {}
        began = time.monotonic()

        rewards = rewarded(spec, envs, log_metric=logged.__setitem__)

        assert time.monotonic() - began <= 2
        assert rewards == [0.5] * 16
        assert logged["harm"] == 1.0
        assert free([url])


def test_ctrl_c_waits_for_no_grade(tmp_path: Path) -> None:
    """It passes unchanged while grades are waited for, frees their containers and leaves no record of them."""
    with running(Stuck, max_sessions=2) as url, Spec([url], tasks=["plain"], records=tmp_path) as spec:
        envs = [environment(spec, "plain") for _ in range(2)]
        began = time.monotonic()
        try:
            with alarmed(0.5), pytest.raises(KeyboardInterrupt):
                rewarded(spec, envs)
            took = time.monotonic() - began
        finally:
            Stuck.going.set()

        assert took < 5
        assert free([url])
        assert rewarded(spec, envs) == [None, None]
    assert list(load([tmp_path])) == []


def test_only_its_own_environments_are_rewarded(urls: list[str]) -> None:
    """A run that mixes in other environments gets None for them."""
    with Spec(urls, tasks=["plain"]) as spec:
        assert rewarded(spec, [environment(spec, "plain"), object()]) == [0.0, None]


def test_the_environments_of_another_spec_are_its_own_to_reward(urls: list[str], tmp_path: Path) -> None:
    """Two fleets in one training: each reward has a word, a metric and a record of its own episodes alone."""
    logged: dict[str, float] = {}
    with Spec(urls, tasks=["plain"], records=tmp_path) as spec, Spec(urls, tasks=["plain"]) as other:
        envs = [environment(spec, "plain"), environment(other, "plain")]
        envs[1].say()

        assert rewarded(spec, envs, log_metric=logged.__setitem__) == [0.0, None]
        assert rewarded(other, envs) == [None, 1.0]

    assert (logged["void"], logged["success"]) == (0.0, 0.0)
    assert len(list(load([tmp_path]))) == 1


@pytest.mark.parametrize(
    "more", [{}, {"diagnostics": None, "timings": None, "steps": None}, {"diagnostics": {"steps": "2"}, "timings": {}}]
)
def test_a_record_that_says_little_is_a_grade(
    urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    """A server need not say how many steps there were, how long they took, and that nothing made it void."""
    metadata = {"task_hash": "hash-plain", "success": True, "harm": False, "ended_by": "submit"}
    record = {"schema": 1, "episode_id": "e", "task_id": "plain", "reward": 0.5, "metadata": metadata, **more}
    monkeypatch.setattr(Session, "finish", lambda session: {"record": record})
    logged: dict[str, float] = {}
    with Spec(urls, tasks=["plain"], records=tmp_path) as spec:
        assert rewarded(spec, [environment(spec, "plain")], log_metric=logged.__setitem__) == [0.5]

    assert logged == {"void": 0.0, "success": 1.0, "harm": 0.0}
    assert len(list(load([tmp_path]))) == 1


@pytest.mark.parametrize("rows", [1, 3])
def test_each_row_needs_its_environment(urls: list[str], rows: int) -> None:
    """A trainer would spread the one reward that there is over all rows."""
    with Spec(urls, tasks=["plain"]) as spec:
        envs = [environment(spec), environment(spec)]
        said = f"there are {rows} prompts, {rows} completions and 2 environments; pass one of each a row"
        with pytest.raises(InvalidArgument, match=said):
            spec.reward([PROMPT] * rows, [DONE] * rows, environments=envs)


def test_without_an_episode_nothing_is_void(urls: list[str]) -> None:
    """A batch that played nothing here is no sign of a fleet that fails."""
    logged: dict[str, float] = {}
    with Spec(urls, tasks=["plain"], void_batches=1) as spec:
        assert rewarded(spec, []) == []
        assert rewarded(spec, [object(), environment(spec)], log_metric=logged.__setitem__) == [None, None]

    assert logged == {}


def test_what_a_model_wrote_wrongly_is_recorded_as_its_text(urls: list[str], tmp_path: Path) -> None:
    """Arguments that no JSON object can hold end no training."""
    made = [{"a": float("nan")}, [1], "a", {"a": "\ud83d"}]
    calls = [{"type": "function", "function": {"name": "say", "arguments": one}} for one in made]
    with Spec(urls, tasks=["plain"], records=tmp_path) as spec:
        completion = [{"role": "assistant", "content": "", "tool_calls": calls}]
        assert spec.reward([PROMPT], [completion], environments=[environment(spec, "plain")]) == [0.0]

    [record] = load([tmp_path])
    kept = record["messages"][-1]["tool_calls"]
    assert [call["function"]["arguments"] for call in kept] == ['{"a": NaN}', "[1]", "a", {"a": "\ud83d"}]
    assert [call.get("arguments_error", False) for call in kept] == [True, True, True, False]


def test_a_trainer_without_environments_is_told_what_to_pass(urls: list[str]) -> None:
    """AsyncGRPOTrainer shows reward functions no environments."""
    with Spec(urls, tasks=["plain"]) as spec, pytest.raises(InvalidArgument, match="async_environment_factory"):
        spec.reward([PROMPT], [DONE])


def test_batches_that_are_void_entirely_raise() -> None:
    """After so many in a row, one error names the reason and the state of the fleet."""
    with served(Closed, Closed, Closed) as urls, Spec(urls, tasks=["plain"], void_batches=2, **QUICK) as spec:
        envs = [environment(spec, "plain") for _ in range(2)]
        assert rewarded(spec, envs) == [None, None]
        for env in envs:
            env.reset(task_id="plain")

        said = "the last 4 episodes of this process were all void, at last because of: "
        with pytest.raises(MiroirError, match=said) as caught:
            rewarded(spec, envs)

    assert caught.value.code == "ALL_VOID"
    assert "the disk is full" in caught.value.message
    assert "the fleet of 3: " in caught.value.message
    assert urls[0] in caught.value.message


def test_a_graded_episode_in_between_starts_the_count_anew(urls: list[str]) -> None:
    """Void batches count only in a row."""
    with Spec(urls, tasks=["plain"], void_batches=2) as spec:
        env = environment(spec)
        rewards = []
        for tool in ("boom", "say", "boom"):
            env.reset(task_id="plain")
            getattr(env, tool)()
            rewards += rewarded(spec, [env])

    assert rewards == [None, 1.0, None]


def test_a_fleets_state_in_words() -> None:
    """Containers are counted by state, and those that are unwell named."""
    nodes = {
        "http://a": {"state": "free", "reason": ""},
        "http://b": {"state": "free", "reason": ""},
        "http://c": {"state": "unhealthy", "reason": "connection refused"},
    }

    assert state({"urls": nodes}) == "the fleet of 3: 2 free, 1 unhealthy; http://c: connection refused"


def test_the_first_batch_says_what_is_lacking(urls: list[str]) -> None:
    """More rollouts than containers are warned of once, with the numbers, though nobody called check."""
    with Spec(urls, tasks=["plain"], **QUICK) as spec:
        envs = [environment(spec, "plain") for _ in range(3)]
        prompts = [PROMPT, PROMPT, [{"role": "user", "content": "Else."}]]
        with pytest.warns(UserWarning, match="plays 3 episodes at once, in groups of 2, on 2 containers"):
            spec.reward(prompts, [DONE] * 3, environments=envs)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            spec.reward(prompts, [DONE] * 3, environments=envs)


def test_a_fleet_that_cannot_be_read_just_now_ends_nothing(urls: list[str], tmp_path: Path) -> None:
    """A pool that starts anew empties the URL file for a while, and only `check` insists on counting containers."""
    file = tmp_path / "urls.txt"
    file.write_text("\n".join(urls))
    with Spec(file, tasks=["plain"]) as spec:
        env = environment(spec, "plain")
        file.write_text("")

        assert rewarded(spec, [env]) == [0.0]


def test_it_pickles_without_what_it_holds(urls: list[str]) -> None:
    """Its copy grades too, and is called the same in a trainer's logs."""
    with Spec(urls, tasks=["plain"]) as spec:
        copy = pickle.loads(pickle.dumps(spec.reward))

        assert copy.__name__ == "miroir"
        assert copy([PROMPT], [DONE], environments=[environment(spec, "plain")]) == [0.0]
