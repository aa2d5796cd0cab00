"""Agents: a chat model over real HTTP that plays a scripted session, and callables by their name."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
import quirks
from modelserver import ModelServer, Reply, answer, serving, tool_then_submit

from miroir.agents import CallableAgent, ChatAgent, Played, episode_seed, load_agent, parse_options
from miroir.chat import ChatClient
from miroir.errors import ConnectionLost, EnvError, InvalidArgument, ModelError
from miroir.wire import Step, Task, Tool

TASK: Task = {"id": "t1", "task_hash": "h", "instruction": "Reach the door.", "max_steps": 5}
SCHEMA = {"type": "object", "properties": {"direction": {"type": "string"}}, "required": ["direction"]}
MOVE: Tool = {"name": "move", "description": "Move.", "inputSchema": SCHEMA}
SUBMIT: Tool = {"name": "submit", "description": "End.", "inputSchema": {"type": "object", "properties": {}}}
NUDGE = (
    "Go on by calling a tool, or call submit if you are done. A second message without a tool call ends the episode."
)


def said(text: str, *, done: bool = False) -> Step:
    """A step's reply with a tool's text."""
    result = {"content": [{"type": "text", "text": text}], "structured_content": None, "is_error": False}
    return {"observation": {"tool_name": "move", "result": result, "error": None}, "reward": None, "done": done}


class Scripted:
    """A session that answers each step by the script, and remembers the calls; submit ends it."""

    def __init__(self, *replies: Step | Exception) -> None:
        self.replies = list(replies)
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def step(self, tool: str, arguments: dict[str, Any], *, timeout_s: float | None = None) -> Step:
        """Call a tool."""
        self.calls.append((tool, arguments))
        if tool == "submit":
            return said("submitted", done=True)
        reply = self.replies.pop(0) if self.replies else said("moved")
        if isinstance(reply, Exception):
            raise reply
        return reply


def play(
    script: Callable[[dict[str, Any]], Reply] | Sequence[Reply],
    session: Scripted,
    *,
    task: Task = TASK,
    tools: Sequence[Tool] = (MOVE, SUBMIT),
    observation: dict[str, Any] | None = None,
    max_turns: int | None = None,
    **params: Any,
) -> tuple[Played, ModelServer]:
    """Let a chat agent play the session against the script; what it tells, and what the endpoint was asked."""
    with serving(script) as server, ChatClient(server.base_url, "m", "sk-key", params=params, retries=0) as client:
        agent = ChatAgent(client, max_turns=max_turns)
        played = agent.play(session, task, tools, observation=observation or {}, trial=0, seed=1)
    return played, server


def say(*calls: tuple[str, Any], text: str | None = None, **more: Any) -> Reply:
    """A completion that makes the calls."""
    return Reply(answer(text, calls, **more))


UP = ("move", {"direction": "up"})
END: tuple[str, Any] = ("submit", {})


# ---- a chat model plays


def test_an_episode_is_played_to_its_end_and_told_in_the_records_form() -> None:
    """The prompt opens it; calls hold objects, results their id and name; the tokens are summed."""
    session = Scripted(said("you are at (1, 0)"))
    played, server = play(tool_then_submit, session, temperature=0.5)
    today = datetime.now(UTC).date().isoformat()
    assert session.calls == [("move", {"direction": "hello"}), ("submit", {})]
    opening, *rest = played["messages"]
    assert opening["role"] == "user"
    assert opening["content"].startswith("Reach the door.\n\n")
    assert opening["content"].endswith(f"\n\nToday is {today} (UTC).")
    call = {"id": "call_0", "type": "function", "function": {"name": "move", "arguments": {"direction": "hello"}}}
    end = {"id": "call_0", "type": "function", "function": {"name": "submit", "arguments": {}}}
    assert rest == [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_0", "name": "move", "content": "you are at (1, 0)"},
        {"role": "assistant", "content": "", "tool_calls": [end]},
        {"role": "tool", "tool_call_id": "call_0", "name": "submit", "content": "submitted"},
    ]
    assert played["usage"] == {"prompt_tokens": 20, "completion_tokens": 10}
    assert played["params"] == {"temperature": 0.5}
    assert "sk-key" not in json.dumps(played)
    assert [tool["function"]["name"] for tool in server.bodies[0]["tools"]] == ["move", "submit"]
    assert server.bodies[0]["tools"][0]["function"]["parameters"] == SCHEMA


def test_history_goes_back_in_the_wire_form() -> None:
    """Arguments as text, content never null."""
    _, server = play([say(UP), say(END)], Scripted())
    call = {"id": "call_0", "type": "function", "function": {"name": "move", "arguments": '{"direction": "up"}'}}
    assert server.bodies[1]["messages"][1:] == [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_0", "name": "move", "content": "moved"},
    ]


def test_verbatim_history_is_as_the_model_wrote_it() -> None:
    """Spacing, broken arguments and reasoning included, after a system prompt and an opening of one's own."""
    wrote = answer(None, [("move", '{"direction":"up"}'), ("move", '{"direction": "')])
    wrote["choices"][0]["message"]["reasoning_content"] = "Up, I think."
    with serving([Reply(wrote), say(END)]) as server, ChatClient(server.base_url, "m", retries=0) as client:
        agent = ChatAgent(client, system="Be brief.", opening=lambda task, tools, observation: "Go.", verbatim=True)
        played = agent.play(Scripted(), TASK, (MOVE, SUBMIT), observation={}, trial=0, seed=1)
    system, opening, said_before, *_ = server.bodies[1]["messages"]
    assert (system, opening) == ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Go."})
    assert [call["function"]["arguments"] for call in said_before["tool_calls"]] == [
        '{"direction":"up"}',
        '{"direction": "',
    ]
    assert said_before["reasoning_content"] == "Up, I think."
    assert played["messages"][2]["tool_calls"][1]["arguments_error"] is True


