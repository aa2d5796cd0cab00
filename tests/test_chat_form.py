"""OpenAI's chat form: what a record keeps, what goes back to an endpoint, and results as text."""

from __future__ import annotations

from typing import Any

import pytest

from miroir.chat.form import arguments_of, chat_tools, finite_json, recorded, result_text, sent


def message(arguments: str, name: str = "move") -> dict[str, Any]:
    """An assistant message with one call, as an endpoint gives it."""
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def test_tools_take_the_chat_form() -> None:
    """Name, description and schema are MCP's; what is missing is empty, not null."""
    schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    tools = chat_tools(
        [
            {"name": "move", "description": "Move.", "inputSchema": schema},
            {"name": "look"},  # type: ignore[typeddict-item]
        ]
    )
    assert tools == [
        {"type": "function", "function": {"name": "move", "description": "Move.", "parameters": schema}},
        {
            "type": "function",
            "function": {"name": "look", "description": "", "parameters": {"type": "object", "properties": {}}},
        },
    ]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [('{\n    "to": "up"\n}', {"to": "up"}), ("{\n    }", {}), ("", {}), ("  ", {}), ('{"n": 1e3}', {"n": 1000.0})],
)
def test_a_record_holds_arguments_as_an_object(text: str, arguments: dict[str, Any]) -> None:
    """An endpoint that gives nothing for a call without arguments means none."""
    call = recorded(message(text))["tool_calls"][0]
    assert call == {"id": "c1", "type": "function", "function": {"name": "move", "arguments": arguments}}
    assert sent([recorded(message(text))], {"move"})[0]["tool_calls"][0]["function"]["arguments"] != text or not text


BROKEN = {
    '{"directi': "Unterminated string",
    '{"direction": "': "Unterminated string",
    "[1]": "not a JSON object",
    '"{}"': "not a JSON object",
    "null": "not a JSON object",
    '{"n": NaN}': "NaN is not JSON",
    '{"n": -Infinity}': "-Infinity is not JSON",
    '{"n": 1e999}': "1e999 is too large",
    '{"n": ' + "[" * 100_000: "nested too deeply",
    '{"n": ' + "9" * 5000 + "}": "Exceeds the limit",
    "move(up)": "Expecting value",
}


@pytest.mark.parametrize(("text", "why"), BROKEN.items(), ids=[text[:12] for text in BROKEN])
def test_broken_arguments_stay_the_models_text_in_a_record_and_never_go_back(text: str, why: str) -> None:
    """Servers fail on a history that holds them, so they take back an empty object."""
    kept = recorded(message(text))
    assert kept["tool_calls"] == [{**message(text)["tool_calls"][0], "arguments_error": True}]
    assert sent([kept], {"move"})[0]["tool_calls"] == message("{}")["tool_calls"]
    with pytest.raises(ValueError, match=why):
        arguments_of(text)


def test_what_goes_back_is_what_came() -> None:
    """Arguments go back as text, content is never null, reasoning stays in the record."""
    kept = recorded({**message('{"to": "up"}'), "reasoning_content": "hm"})
    result = {"role": "tool", "tool_call_id": "c1", "name": "move", "content": "ok"}
    assert kept["reasoning_content"] == "hm"
    assert sent([{"role": "user", "content": "go"}, kept, result], {"move"}) == [
        {"role": "user", "content": "go"},
        message('{"to": "up"}'),
        result,
    ]


@pytest.mark.parametrize(
    ("name", "back"),
    [("mail.send", "mail.send"), ("look:", "look_"), ("né x", "n__x"), ("", "unnamed"), ("a" * 99, "a" * 64)],
)
def test_a_name_that_was_not_offered_goes_back_as_one_that_passes(name: str, back: str) -> None:
    """An endpoint that checks names refuses the whole conversation for one that the model made up."""
    result = {"role": "tool", "tool_call_id": "c1", "name": name, "content": "tool_not_found"}
    call, answer = sent([recorded(message("{}", name)), result], {"mail.send"})
    assert call["tool_calls"][0]["function"]["name"] == answer["name"] == back
    assert recorded(message("{}", name))["tool_calls"][0]["function"]["name"] == name


def text_block(text: str) -> dict[str, Any]:
    """An MCP text block, as servers give it."""
    return {"type": "text", "text": text, "annotations": None, "meta": None}


OBSERVATIONS: dict[str, tuple[Any, str]] = {
    "text": ({"result": {"content": [text_block("3")], "structured_content": {"result": 3}}, "error": None}, "3"),
    "two blocks": ({"result": {"content": [text_block("a"), text_block("b")]}}, "a\nb"),
    "an image": ({"result": {"content": [text_block("see"), {"type": "image", "data": "aGk="}]}}, "see\n[image]"),
    "structured only": ({"result": {"content": [], "structured_content": {"é": [1, 2]}}}, '{"é":[1,2]}'),
    "camel case": ({"result": {"content": [], "structuredContent": {"a": 1}}}, '{"a":1}'),
    "nothing": ({"result": {"content": []}}, ""),
    "an empty text": ({"result": {"content": [text_block("")]}}, ""),
    "plain text": ({"result": "moved"}, "moved"),
    "a plain object": ({"result": {"x": 1}}, '{"x":1}'),
    "a number": ({"result": 3}, "3"),
    "null": ({"result": None}, "null"),
    "an error": (
        {"result": None, "error": {"error_type": "tool_not_found", "message": "Unknown tool: 'x'"}},
        "tool_not_found: Unknown tool: 'x'",
    ),
    "an error without a type": ({"error": {"message": "no"}}, "error: no"),
    "an error without a message": ({"error": {"error_type": "timeout"}}, 'timeout: {"error_type":"timeout"}'),
    "an error in text": ({"error": "no"}, "no"),
    "a plain server's own": ({"metadata": {}, "board": "x.o", "legal": [1, 2]}, '{"board":"x.o","legal":[1,2]}'),
}


@pytest.mark.parametrize(("observation", "text"), OBSERVATIONS.values(), ids=OBSERVATIONS.keys())
def test_an_observation_is_told_as_text(observation: dict[str, Any], text: str) -> None:
    """Errors first, then text blocks, then structured content, compactly."""
    assert result_text(observation) == text


def test_finite_json_is_any_value() -> None:
    """Numbers, text and objects alike."""
    assert [finite_json(text) for text in ("0.3", "7", "true", "null", '{"a": 1}')] == [0.3, 7, True, None, {"a": 1}]
