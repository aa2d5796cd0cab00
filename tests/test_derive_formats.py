"""What each format's rows look like."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from derive_records import LOOK, SUBMIT, TOOLS, answered, called, derived, left_out, record, talk

from miroir.derive import FORMATS, record_from_atif
from miroir.errors import RecordError

USER = {"role": "user", "content": "Who owns it?"}
DONE = {"role": "assistant", "content": "Done."}
FUNCTIONS = [tool["function"] for tool in TOOLS]


def one(folder: Path, format_name: str, **options: Any) -> dict[str, Any]:
    """The one row that a record gives."""
    _, (row,) = derived(folder, [record()], format_name, **options)
    return row


def test_sft_rows_hold_objects_and_tools_as_text(tmp_path: Path) -> None:
    """Arguments are objects, tools are JSON text, and the row says where it comes from."""
    row = one(tmp_path, "sft")

    assert list(row) == ["messages", "tools", "task_id", "episode_id"]
    assert json.loads(row["tools"]) == TOOLS
    assert row["messages"][1]["tool_calls"][0]["function"] == {"name": "look", "arguments": {"query": "owner"}}
    assert [message["role"] for message in row["messages"]] == ["user", "assistant", "tool", "assistant"]


def test_sft_rows_rebuild_the_episodes_calls(tmp_path: Path) -> None:
    """From the rows come the same tools and arguments, in the same order, as the episode's steps hold."""
    made = [
        record(f"task-{number}", calls=(*[("look", {"query": str(n)}) for n in range(number)], SUBMIT))
        for number in range(4)
    ]

    _, rows = derived(tmp_path, made, "sft")

    rebuilt = [
        [call["function"] for message in row["messages"] for call in message.get("tool_calls", ())] for row in rows
    ]
    assert rebuilt == [
        [{"name": step["tool"], "arguments": step["arguments"]} for step in each["steps"]] for each in made
    ]


def test_prompt_completion_splits_at_the_first_answer(tmp_path: Path) -> None:
    """The prompt is what the model was told before it spoke."""
    row = one(tmp_path, "prompt-completion")

    assert list(row) == ["prompt", "completion", "tools", "task_id", "episode_id"]
    assert [message["role"] for message in row["prompt"]] == ["user"]
    assert [message["role"] for message in row["completion"]] == ["assistant", "tool", "assistant"]


def test_turns_are_a_row_for_each_answer(tmp_path: Path) -> None:
    """Each message of the assistant is the completion of all that came before."""
    _, rows = derived(tmp_path, [record()], "turns")

    assert [len(row["prompt"]) for row in rows] == [1, 3]
    assert [row["completion"][0]["tool_calls"][0]["function"]["name"] for row in rows] == ["look", "submit"]
    assert [row["turn"] for row in rows] == [0, 1]


def test_turns_leave_out_what_is_masked(tmp_path: Path) -> None:
    """A message whose calls all failed is no row, but stays in what later rows are told."""
    failed = record()
    failed["steps"][0]["error"] = {"error_type": "not_found", "message": "no"}

    _, (row,) = derived(tmp_path, [failed], "turns", mask_errors=True)

    assert (row["turn"], len(row["prompt"])) == (1, 3)


def test_kto_labels_success(tmp_path: Path) -> None:
    """The label says whether the episode succeeded without harm; failures are rows too."""
    good, bad = record(), record(success=False, calls=(SUBMIT,))
    harmful = record(harm=True, calls=(LOOK, LOOK, SUBMIT))

    _, rows = derived(tmp_path, [good, bad, harmful], "kto", allow_harm=True)

    assert [row["label"] for row in rows] == [True, False, False]


def test_prompts_are_one_for_each_task(tmp_path: Path) -> None:
    """A task gives one prompt, whether it was solved or not."""
    records = [record("a"), record("a", trial=1), record("b", success=False)]

    _, rows = derived(tmp_path, records, "prompts")

    assert [row["task_id"] for row in rows] == ["a", "b"]
    assert rows[0] == {"prompt": [records[0]["messages"][0]], "task_id": "a", "task_hash": "hash of a"}


