"""Rules about frames: what is answered to what no client should send, and in which order."""

from __future__ import annotations

import json
from typing import Any

from ..wire import (
    INVALID_JSON,
    MAX_FRAME_BYTES,
    NO_EPISODE,
    STALE_EPISODE,
    UNKNOWN_COWORKER,
    UNKNOWN_TASK,
    UNKNOWN_TYPE,
    VALIDATION_ERROR,
)
from .link import Ended, Link
from .rules import NotOffered, Rule, code_of, data_of, require, require_error, rule
from .subject import NO_TOOL, Subject

_BIG = 20_000_000
_STEP = {"type": "call_tool", "tool_name": NO_TOOL, "arguments": {}}


@rule("what is no JSON object is INVALID_JSON, and the session lives")
def not_json(subject: Subject) -> None:
    with subject.lease() as link:
        for text in ("{", "", "nonsense", *(() if subject.plain else ("[1]", "7", "null"))):
            require_error(link.ask_text(text), INVALID_JSON, repr(text))
        _require_alive(subject, link)
        if not subject.plain:
            require(code_of(link.ask_text(b"\xff\x00")) is not None, "an error for a binary frame")


@rule("a request of unknown type is UNKNOWN_TYPE, and the session lives")
def unknown_types(subject: Subject) -> None:
    with subject.lease() as link:
        for frame in ({"type": "no_such_type"}, {"type": 7}, {}):
            require_error(link.ask_text(json.dumps(frame)), UNKNOWN_TYPE, json.dumps(frame))
        _require_alive(subject, link)


@rule("a frame of the wrong form is VALIDATION_ERROR, with where in `errors`, and the session lives")
def wrong_forms(subject: Subject) -> None:
    wrong: list[Any] = [{"type": "state", "id": 1}, {"type": "step"}, {"type": "step", "data": []}]
    if not subject.plain:
        wrong += [
            {"type": "reset", "data": {}},
            {"type": "reset", "data": {"task_id": 7}},
            {"type": "reset", "data": {**_known(subject), "max_seconds": -1}},
            {"type": "reset", "data": {**_known(subject), "coworkers": "yes"}},
            {"type": "reset", "data": {**_known(subject), "no_such_option_of_the_check": 1}},
            {"type": "reset", "data": {**_known(subject), "surface": "no_such_surface"}},
            {"type": "step", "data": {**_STEP, "arguments": [1]}},
            {"type": "step", "data": {**_STEP, "extra": 1}},
        ]
    with subject.episode() as link:
        for frame in wrong:
            data = require_error(link.ask_text(json.dumps(frame)), VALIDATION_ERROR, json.dumps(frame))
            require(isinstance(data.get("errors"), list) and data["errors"], "`errors` that say where")
        _require_alive(subject, link)


@rule("numbers that are no numbers are refused", "NaN may reach the environment", ours=True)
def numbers(subject: Subject) -> None:
    with subject.episode() as link:
        for number in ("NaN", "Infinity", "1e999"):
            text = json.dumps({"type": "step", "data": {**_STEP, "arguments": {"n": 0}}}).replace("0", number)
            require(code_of(link.ask_text(text)) in (INVALID_JSON, VALIDATION_ERROR), f"an error for {number}")


@rule("a task that there is not is UNKNOWN_TASK", "a wrong task id is played as if it were another", ours=True)
def unknown_task(subject: Subject) -> None:
    with subject.lease() as link:
        reply = link.ask("reset", {"task_id": "no-such-task-of-the-check", "episode_id": "e"})
        require_error(reply, UNKNOWN_TASK, "a reset to a task that there is not")


@rule("before a reset, what needs an episode is NO_EPISODE", "a step may be played on no task", ours=True)
def before_reset(subject: Subject) -> None:
    with subject.lease() as link:
        for kind, data in (("step", _STEP), ("record", {}), ("coworkers", None)):
            require_error(link.ask(kind, data), NO_EPISODE, f"`{kind}` before a reset")