def test_parallel_calls_are_made_in_their_order() -> None:
    """Each has its own answer; those after the episode's end are answered without being made."""
    session = Scripted(said("first"), said("second", done=True))
    played, server = play([say(UP, ("move", {"direction": "down"}), UP, text="All at once.")], session)
    assert [arguments["direction"] for _, arguments in session.calls] == ["up", "down"]
    assert [(message["tool_call_id"], message["content"]) for message in played["messages"][2:]] == [
        ("call_0", "first"),
        ("call_1", "second"),
        ("call_2", "not called: the episode was over"),
    ]
    assert len(server.asked) == 1


def test_broken_arguments_are_told_to_the_model_and_nothing_is_called() -> None:
    """The record keeps the model's text; the history that goes back holds an empty object."""
    session = Scripted()
    played, server = play([Reply(quirks.LLAMA_CPP_PYTHON_CUT_CALL), say(END)], session)
    assert session.calls == [("submit", {})]
    call = played["messages"][1]["tool_calls"][0]
    assert call["function"]["arguments"] == '{"direction": "'
    assert call["arguments_error"] is True
    assert played["messages"][2]["content"].startswith(
        "invalid_args: nothing was called, since the arguments are not a JSON object (Unterminated string"
    )
    assert played["messages"][2]["content"].endswith('): {"direction": "')
    assert server.bodies[1]["messages"][1]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_an_unknown_tool_is_the_environments_to_refuse() -> None:
    """Its error is an observation for the model; a call that names nothing is answered here."""
    error = {"error_type": "tool_not_found", "message": "Unknown tool: 'look:'"}
    refused: Step = {
        "observation": {"tool_name": "look:", "result": None, "error": error},
        "reward": None,
        "done": False,
    }
    session = Scripted(refused)
    played, server = play([say(("look:", {}), ("", {})), say(END)], session)
    assert session.calls == [("look:", {}), ("submit", {})]
    assert [message["content"] for message in played["messages"] if message["role"] == "tool"] == [
        "tool_not_found: Unknown tool: 'look:'",
        "tool_not_found: the call names no tool",
        "submitted",
    ]
    assert played["messages"][1]["tool_calls"][0]["function"]["name"] == "look:"
    assert server.bodies[1]["messages"][1]["tool_calls"][0]["function"]["name"] == "look_"