def test_openai_rows_hold_arguments_as_text(tmp_path: Path) -> None:
    """Arguments are JSON text, each of the assistant's messages has a weight, results have no name."""
    row = one(tmp_path, "openai")

    assert list(row) == ["messages", "tools", "parallel_tool_calls"]
    assert row["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"query":"owner"}'
    assert [message.get("weight") for message in row["messages"]] == [None, 1, None, 1]
    assert list(row["messages"][2]) == ["role", "tool_call_id", "content"]
    assert row["parallel_tool_calls"] is False


def test_openai_rows_mask_invalid_and_failed_calls(tmp_path: Path) -> None:
    """Calls that are not valid, where allowed, and calls that failed, where asked, have a weight of 0."""
    spoiled = record(calls=(("fly", {}), LOOK, SUBMIT))
    spoiled["steps"][1]["error"] = {"error_type": "not_found", "message": "no"}

    _, (row,) = derived(tmp_path, [spoiled], "openai", allow_invalid_calls=True, mask_errors=True)

    assert [m["weight"] for m in row["messages"] if m["role"] == "assistant"] == [0, 0, 1]


def test_openai_rows_without_tools_have_no_tools(tmp_path: Path) -> None:
    """An empty list of tools, which OpenAI refuses, is left out."""
    _, (row,) = derived(tmp_path, [record(messages=[USER, DONE], tools=[])], "openai")

    assert row == {"messages": [USER, {**DONE, "weight": 1}]}


def test_openai_refuses_names_that_it_does_not_take(tmp_path: Path) -> None:
    """A tool's name with a dot leaves the record out, and says so."""
    tools = [*TOOLS, {"type": "function", "function": {"name": "app.look", "description": "", "parameters": {}}}]

    report, _ = derived(tmp_path, [record(), record("b", tools=tools)], "openai")

    assert left_out(report) == {"a tool whose name OpenAI does not take": 1}


def test_sharegpt_alternates(tmp_path: Path) -> None:
    """System and tools stand apart; calls and results take the places of answers and questions."""
    messages = [{"role": "system", "content": "Be brief."}, *talk(LOOK, SUBMIT)]

    _, (row,) = derived(tmp_path, [record(messages=messages)], "sharegpt")

    assert list(row) == ["conversations", "system", "tools"]
    assert row["system"] == "Be brief."
    assert json.loads(row["tools"]) == FUNCTIONS
    assert [turn["from"] for turn in row["conversations"]] == ["human", "function_call", "observation", "function_call"]
    assert json.loads(row["conversations"][1]["value"]) == {"name": "look", "arguments": {"query": "owner"}}


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([USER, *answered(called(LOOK, LOOK)), DONE], "several calls in one message"),
        ([USER, *answered(called(LOOK, content="I look.")), DONE], "text beside a call"),
        ([USER, *answered(called(LOOK)), USER, DONE], "messages that do not alternate"),
        ([USER, DONE, DONE], "messages that do not alternate"),
        ([USER, DONE, {"role": "system", "content": "x"}, DONE], "a system message that is not the first"),
    ],
)
def test_sharegpt_refuses_what_cannot_alternate(tmp_path: Path, messages: list[Any], reason: str) -> None:
    """Nothing is dropped silently to make an episode fit: it is left out and counted."""
    report, rows = derived(tmp_path, [record(), record("b", messages=messages)], "sharegpt")

    assert (len(rows), left_out(report)) == (1, {reason: 1})