@rule("a step or a record of another episode is STALE_EPISODE", "a late step may hit a later episode", ours=True)
def stale(subject: Subject) -> None:
    with subject.episode() as link:
        step = {**_STEP, "metadata": {"episode_id": "another"}}
        require_error(link.ask("step", step), STALE_EPISODE, "a step of another episode")
        require_error(link.ask("record", {"episode_id": "another"}), STALE_EPISODE, "the record of another episode")


@rule("requests that are sent ahead are answered in their order")
def order(subject: Subject) -> None:
    with subject.episode() as link:
        link.say('{"type":"state"}')
        link.say('{"type":"no_such_type"}')
        link.say('{"type":"state"}')
        kinds = [link.hear().get("type") for _ in range(3)]
        require(kinds == ["state", "error", "state"], "state, error, state")


@rule("`list_tools` lists the tools, needs no reset and is no step", "a model cannot be told its tools")
def list_tools(subject: Subject) -> None:
    with subject.episode() as link:
        reply = link.ask("step", {"type": "list_tools"})
        if subject.plain and code_of(reply) is not None:
            raise NotOffered
        data = data_of(subject, reply, "observation")
        listed = data.get("observation", {}).get("tools")
        require(isinstance(listed, list) and listed, "observation.tools")
        require(all("name" in tool and "input_schema" in tool for tool in listed), "name and input_schema in each")
        if not subject.plain:
            count = data_of(subject, link.ask("state"), "state").get("step_count")
            require(count == 0, "step_count 0 after it")


@rule("an `mcp` frame answers ping and tools/list", "an idle session cannot be kept from being reaped")
def mcp_frames(subject: Subject) -> None:
    with subject.lease() as link:
        for method in ("ping", "tools/list"):
            reply = link.ask("mcp", {"jsonrpc": "2.0", "id": 3, "method": method, "params": {}})
            data = data_of(subject, reply, "mcp")
            require(data.get("id") == 3, "the id of the request")
            require(subject.plain or "result" in data, f"a result for {method}")


@rule(
    "who owes a reply is told by `coworkers`; a reply that nobody owes is UNKNOWN_COWORKER",
    "nobody in its world can be played by a model",
    ours=True,
)
def coworkers(subject: Subject) -> None:
    with subject.episode() as link:
        data = data_of(subject, link.ask("coworkers"), "coworkers")
        require(isinstance(data.get("turns"), list), "a list of turns")
        reply = link.ask("coworker_reply", {"coworker": "nobody of the check", "text": "x"})
        require_error(reply, UNKNOWN_COWORKER, "a reply of nobody")


@rule("a frame of 20 MB is taken", "an action above the server's limit ends the session and its episode")
def big_frames(subject: Subject) -> None:
    with subject.episode() as link:
        step = {**_STEP, "arguments": {"text": "x" * _BIG}}
        try:
            reply = link.ask("step", step)
        except Ended:
            if subject.plain:
                raise NotOffered from None
            raise
        require(code_of(reply) is None or subject.plain, "an observation")


@rule(
    "a frame above 64 MiB is VALIDATION_ERROR, then a close with 1009",
    "what was too large is told by the close alone",
    ours=True,
)
def too_big_frames(subject: Subject) -> None:
    with subject.lease() as link:
        require_error(link.ask_text(" " * (MAX_FRAME_BYTES + 1)), VALIDATION_ERROR, "a frame above 64 MiB")
        try:
            link.hear()
        except Ended as ended:
            require(ended.code == 1009, "a close with 1009")
        else:
            require(False, "a close with 1009")


def _known(subject: Subject) -> dict[str, Any]:
    return {"task_id": subject.task.get("id")}


def _require_alive(subject: Subject, link: Link) -> None:
    data_of(subject, link.ask("state"), "state")


RULES: tuple[Rule, ...] = (
    not_json,
    unknown_types,
    wrong_forms,
    numbers,
    unknown_task,
    before_reset,
    stale,
    order,
    list_tools,
    mcp_frames,
    coworkers,
    big_frames,
    too_big_frames,
)