@pytest.mark.parametrize(
    "error", [EnvError("VALIDATION_ERROR", "arguments are nested too deeply"), InvalidArgument("nested too deeply")]
)
def test_arguments_that_cannot_be_sent_are_told_to_the_model(error: Exception) -> None:
    """What the server or the client refuses to take as a call is the model's mistake, and the episode goes on."""
    played, _ = play([say(UP), say(END)], Scripted(error))

    assert played["messages"][2]["content"].startswith("invalid_args: nothing was called: ")
    assert "nested too deeply" in played["messages"][2]["content"]
    assert played["messages"][-1]["content"] == "submitted"


def test_text_alone_is_nudged_once() -> None:
    """A second text in a row ends the agent's part; a call in between begins anew."""
    session = Scripted()
    played, _ = play([say(text="Hm."), say(UP), say(text="Hm."), say(text="Done."), say(UP)], session)
    assert session.calls == [UP]
    assert [(message["role"], message["content"]) for message in played["messages"][1:]] == [
        ("assistant", "Hm."),
        ("user", NUDGE),
        ("assistant", ""),
        ("tool", "moved"),
        ("assistant", "Hm."),
        ("user", NUDGE),
        ("assistant", "Done."),
    ]


@pytest.mark.parametrize(
    "body", [quirks.LLAMA_CPP_NO_CHOICE, quirks.LLAMA_CPP_REQUIRED, quirks.LLMOCK_TEXT], ids=["markup", "text", "null"]
)
def test_what_makes_no_call_is_text(body: dict[str, Any]) -> None:
    """Markup in the text is no call, null calls are none, and a required call may not come."""
    session = Scripted()
    played, _ = play([Reply(body)], session)
    assert not session.calls
    assert [message["role"] for message in played["messages"]] == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize("body", [quirks.LLAMA_CPP_CUT_CALL, quirks.LLAMA_CPP_ANSWER_CUT], ids=["call", "context"])
def test_a_cut_message_is_told_to_be_one(body: dict[str, Any]) -> None:
    """The model learns why nothing was called."""
    played, _ = play([Reply(body), say(END)], Scripted())
    assert played["messages"][2] == {
        "role": "user",
        "content": f"Your message was cut at its length limit. {NUDGE}",
    }


def test_an_environment_without_submit_is_not_told_of_it() -> None:
    """Neither the prompt nor the nudge names a tool that is not there."""
    played, _ = play([say(text="Hm.")], Scripted(), tools=[MOVE])
    assert "submit" not in json.dumps(played["messages"])


def test_a_full_context_ends_the_agents_part(caplog: pytest.LogCaptureFixture) -> None:
    """The episode is left to be submitted as it stands, and a warning says so."""
    caplog.set_level(logging.WARNING, logger="miroir")
    session = Scripted()
    played, _ = play([say(UP), quirks.LLAMA_CPP_CONTEXT], session)
    assert session.calls == [UP]
    assert [message["role"] for message in played["messages"]] == ["user", "assistant", "tool"]
    assert "task t1 is submitted as it stands: " in caplog.text
    assert "the conversation is longer than the model's context" in caplog.text


def test_a_dead_endpoint_is_an_error() -> None:
    """It is not the model's failure."""
    with pytest.raises(ModelError, match="HTTP 503: Loading model") as caught:
        play([say(UP), quirks.LLAMA_CPP_LOADING], Scripted())
    assert caught.value.retryable


