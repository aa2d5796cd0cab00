"""What a model saw and wrote, made whole; or the reason why it is not."""

from __future__ import annotations

from typing import Any

import pytest
from derive_records import LOOK, SUBMIT, TOOLS, answered, called, record, talk

from miroir.derive.conversation import Unfit, conversation
from miroir.derive.toolset import Toolset

TOOLSET = Toolset(TOOLS)
PROMPT = {"role": "user", "content": "Who owns it?"}


def spoken(*messages: dict[str, Any], **options: bool) -> Any:
    """The conversation of a record with these messages."""
    return conversation(record(messages=[PROMPT, *messages]), TOOLSET, **options)


def test_it_ends_with_the_assistants_last_message() -> None:
    """Results after the last message of the assistant are kept, but do not train."""
    made = spoken(*answered(called(LOOK)), *answered(called(SUBMIT), "The episode is over."))

    assert [message["role"] for message in made.trained] == ["user", "assistant", "tool", "assistant"]
    assert [message["role"] for message in made.messages][-1] == "tool"
    assert made.opening == 1


def test_keys_have_one_order_and_strays_are_gone() -> None:
    """Messages hold what chat templates read, in one order, whatever a client added."""
    message = {"refusal": None, **called(LOOK, ids=["a"]), "index": 3, "content": None}
    result = {"content": "found", "name": "wrong", "tool_call_id": "a", "role": "tool", "status": 200}

    made = spoken(message, result, {"role": "assistant", "content": "Done."})

    assert list(made.messages[1]) == ["role", "content", "tool_calls"]
    assert made.messages[1]["content"] == ""
    assert made.messages[2] == {"role": "tool", "tool_call_id": "a", "name": "look", "content": "found"}


def test_thoughts_are_kept_or_left_out() -> None:
    """What a model thought stays unless it is not wanted."""
    message = {"role": "assistant", "content": "Done.", "reasoning_content": "hm"}

    assert spoken(message).messages[1]["reasoning_content"] == "hm"
    assert "reasoning_content" not in spoken(message, reasoning=False).messages[1]


def test_ids_used_twice_are_replaced() -> None:
    """A model that names every call alike gets ids of our own, and results follow their calls."""
    first = answered(called(LOOK, ids=["0"]), "one")
    second = answered(called(LOOK, LOOK, ids=["0", "0"]), "two", "three")

    made = spoken(*first, *second, {"role": "assistant", "content": "Done."})

    ids = [call["id"] for message in made.messages for call in message.get("tool_calls", ())]
    results = {m["tool_call_id"]: m["content"] for m in made.messages if m["role"] == "tool"}
    assert ids == ["call_0", "call_1", "call_2"]
    assert results == {"call_0": "one", "call_1": "two", "call_2": "three"}


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([called(LOOK), {"role": "assistant", "content": "Done."}], "a tool call without its result"),
        ([called(LOOK)], "a tool call without its result"),
        ([{"role": "tool", "tool_call_id": "x", "content": ""}], "a tool result without its call"),
        ([*answered(called(LOOK, ids=["a"])), {"role": "tool", "tool_call_id": "a"}], "a tool result without its call"),
        ([{"role": "user", "content": "Hello?"}], "no message of the assistant"),
        ([{"role": "assistant", "content": [{"type": "text", "text": "Done."}]}], "content that is not text"),
        ([{"role": "critic", "content": "no"}], "a message of the unknown role 'critic'"),
        (answered(called(("fly", {}))), "a call of a tool that is not in the list"),
        (answered(called(("look", {}))), "arguments that break the tool's schema"),
        (answered(called(("look", {"query": 3}))), "arguments that break the tool's schema"),
        ([{"role": "assistant", "tool_calls": [{"id": "a"}]}], "messages in no known form"),
        ([{"role": "assistant", "tool_calls": {"id": "a"}}], "messages in no known form"),
        (["hello"], "messages in no known form"),
    ],
)
def test_what_is_not_whole_is_refused(messages: list[Any], reason: str) -> None:
    """Orphans, unknown tools, invalid arguments and strange messages each have a reason of their own."""
    with pytest.raises(Unfit, match=reason.replace("(", r"\(")):
        spoken(*messages)


def test_arguments_that_are_no_object_are_refused() -> None:
    """Arguments that the model wrote as broken JSON never become training data, allowed or not."""
    message = called(LOOK)
    message["tool_calls"][0]["function"]["arguments"] = '{"query": '
    message["tool_calls"][0]["arguments_error"] = True

    with pytest.raises(Unfit, match="arguments that are no JSON object"):
        spoken(*answered(message), invalid_calls=True)


