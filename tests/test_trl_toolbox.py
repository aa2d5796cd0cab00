"""What records say of the tools: what the model was shown of them, where a trainer can have shown them."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcptools import STRING, tool
from trlplay import environment
from troubled import Troubled, served

from miroir import tools
from miroir.chat.form import chat_tools
from miroir.derive.conversation import Unfit, conversation
from miroir.derive.toolset import Toolsets
from miroir.records import load
from miroir.trl import Spec

BROKEN = "arguments that break the tool's schema"
PROMPT = [{"role": "user", "content": "Go."}]


class Sending(Troubled):
    """One of its tools has an argument that no signature can hold."""

    def tools(self, surface):
        return [
            tool("send", "Send.", {"from": STRING, "to": {"type": ["string", "null"]}}, ("from",)),
            tool("say", "Say.", {"text": {**STRING, "maxLength": 9}}, additionalProperties=False),
        ]

    def call(self, tool, arguments):
        self.said += 1
        return "sent"


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A stand-in for transformers, which a trainer has loaded: the names of the tools that it described."""
    names: list[str] = []

    def get_json_schema(method: Callable[..., Any]) -> dict[str, Any]:
        names.append(method.__name__)
        if method.__name__ == "boom":
            raise LookupError("no words")
        return shown(method.__name__, list(inspect.get_annotations(method)))

    module = types.ModuleType("transformers.utils")
    module.get_json_schema = get_json_schema  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers.utils", module)
    return names


def shown(name: str, arguments: list[str]) -> dict[str, Any]:
    """How the stand-in describes a tool."""
    parameters = {"type": "object", "properties": {one: {"description": "shown"} for one in arguments}}
    return {"type": "function", "function": {"name": name, "description": "shown", "parameters": parameters}}


@pytest.fixture(scope="module")
def urls() -> Iterator[list[str]]:
    """A troubled container."""
    with served(Troubled) as one:
        yield one


@pytest.fixture(scope="module")
def sending() -> Iterator[list[str]]:
    """A container whose tools' arguments go by other names."""
    with served(Sending) as one:
        yield one


def said(name: str, **arguments: Any) -> list[dict[str, Any]]:
    """A call, its answer and the last words, as a trainer has them."""
    call = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": name, "content": "sent"},
        {"role": "assistant", "content": "Done."},
    ]


def played(spec: Spec, *completions: list[dict[str, Any]], name: str = "tools-1", task_id: str = "plain") -> None:
    """Play the completions, and ask for their rewards."""
    for completion in completions:
        env = environment(spec, task_id, name=name)
        for call in (call for message in completion for call in message.get("tool_calls", ())):
            getattr(env, call["function"]["name"])(**call["function"]["arguments"])
        spec.reward([PROMPT], [completion], environments=[env])


def names(record: dict[str, Any]) -> list[str]:
    """Of the tools that the record shows."""
    return [one["function"]["name"] for one in record["tools"]]


def test_without_a_trainer_they_are_the_environments_own(urls: list[str], tmp_path: Path) -> None:
    """Where transformers is not loaded, nobody was shown anything else."""
    with Spec(urls, tasks=["plain"], records=tmp_path) as spec:
        played(spec, said("say", text="a"))

    [record] = load([tmp_path])
    assert record["tools"] == chat_tools(tools(urls[0]))
    assert "input_schemas" not in record


def test_they_are_what_the_model_was_shown(urls: list[str], tmp_path: Path, described: list[str]) -> None:
    """As transformers describes each method, in the environment's order; what was called keeps its own schema too."""
    with Spec(urls, tasks=["plain"], records=tmp_path) as spec:
        played(spec, said("say", text="a"))

    [record] = load([tmp_path])
    listed = tools(urls[0])
    own = {one["name"]: one["inputSchema"] for one in listed}
    assert record["tools"] == [
        chat_tools([one])[0] if one["name"] == "boom" else shown(one["name"], []) for one in listed
    ]
    assert record["input_schemas"] == {name: own[name] for name in ("say", "submit")}
    assert described == [one["name"] for one in listed]


def test_they_are_described_once(urls: list[str], tmp_path: Path, described: list[str]) -> None:
    """However many rollouts there are, of however many environments."""
    with Spec(urls, tasks=["short"], records=tmp_path, eval_split=None) as spec:
        played(spec, *[said("say")] * 3, task_id="short")

    assert len(list(load([tmp_path]))) == 3
    assert len(described) == len(set(described))


def test_a_trainer_may_come_late(sending: list[str], tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """An episode that was played by hand before does not decide what later records say."""
    with Spec(sending, tasks=["plain"], records=tmp_path) as spec:
        played(spec, said("say"))
        request.getfixturevalue("described")
        played(spec, said("say"))

    first, second = load([tmp_path])
    assert first["tools"] != second["tools"]
    assert second["tools"][0] == shown("send", ["from_", "to"])


def test_each_factory_has_its_own(urls: list[str], tmp_path: Path, described: list[str]) -> None:
    """Where tasks narrow their tools, a record has those of its task."""
    with Spec(urls, tasks=["plain", "narrow"], records=tmp_path) as spec:
        played(spec, said("say"))
        played(spec, said("say"), name="tools-2", task_id="narrow")

    first, second = load([tmp_path])
    assert (len(names(first)), names(second)) == (7, ["say", "submit"])
    assert second["tools"][0] == shown("say", [])


def test_steps_alone_go_by_the_environments_names(sending: list[str], tmp_path: Path, described: list[str]) -> None:
    """A record without the conversation keeps the form in which its calls were sent; only where names differ."""
    with Spec(sending, tasks=["plain"], records=tmp_path) as spec:
        env = environment(spec, "plain", graded=True)
        env.send(from_="a")
        env.get_reward()

    [record] = load([tmp_path])
    assert record["tools"][0] == chat_tools(tools(sending[0]))[0]
    assert record["tools"][1] == shown("say", ["text"])
    assert fault(tmp_path) is None


def fault(folder: Path) -> str | None:
    """Why the record is no training data; None where it is."""
    [record] = load([folder])
    try:
        conversation(record, Toolsets().of(record))
    except Unfit as unfit:
        return str(unfit)
    return None


@pytest.mark.parametrize(
    ("completion", "found"),
    [
        (said("send", from_="a"), None),
        (said("say", text="brief"), None),
        (said("say", text="too long by far"), BROKEN),
        (said("say", loud=True), BROKEN),
    ],
)
def test_calls_are_held_to_what_the_environment_demands(
    sending: list[str], tmp_path: Path, described: list[str], completion: list[dict[str, Any]], found: str | None
) -> None:
    """Training data keeps calls by the names that were shown, and none that break a rule that no signature holds."""
    with Spec(sending, tasks=["plain"], records=tmp_path) as spec:
        played(spec, completion)

    assert fault(tmp_path) == found