@pytest.mark.parametrize("code", ["EPISODE_OVER", "EXECUTION_ERROR"])
def test_an_episode_that_ended_meanwhile_ends_the_agents_part(code: str) -> None:
    """What the messages tell is kept; the record says how it ended."""
    played, server = play([say(UP)], Scripted(EnvError(code, "the episode's time is up")))
    assert played["messages"][-1]["content"] == f"{code}: the episode's time is up"
    assert len(server.asked) == 1


@pytest.mark.parametrize("error", [EnvError("UNKNOWN_TYPE", "no"), ConnectionLost("gone")])
def test_other_errors_of_the_session_are_raised(error: Exception) -> None:
    """They are not for the model to read."""
    with pytest.raises(type(error)):
        play([say(UP)], Scripted(error))


@pytest.mark.parametrize(
    ("max_turns", "task", "turns"),
    [(None, TASK, 10), (3, TASK, 3), (None, {**TASK, "max_steps": None}, 200)],
    ids=["twice the steps", "set", "unknown"],
)
def test_the_number_of_completions_is_bounded(max_turns: int | None, task: Any, turns: int) -> None:
    """A model that never gets a call right does not go on for ever."""
    session = Scripted()
    _, server = play([say(("move", '{"dir'))], session, task=task, max_turns=max_turns)
    assert len(server.asked) == turns
    assert not session.calls


def test_usage_is_the_sum_of_what_was_told() -> None:
    """A server that counts nothing leaves nothing."""
    assert play([say(UP, usage=None), say(END)], Scripted())[0]["usage"] == {
        "prompt_tokens": 10,
        "completion_tokens": 5,
    }
    assert play([say(END, usage=None)], Scripted())[0]["usage"] == {}


def test_reasoning_is_recorded_and_not_sent_back() -> None:
    """Not every endpoint takes it back."""
    body = answer(calls=[UP])
    body["choices"][0]["message"]["reasoning_content"] = "hm"
    played, server = play([Reply(body), say(END)], Scripted())
    assert played["messages"][1]["reasoning_content"] == "hm"
    assert "reasoning_content" not in server.bodies[1]["messages"][1]


@pytest.mark.parametrize(
    ("observation", "added"),
    [
        ({}, ""),
        ({"metadata": {"a": 1}, "episode_id": "e", "reward": None, "done": False, "hint": ""}, ""),
        ({"instruction": "Reach the door."}, ""),
        ({"text": "It is dark."}, "\n\nIt is dark."),
        ({"board": "x.o", "legal": [1]}, '\n\n{"board":"x.o","legal":[1]}'),
        (said("It is dark.")["observation"], "\n\nIt is dark."),
    ],
    ids=["empty", "silent", "instruction", "text", "object", "tool"],
)
def test_what_the_first_observation_tells_follows_the_prompt(observation: dict[str, Any], added: str) -> None:
    """What the prompt says already, and what tells a model nothing, is left out."""
    played, _ = play([say(END)], Scripted(), observation=observation)
    assert played["messages"][0]["content"].partition("(UTC).")[2] == added


def test_an_environment_without_tools_cannot_be_played() -> None:
    """A raw action is not a tool call."""
    with pytest.raises(InvalidArgument, match=r"the environment lists no tools, .*; use a callable"):
        play([say(END)], Scripted(), tools=[])


def test_a_chat_agent_says_who_it_is() -> None:
    """Its record names it; it pickles, and shows no key."""
    with ChatClient("http://127.0.0.1:9/v1", "m", "sk-key", params={"max_tokens": 64}) as client:
        agent = ChatAgent(client)
        for one in (agent, pickle.loads(pickle.dumps(agent))):
            assert (one.name, one.model, one.params, one.base_seed) == ("chat", "m", {"max_tokens": 64}, 0)
            assert repr(one) == "ChatAgent(ChatClient('http://127.0.0.1:9/v1', 'm'))"


# ---- seeds and callables