def test_invalid_calls_can_be_kept_and_are_known() -> None:
    """Where calls that are not valid are allowed, their messages are marked."""
    made = spoken(*answered(called(("fly", {}))), *answered(called(LOOK)), invalid_calls=True)

    assert made.invalid == {1}


def test_a_conversation_needs_a_prompt() -> None:
    """A conversation that begins with the assistant has nothing that it answers."""
    with pytest.raises(Unfit, match="no prompt before the assistant's first message"):
        conversation(record(messages=[{"role": "assistant", "content": "Hello"}]), TOOLSET)


def test_steps_become_the_messages_that_a_model_would_have_had() -> None:
    """A program's episode reads like a model's: the prompt, then one call and one result for each step."""
    of_program = record(messages=..., calls=(LOOK, SUBMIT))
    of_program["steps"][0]["result"] = {"items": [1, 2]}

    made = conversation(of_program, TOOLSET)

    assert made.by_program
    assert made.messages[0] == {"role": "user", "content": of_program["prompt"]}
    assert [message["role"] for message in made.messages] == ["user", "assistant", "tool", "assistant", "tool"]
    assert list(made.calls()) == [LOOK, SUBMIT]
    assert made.messages[2]["content"] == '{"items":[1,2]}'
    assert not conversation(record(), TOOLSET).by_program


def test_a_steps_error_is_what_the_model_would_have_read() -> None:
    """A step's error becomes the text that a model is shown for it."""
    of_program = record(messages=...)
    of_program["steps"][0].update(result=None, error={"error_type": "not_found", "message": "no such owner"})

    assert conversation(of_program, TOOLSET).messages[2]["content"] == "not_found: no such owner"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"steps": [{"action": {"turn": 1}, "result": None, "error": None}]}, "raw actions"),
        ({"steps": []}, "no message of the assistant"),
        ({"prompt": None, "task": {}}, "no prompt to make them from"),
        ({"steps": ["look"]}, "messages in no known form"),
    ],
)
def test_steps_that_are_no_conversation(changes: dict[str, Any], reason: str) -> None:
    """Raw actions, no steps and no prompt each have a reason."""
    with pytest.raises(Unfit, match=reason):
        conversation(record(messages=..., **changes), TOOLSET)


def test_failed_calls_are_found_in_the_steps() -> None:
    """A call whose step had an error is known by its id; one that was never made is passed over."""
    calls = (LOOK, ("look", {"query": "it"}), SUBMIT)
    played = record(calls=calls)
    played["steps"][1]["error"] = {"error_type": "not_found", "message": "no"}
    made = conversation(played, TOOLSET)

    failed = {made.messages[3]["tool_calls"][0]["id"]}
    assert made.failed == failed
    del played["steps"][0]
    assert conversation(played, TOOLSET).failed == failed
    assert conversation({**played, "steps": []}, TOOLSET).failed == set()


def test_failed_calls_are_found_by_names_that_only_the_model_was_shown() -> None:
    """A step that goes by the environment's names of arguments is that of the call with the same values."""
    played = record(messages=talk(LOOK, LOOK, SUBMIT), calls=(("look", {"search-for": "owner"}), LOOK, SUBMIT))
    played["steps"][1]["error"] = {"error_type": "not_found", "message": "no"}
    made = conversation(played, TOOLSET)

    assert made.failed == {made.messages[3]["tool_calls"][0]["id"]}


@pytest.mark.parametrize("schemas", [{"look": {"properties": {"query": {"maxLength": 3}}}}, {"look": False}])
def test_calls_are_held_to_the_environments_own_schema_too(schemas: dict[str, Any]) -> None:
    """Where a record has it, because the model was shown less of it."""
    with pytest.raises(Unfit, match="arguments that break the tool's schema"):
        conversation(record(input_schemas=schemas), TOOLSET)


@pytest.mark.parametrize("schemas", [{"look": {}, "fly": False}, {"look": None}, [], None])
def test_schemas_that_say_nothing_of_a_call(schemas: Any) -> None:
    """Those of other tools, and what is none."""
    assert conversation(record(input_schemas=schemas), TOOLSET).messages


def test_the_messages_of_the_record_are_left_alone() -> None:
    """Making a conversation whole changes nothing in the record."""
    played = record(messages=talk(LOOK, SUBMIT))
    before = repr(played)

    conversation(played, TOOLSET)

    assert repr(played) == before