def test_anthropic_blocks(tmp_path: Path) -> None:
    """Text and calls are blocks, results come first in the user's next message, errors are marked."""
    messages = [
        {"role": "system", "content": "Be brief."},
        USER,
        *answered(called(LOOK, ("look", {"query": "it"}), content="I look."), "nobody", "Ann"),
        {"role": "user", "content": "Go on."},
        DONE,
    ]
    played = record(messages=messages, calls=(LOOK, ("look", {"query": "it"})))
    played["steps"][0]["error"] = {"error_type": "not_found", "message": "nobody"}

    _, (row,) = derived(tmp_path, [played], "anthropic")

    ids = [call["id"] for call in messages[2]["tool_calls"]]
    assert row["system"] == "Be brief."
    assert row["tools"][0] == {
        "name": "look",
        "description": "Look for something",
        "input_schema": FUNCTIONS[0]["parameters"],
    }
    assert row["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Who owns it?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": ids[0], "name": "look", "input": {"query": "owner"}},
                {"type": "tool_use", "id": ids[1], "name": "look", "input": {"query": "it"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": ids[0], "content": "nobody", "is_error": True},
                {"type": "tool_result", "tool_use_id": ids[1], "content": "Ann", "is_error": False},
                {"type": "text", "text": "Go on."},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
    ]


def test_anthropic_takes_only_its_own_ids_and_names(tmp_path: Path) -> None:
    """Ids with other characters are replaced, tools with such names leave the record out."""
    odd = record(messages=[USER, *answered(called(LOOK, ids=["call:1"])), *answered(called(SUBMIT, ids=["call.2"]))])
    named = record("b", tools=[*TOOLS, {"function": {"name": "a b"}}])

    report, (row,) = derived(tmp_path, [odd, named], "anthropic")

    blocks = [block for message in row["messages"] for block in message["content"]]
    assert [block.get("id") or block.get("tool_use_id") for block in blocks] == [None, "toolu_0", "toolu_0", "toolu_1"]
    assert left_out(report) == {"a tool whose name Anthropic does not take": 1}


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([USER, DONE, {"role": "system", "content": "x"}, DONE], "a system message that is not the first"),
        ([{"role": "system", "content": "x"}, DONE], "a conversation that does not begin with the user"),
        ([USER, {"role": "assistant", "content": " "}], "a message without text or call"),
    ],
)
def test_anthropic_refuses_what_it_has_no_form_for(tmp_path: Path, messages: list[Any], reason: str) -> None:
    """What Anthropic's messages cannot say is left out and counted."""
    report, rows = derived(tmp_path, [record(), record("b", messages=messages)], "anthropic")

    assert (len(rows), left_out(report)) == (1, {reason: 1})


def test_hub_writes_a_session_for_each_episode(tmp_path: Path) -> None:
    """A folder holds a file for each episode: a header, then every message, the last results too."""
    from derive_records import rows, saved

    from miroir.derive import derive

    records = [record(), record("b", episode_id="../odd id")]
    derive([saved(tmp_path, records)], "hub", tmp_path / "sessions")

    assert sorted(file.name for file in (tmp_path / "sessions").iterdir()) == [
        ".._odd_id.jsonl",
        f"{records[0]['episode_id']}.jsonl",
    ]
    header, *messages = rows(tmp_path / "sessions" / f"{records[0]['episode_id']}.jsonl")
    assert header == {"type": "session", "harness": "miroir", "id": records[0]["episode_id"], "name": "task-1"}
    assert [line["message"]["role"] for line in messages] == ["user", "assistant", "tool", "assistant", "tool"]


def test_rewards_are_flat(tmp_path: Path) -> None:
    """Every graded record is a line of numbers, duplicates and failures too."""
    _, rows = derived(tmp_path, [record(), record(), record("b", success=False, usage={"prompt_tokens": 7})], "rewards")

    assert [(row["task_id"], row["reward"], row["success"], row["steps"], row["prompt_tokens"]) for row in rows] == [
        ("b", 0.0, False, 2, 7),
        ("task-1", 1.0, True, 2, None),
        ("task-1", 1.0, True, 2, None),
    ]


def test_every_row_has_the_columns_of_its_format(tmp_path: Path) -> None:
    """Rows have the same keys in the same order, which are those that the format declares."""
    records = [record(), record("b", calls=(SUBMIT,)), record(success=False, calls=(LOOK, LOOK))]
    for name, format_ in FORMATS.items():
        if format_.file_each or name == "atif":
            continue
        _, rows = derived(tmp_path, records, name)
        assert rows
        assert {tuple(row) for row in rows} == {tuple(format_.columns)}, name


def atif_rows(folder: Path, *records: dict[str, Any]) -> list[dict[str, Any]]:
    """The trajectories of the records."""
    return derived(folder, records, "atif")[1]


