"""Results of other tools as records: what is graded, what is void, who played, and the chat as the agent saw it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from miroir.calibrate import tally
from miroir.errors import InvalidArgument, RecordError
from miroir.records import KINDS, convert, required, save_record
from miroir.wire import RECORD_SCHEMA

RESULTS = Path(__file__).parent / "data" / "results"
FILES = {
    "verifiers": RESULTS / "verifiers" / "traces.jsonl",
    "verifiers v0": RESULTS / "verifiers_v0" / "results.jsonl",
    "tau-bench": RESULTS / "tau_bench" / "tool-calling-gpt-4o-0.0_range_0--1_user-gpt-4o-llm_0101120000.json",
    "tau2": RESULTS / "tau2" / "results.json",
    "inspect": RESULTS / "inspect" / "2026-03-01T09-00-00+00-00_addition_9eTnG3tV8jGRYoTPMH54Ee.json",
}
KEYS = ("schema", "episode_id", "task_id", "reward", "metadata.task_hash", "metadata.success", "metadata.harm")


def converted(name: str) -> list[dict[str, Any]]:
    return list(convert(name.split()[0], FILES[name]))


@pytest.mark.parametrize("name", FILES)
def test_what_is_converted_is_a_record(name: str, tmp_path: Path) -> None:
    """Every record has what the tools need, ids of its own, says who made it, and can be saved."""
    records = converted(name)
    for record in records:
        required(record, name, KEYS)
        save_record(tmp_path, record)
        assert record["schema"] == RECORD_SCHEMA
        assert record["made_by"] == name.split()[0]
        assert (record["reward"] is None) == (record["metadata"]["ended_by"] == "env_error")
    assert len({record["episode_id"] for record in records}) == len(records)


@pytest.mark.parametrize(
    ("name", "outcomes"),
    [
        ("verifiers", [1.0, 0.0, None, None]),
        ("verifiers v0", [1.0, 1.2, 0.0, None]),
        ("tau-bench", [1.0, 0.0, None, 0.0, 0.0]),
        ("tau2", [1.0, 0.0, 0.0, None]),
        ("inspect", [1.0, 0.0, 0.5, None]),
    ],
)
def test_rewards_are_the_tools_own_and_faults_are_void(name: str, outcomes: list[float | None]) -> None:
    """What the tool failed at is void with its reason, also where it wrote 0; a success has a reward of 1 or more."""
    records = converted(name)
    assert [record["reward"] for record in records] == outcomes
    assert [record["metadata"]["success"] for record in records] == [
        bool(reward and reward >= 1) for reward in outcomes
    ]
    assert all(bool(record["metadata"]["void_reason"]) == (record["reward"] is None) for record in records)


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("verifiers", ["ProviderError: 503 from upstream", "RuntimeError: no sandbox"]),
        ("verifiers v0", ["ModelError"]),
        ("tau-bench", ["litellm.APIError: overloaded"]),
        ("tau2", ["infrastructure_error"]),
        ("inspect", ["RateLimitError: too many requests"]),
    ],
)
def test_void_reasons_are_the_tools_own_words(name: str, reasons: list[str]) -> None:
    """The fault is named as the tool named it."""
    assert [record["metadata"]["void_reason"] for record in converted(name) if record["reward"] is None] == reasons


@pytest.mark.parametrize(
    ("name", "tasks", "agent", "trials"),
    [
        ("verifiers", ["add-2-2"] * 4, {"name": "solver", "model": "qwen3-4b"}, [0, 1, 2, 3]),
        ("verifiers v0", ["0", "1", "0", "1"], {"name": "verifiers", "model": "gpt-4.1-mini"}, [0, 0, 1, 1]),
        ("tau-bench", ["0", "1", "0", "1", "0"], {"name": "tool-calling", "model": "gpt-4o"}, [0, 0, 1, 1, 2]),
        (
            "tau2",
            ["mobile_data_issue"] * 2 + ["service_issue"] * 2,
            {"name": "llm_agent", "model": "gpt-4.1-mini"},
            [0, 1, 0, 1],
        ),
        (
            "inspect",
            ["addition/1", "addition/1", "addition/2", "addition/2"],
            {"name": "basic_agent", "model": "openai/gpt-4o"},
            [0, 1, 0, 1],
        ),
    ],
)
def test_tasks_agents_and_trials_are_told_apart(
    name: str, tasks: list[str], agent: dict[str, str], trials: list[int]
) -> None:
    """Each rollout has its task, its trial and the agent with its model."""
    records = converted(name)
    assert [record["task_id"] for record in records] == tasks
    assert records[0]["agent"] == agent
    assert [record["trial"] for record in records] == trials


@pytest.mark.parametrize("name", [name for name in FILES if name != "verifiers"])
def test_the_rollouts_of_a_task_have_one_hash(name: str) -> None:
    """Trials, and crashed runs that no longer hold their task, are of the same version."""
    tallies = tally(converted(name))
    assert all(len(one.rewards) + one.void > 1 for one in tallies.values())
    assert len({one.task_hash for one in tallies.values()}) == len(tallies)


@pytest.mark.parametrize("name", FILES)
def test_messages_are_in_chat_form(name: str) -> None:
    """Arguments are objects, results name their call, and each message is one that the agent saw."""
    messages = converted(name)[0]["messages"]
    (calls,) = [message["tool_calls"] for message in messages if message.get("tool_calls")]
    (call,) = calls
    assert call["type"] == "function"
    assert isinstance(call["function"]["arguments"], dict)
    assert [message["tool_call_id"] for message in messages if message["role"] == "tool"] == [call["id"]]
    assert converted(name)[0]["diagnostics"]["steps"] == 1


def test_arguments_that_are_no_json_stay_as_they_were() -> None:
    """The model's broken text is kept, and marked."""
    call = converted("tau-bench")[1]["messages"][2]["tool_calls"][0]
    assert call["function"]["arguments"] == '{"origin": "JFK"'
    assert call["arguments_error"] is True


