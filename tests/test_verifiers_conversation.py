"""Messages of either major of verifiers in the record's form."""

from __future__ import annotations

from typing import Any

from miroir_verifiers.conversation import messages


class Model:
    """What a pydantic model is to a conversation."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def model_dump(self, *, exclude_none: bool) -> dict[str, Any]:
        """Its fields."""
        return {name: value for name, value in self.fields.items() if not (exclude_none and value is None)}


CALL = {"id": "c1", "type": "function", "function": {"name": "say", "arguments": {"text": "hi"}}}


def test_models_with_flat_calls() -> None:
    """As verifiers keeps them: calls become OpenAI's, answers get the name of their tool."""
    said = [
        Model(role="system", content="Be brief."),
        Model(role="user", content="Go."),
        Model(
            role="assistant",
            content=None,
            reasoning_content="Hm.",
            tool_calls=[Model(id="c1", type="function", name="say", arguments='{"text": "hi"}', namespace=None)],
        ),
        Model(role="tool", tool_call_id="c1", content="said"),
    ]
    assert messages(said) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": "", "reasoning_content": "Hm.", "tool_calls": [CALL]},
        {"role": "tool", "content": "said", "tool_call_id": "c1", "name": "say"},
    ]


def test_dicts_in_openais_form() -> None:
    """Are taken as well."""
    arguments = {"name": "say", "arguments": '{"text": "hi"}'}
    said = [{"role": "assistant", "content": "Hi.", "tool_calls": [{"id": "c1", "function": arguments}]}]
    assert messages(said) == [{"role": "assistant", "content": "Hi.", "tool_calls": [CALL]}]


def test_broken_arguments_stay_the_models_text() -> None:
    """And are marked."""
    said = [{"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "say", "arguments": "{"}]}]
    (call,) = messages(said)[0]["tool_calls"]
    assert (call["function"]["arguments"], call["arguments_error"]) == ("{", True)


def test_parts_of_content_become_text() -> None:
    """Of other kinds it is said that they are there; an answer to no call has no name."""
    said = [
        {"role": "user", "content": [{"type": "text", "text": "See"}, Model(type="image_url", image_url={})]},
        {"role": "tool", "tool_call_id": "c9", "content": "late"},
    ]
    assert messages(said) == [
        {"role": "user", "content": "See\n[image_url]"},
        {"role": "tool", "content": "late", "tool_call_id": "c9", "name": ""},
    ]