def test_atif_says_all_that_was_said(tmp_path: Path) -> None:
    """Each message is a step, results stand with their calls, usage and the record's own facts are kept."""
    played = record(usage={"prompt_tokens": 9, "completion_tokens": 4}, container="http://10.0.0.1:8000")
    (row,) = atif_rows(tmp_path, played)

    assert row["schema_version"] == "ATIF-v1.8"
    assert [step["source"] for step in row["steps"]] == ["user", "agent", "agent"]
    assert [step["step_id"] for step in row["steps"]] == [1, 2, 3]
    call = played["messages"][1]["tool_calls"][0]["id"]
    assert row["steps"][1]["tool_calls"] == [
        {"tool_call_id": call, "function_name": "look", "arguments": {"query": "owner"}}
    ]
    assert row["steps"][1]["observation"] == {"results": [{"source_call_id": call, "content": "result 0"}]}
    assert row["final_metrics"] == {"total_prompt_tokens": 9, "total_completion_tokens": 4, "total_steps": 3}
    assert row["extra"]["miroir"]["metadata"] == played["metadata"]
    assert "10.0.0.1" not in json.dumps(row)


def test_atif_marks_what_no_model_said(tmp_path: Path) -> None:
    """The steps of a program's episode say that no model was called for them."""
    (row,) = atif_rows(tmp_path, record(messages=...))

    assert [step.get("llm_call_count") for step in row["steps"]] == [None, 0, 0]


@pytest.mark.parametrize("messages", [..., talk(LOOK, SUBMIT), [{"role": "system", "content": "x"}, USER, DONE]])
def test_atif_comes_back_as_it_went(tmp_path: Path, messages: Any) -> None:
    """From trajectory to record to trajectory nothing changes."""
    (row,) = atif_rows(tmp_path, record(messages=messages))

    (again,) = atif_rows(tmp_path, record_from_atif(row))

    assert again == row


def test_a_foreign_trajectory_comes_back_as_it_went(tmp_path: Path) -> None:
    """What a record has no place for (notes, metrics, timestamps, extras) survives the way there and back."""
    foreign = {
        "schema_version": "ATIF-v1.6",
        "session_id": "s1",
        "agent": {"name": "terminus", "version": "2", "tool_definitions": TOOLS, "extra": {"parser": "json"}},
        "steps": [
            {"step_id": 1, "source": "user", "message": "Who owns it?", "timestamp": "2026-01-31T10:00:00Z"},
            {
                "step_id": 2,
                "source": "agent",
                "message": "",
                "reasoning_content": "hm",
                "tool_calls": [
                    {"tool_call_id": "a", "function_name": "look", "arguments": {"query": "x"}, "extra": {"retry": 1}}
                ],
                "observation": {"results": [{"source_call_id": "a", "content": "Ann"}]},
                "metrics": {"prompt_tokens": 10},
            },
        ],
        "notes": "a note",
        "extra": {"job": 7},
    }
    imported = record_from_atif(foreign)
    assert imported["reward"] is None
    graded = {**imported, "reward": 1.0, "split": "train"}
    graded["metadata"] = {**imported["metadata"], "success": True}

    (again,) = atif_rows(tmp_path, graded)

    assert again == foreign


@pytest.mark.parametrize(
    ("trajectory", "message"),
    [
        ({"steps": []}, "not a trajectory in ATIF"),
        ({"schema_version": "ATIF-v2.0", "steps": [{}]}, "its schema_version is 'ATIF-v2.0'"),
        (
            {
                "schema_version": "ATIF-v1.8",
                "steps": [{"step_id": 1, "source": "user", "message": [{"type": "image"}]}],
            },
            "step 1 of the trajectory is not text",
        ),
        (
            {
                "schema_version": "ATIF-v1.8",
                "steps": [
                    {"step_id": 1, "source": "agent", "message": "", "observation": {"results": [{"content": "x"}]}}
                ],
            },
            "a result that is no call's text",
        ),
    ],
)
def test_what_is_no_trajectory_of_text_is_refused(trajectory: dict[str, Any], message: str) -> None:
    """Foreign versions, pictures and results without calls are refused, not flattened."""
    with pytest.raises(RecordError, match=message):
        record_from_atif(trajectory)