def test_the_last_branch_of_a_trace_is_what_was_seen() -> None:
    """A dead end of the message graph is left out."""
    contents = [message.get("content") for message in converted("verifiers")[0]["messages"]]
    assert contents == ["Be brief.", "Add 2 and 2.", None, "4", "4"]


def test_what_the_simulated_user_did_alone_is_left_out() -> None:
    """tau2's user has tools of its own, which the agent never sees."""
    assert [message["role"] for message in converted("tau2")[0]["messages"]] == [
        "assistant",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]


@pytest.mark.parametrize(
    ("name", "started_at", "episode_s", "tokens"),
    [
        ("verifiers", "2026-01-01T00:00:00+00:00", 2.5, (120, 12)),
        ("verifiers v0", "2026-01-01T00:00:00+00:00", 3.5, (120, 12)),
        ("tau2", "2026-02-01T10:00:00.500000", 59.5, (2100, 30)),
        ("inspect", "2026-03-01T09:00:00+00:00", 4.25, (66, 12)),
    ],
)
def test_times_and_tokens_are_kept(name: str, started_at: str, episode_s: float, tokens: tuple[int, int]) -> None:
    """When it began, how many seconds it took, and what the agent's model read and wrote."""
    record = converted(name)[0]
    assert record["timings"] == {"started_at": started_at, "episode_s": episode_s}
    assert (record["usage"]["prompt_tokens"], record["usage"]["completion_tokens"]) == tokens


def test_simulations_in_a_folder_of_their_own_are_read() -> None:
    """tau2's folder form gives the same records."""
    assert list(convert("tau2", RESULTS / "tau2_folder" / "results.json")) == converted("tau2")[:2]


def test_old_timings_in_milliseconds_are_read(tmp_path: Path) -> None:
    """verifiers once wrote total_ms; a text completion is one message; there may be no metadata.json."""
    row = {
        "example_id": 3,
        "prompt": "Add 2 and 2:",
        "completion": " 4",
        "answer": "4",
        "reward": 1.0,
        "timing": {"generation_ms": 1000.0, "scoring_ms": 500.0, "total_ms": 1500.0},
    }
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps(row) + "\n")
    (record,) = convert("verifiers", path)
    assert record["timings"] == {"episode_s": 1.5}
    assert record["messages"] == [{"role": "user", "content": "Add 2 and 2:"}, {"role": "assistant", "content": " 4"}]
    assert record["agent"]["model"] is None


def inspect_log(tmp_path: Path, scores: Any) -> Path:
    log = json.loads(FILES["inspect"].read_text())
    log["samples"] = [{**log["samples"][0], "scores": scores}]
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    return path