def test_a_seed_is_the_same_everywhere_and_its_own_for_each_episode() -> None:
    """SHA-256 of base seed, task and trial; the number is fixed for good."""
    assert episode_seed(0, "t1", 0) == 1517899408
    seeds = {episode_seed(base, task, trial) for base in range(3) for task in ("t1", "t:1", "t") for trial in range(5)}
    assert len(seeds) == 45
    assert all(0 <= seed < 2**32 for seed in seeds)


def example(session: Any, task: Any, tools: Any, *, observation: Any, trial: int, seed: int, rate: float = 0) -> Any:
    """An agent callable that tells how it was called."""
    return (session, task["id"], tools, observation, trial, seed, rate)


HERE = f"{__name__}:example"


def test_a_callable_is_loaded_with_its_options() -> None:
    """`seed` is the base seed; the other options are keyword arguments; all are the record's parameters."""
    agent = load_agent(f"{HERE}?rate=0.3&seed=7")
    assert (agent.name, agent.model, agent.params, agent.base_seed) == (HERE, None, {"rate": 0.3, "seed": 7}, 7)
    assert agent.play("s", TASK, [MOVE], observation={}, trial=2, seed=5) == ("s", "t1", [MOVE], {}, 2, 5, 0.3)  # type: ignore[arg-type, comparison-overlap]
    plain = load_agent(HERE)
    assert (plain.params, plain.base_seed) == ({}, 0)
    assert pickle.loads(pickle.dumps(plain)) == plain
    assert isinstance(plain, CallableAgent)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nowhere:play", "the agent 'nowhere:play': there is no module nowhere; install it or go to its directory"),
        ("json:nope", "the agent 'json:nope': json has no nope; check its spelling"),
        ("json:decoder", "the agent 'json:decoder': json:decoder cannot be called; name a function that plays"),
        (f"{HERE}?seed=x", f"the agent '{HERE}?seed=x': seed is 'x'; pass a whole number"),
        (f"{HERE}?seed=true", f"the agent '{HERE}?seed=true': seed is True; pass a whole number"),
        (
            f"{HERE}?speed=2",
            f"the agent '{HERE}?speed=2': got an unexpected keyword argument 'speed'; it is called with "
            "(session, task, tools, *, observation, trial, seed) and the options",
        ),
        (
            f"{HERE}?trial=2",
            f"the agent '{HERE}?trial=2': trial is the episode's own; leave it out",
        ),
        ("json:dumps", "the agent 'json:dumps': too many positional arguments; it is called with "),
        (f"{HERE}?rate", "the option 'rate' is not NAME=VALUE; write it so"),
        (f"{HERE}?rate=1&rate=2", "the option rate is given twice; give it once"),
    ],
)
def test_a_callable_that_cannot_play_is_refused_at_once(spec: str, message: str) -> None:
    """Before anything is leased."""
    with pytest.raises(InvalidArgument) as caught:
        load_agent(spec)
    assert caught.value.message.startswith(message)


def test_options_are_json_where_they_can_be() -> None:
    """Numbers, truth, lists and objects; everything else is text, what no record can hold included."""
    pairs = [
        "a=0.3",
        "b=7",
        "c=true",
        "d=null",
        "e=[1]",
        'f={"x": 1}',
        "g=low",
        "h=007",
        "i=nan",
        "j=1e999",
        "k=",
        "l=a=b",
    ]
    assert parse_options(pairs) == {
        "a": 0.3,
        "b": 7,
        "c": True,
        "d": None,
        "e": [1],
        "f": {"x": 1},
        "g": "low",
        "h": "007",
        "i": "nan",
        "j": "1e999",
        "k": "",
        "l": "a=b",
    }


def test_a_specs_options_may_be_quoted() -> None:
    """As in a URL, so that & can be part of a value."""
    assert load_agent(f"{HERE}?rate=a%26b").params == {"rate": "a&b"}