@pytest.mark.parametrize(
    ("value", "reward"),
    [
        ("C", 1.0),
        ("P", 0.5),
        ("N", 0.0),
        ("I", 0.0),
        (True, 1.0),
        ("yes", 1.0),
        ("False", 0.0),
        ("0.25", 0.25),
        (3, 3.0),
    ],
)
def test_inspect_values_are_read_as_inspect_reads_them(tmp_path: Path, value: Any, reward: float) -> None:
    """Letters, words, numbers and truth values."""
    (record,) = convert("inspect", inspect_log(tmp_path, {"match": {"value": value}}))
    assert record["reward"] == reward


def test_an_unscored_sample_is_void(tmp_path: Path) -> None:
    """Inspect writes NaN for what a scorer could not score, and no scores where none ran."""
    (record,) = convert("inspect", inspect_log(tmp_path, {"match": {"value": float("nan")}}))
    assert record["reward"] is None
    assert record["metadata"]["void_reason"] == "the reward was nan, which is not a finite number"
    (record,) = convert("inspect", inspect_log(tmp_path, None))
    assert record["metadata"]["void_reason"] == "it was not scored"


def test_one_of_several_scores_must_be_chosen(tmp_path: Path) -> None:
    """Which of them is the reward is the user's word."""
    path = inspect_log(tmp_path, {"match": {"value": "C"}, "judge": {"value": 0.5}, "parts": {"value": {"a": 1}}})
    with pytest.raises(
        RecordError, match="sample 1 has several scores: match, judge, parts; choose one as inspect:NAME"
    ):
        list(convert("inspect", path))
    assert [record["reward"] for record in convert("inspect:judge", path)] == [0.5]
    with pytest.raises(RecordError, match="sample 1 has no score wit, only match, judge, parts; choose one of them"):
        list(convert("inspect:wit", path))
    with pytest.raises(RecordError, match=r"has the score {'a': 1}, which is no number; choose another"):
        list(convert("inspect:parts", path))


@pytest.mark.parametrize("kind", ["trl", "tau2:x", "inspect:", ""])
def test_an_unknown_kind_is_refused_at_once(kind: str) -> None:
    """The call itself names the kinds."""
    with pytest.raises(
        InvalidArgument, match=f"{kind!r} is no kind of results; give verifiers, tau-bench, tau2, inspect"
    ):
        convert(kind, "x.json")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("tau-bench", '[{"task_id": 1, "trial": 0, "reward": 1, "info": {"task": {}}, "traj": ["hello"]}]'),
        (
            "verifiers",
            '{"id": "e", "task": {"data": {}}, "traces": '
            '[{"agent": {}, "rewards": {"a": {"score": 1}}, "nodes": [], "timing": {"start": 1e300}}]}\n',
        ),
    ],
)
def test_values_that_cannot_be_what_they_stand_for_are_refused(kind: str, text: str, tmp_path: Path) -> None:
    """A message that is no object, a time that no calendar has: one line all the same."""
    path = tmp_path / "traces.jsonl"
    path.write_text(text)
    with pytest.raises(RecordError, match=rf"traces\.jsonl does not hold what {kind} writes \(\w+: .*\); name its"):
        list(convert(kind, path))


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_another_tool_is_refused(kind: str, tmp_path: Path) -> None:
    """One line that names the file and the kind."""
    path = tmp_path / "other.json"
    path.write_text('{"tasks": {"a": 1}, "eval": [], "traces": 3}\n')
    with pytest.raises(
        RecordError, match=rf"other\.json does not hold what {kind} writes \(\w+: .*\); name its results"
    ):
        list(convert(kind, path))


def test_unreadable_results_are_refused(tmp_path: Path) -> None:
    """A missing file, and one that is not JSON, such as Inspect's other format."""
    with pytest.raises(RecordError, match=r"none\.json cannot be read: No such file or directory; name a results file"):
        list(convert("tau2", tmp_path / "none.json"))
    (tmp_path / "log.eval").write_bytes(b"PK\x03\x04\x14\x00")
    with pytest.raises(RecordError, match=r"log\.eval is not JSON \(.*\); name a results file in JSON"):
        list(convert("inspect", tmp_path / "log.eval"))
