"""Rules about an episode: its steps, its end, its limits, its record, and that a reset gives the same world."""

from __future__ import annotations

import time
from typing import Any

from ..wire import EPISODE_OVER, NOT_GRADED, SUBMIT
from .grading import require_arithmetic, require_record
from .link import Link
from .rules import NotOffered, NotReached, Rule, code_of, data_of, require, require_error, require_keys, rule
from .subject import NO_TOOL, Subject

_MOST_STEPS = 500
DEADLINE_S = 1
LATE_S = 10.0


@rule("a reset answers the first observation, without a reward and not done")
def reset(subject: Subject) -> None:
    with subject.lease() as link:
        data = data_of(subject, subject.reset(link), "observation")
        require(isinstance(data.get("observation"), dict), "an observation that is a JSON object")
        require(data.get("reward") is None or subject.plain, "reward null")
        require(data.get("done") is False, "done false")
        state = data_of(subject, link.ask("state"), "state")
        if subject.plain and state.get("episode_id") != link.episode_id:
            raise NotOffered("it takes no episode_id: that the episode is still ours can only be guessed")
        require(state.get("episode_id") == link.episode_id, "the episode's id in the state")
        require(state.get("step_count") == 0, "step_count 0")


@rule("a tool's error is an observation with error_type and message, and counts as a step")
def tool_error(subject: Subject) -> None:
    with subject.episode() as link:
        reply = subject.call(link, NO_TOOL)
        if subject.plain and code_of(reply) is not None:
            raise NotOffered("its actions are no tool calls: play it by `act`")
        data = _step(subject, reply)
        require_keys(data["observation"].get("error"), {"error_type": str, "message": str}, "the error")
        require(data.get("done") is False, "done false")
        if not subject.plain:
            require(_state(subject, link).get("step_count") == 1, "step_count 1 after it")


@rule("a tool's result has MCP's form", "results are kept as they come", ours=True)
def tool_result(subject: Subject) -> None:
    tool = _callable_tool(subject)
    with subject.episode() as link:
        observation = _step(subject, subject.call(link, tool))["observation"]
        require(observation.get("tool_name") == tool, "the tool's name")
        if observation.get("error") is None:
            wanted = {"content": list, "is_error": bool}
            require_keys(observation.get("result"), wanted, "the result")
            require(all(isinstance(block, dict) for block in observation["result"]["content"]), "content of blocks")


@rule("`submit` ends the episode and grades it, and is no step", "an episode ends when the server says so", ours=True)
def submit(subject: Subject) -> None:
    with subject.episode() as link:
        before = _calls(subject)
        for _ in range(before):
            subject.call(link, NO_TOOL)
        data = _step(subject, subject.call(link, SUBMIT))
        require(data.get("done") is True, "done true")
        state = _state(subject, link)
        require(state.get("done") is True and state.get("ended_by") == SUBMIT, "done, ended by submit, in the state")
        require(state.get("step_count") == before, f"step_count {before}: the calls before it")


@rule("after the end a step is EPISODE_OVER", "steps after the end are played on", ours=True)
def after_the_end(subject: Subject) -> None:
    with subject.episode() as link:
        subject.call(link, SUBMIT)
        require_error(subject.call(link, NO_TOOL), EPISODE_OVER, "a step after the end")
        require_error(subject.call(link, SUBMIT), EPISODE_OVER, "a second submit")


@rule(
    "the record has the form of version 1, and its numbers agree",
    "the client makes the record: no checks, harms or diagnostics, success only at reward 1.0",
    ours=True,
)
def record(subject: Subject) -> None:
    with subject.episode() as link:
        require_error(link.ask("record", {}), NOT_GRADED, "a record before the end")
        calls = _calls(subject)
        replies = [_step(subject, subject.call(link, tool)) for tool in (*[NO_TOOL] * calls, SUBMIT)]
        found = data_of(subject, link.ask("record", {"episode_id": link.episode_id}), "record")
        require_record(found, subject.task, link.episode_id, subject.env)
        require_arithmetic(found, steps=calls, tool_errors=calls)
        require(found["reward"] == replies[-1].get("reward"), "the reward that the last step told")
        again = data_of(subject, link.ask("record", {"episode_id": link.episode_id}), "record")
        require(again == found, "the same record when it is asked for again")


@rule(
    "tool call number max_steps ends the episode, which is graded",
    "an episode has as many steps as it likes",
    ours=True,
)
def max_steps(subject: Subject) -> None:
    most: int = subject.task.get("max_steps", 0)
    if most > _MOST_STEPS:
        raise NotReached(f"the task has {most} steps, more than the {_MOST_STEPS} that the check takes; name another")
    with subject.episode() as link:
        replies = [_step(subject, subject.call(link, NO_TOOL)) for _ in range(most)]
        early = [number for number, data in enumerate(replies[:-1], 1) if data.get("done")]
        require(not early, f"an episode of {most} steps; it was done at step {early[:1]}")
        require(replies[-1].get("done") is True, f"done true at step {most}, the last of the task")
        found = data_of(subject, link.ask("record", {"episode_id": link.episode_id}), "record")
        require_record(found, subject.task, link.episode_id, subject.env)
        require_arithmetic(found, steps=most, tool_errors=most)
        require(found["metadata"]["ended_by"] == "max_steps", "ended_by max_steps")


@rule("max_seconds ends the episode, also while nobody calls", "an episode lasts as long as it likes", ours=True)
def max_seconds(subject: Subject) -> None:
    with subject.episode(max_seconds=DEADLINE_S) as link:
        began = time.monotonic()
        time.sleep(DEADLINE_S)
        require(subject.until(lambda: bool(_state(subject, link).get("done")), LATE_S), "done once its time is over")
        require(time.monotonic() - began >= DEADLINE_S, "an episode of a second")
        require(_state(subject, link).get("ended_by") == "deadline", "ended_by deadline")
        require_error(subject.call(link, NO_TOOL), EPISODE_OVER, "a step after it")
        found = data_of(subject, link.ask("record", {"episode_id": link.episode_id}), "record")
        require_record(found, subject.task, link.episode_id, subject.env)


@rule("a reset during an episode begins another", "an old episode may go on under a new id", ours=True)
def abandoned(subject: Subject) -> None:
    with subject.episode() as link:
        first = link.episode_id
        subject.call(link, NO_TOOL)
        data_of(subject, subject.reset(link), "observation")
        state = _state(subject, link)
        require(link.episode_id != first and state.get("episode_id") == link.episode_id, "the new episode in the state")
        require(state.get("step_count") == 0, "step_count 0")


@rule("a reset to the same task gives the same world")
def determinism(subject: Subject) -> None:
    seen: list[Any] = []
    tool = _callable_tool(subject) if subject.tools else None
    for _ in range(2):
        with subject.episode() as link:
            shown = [_seen(link.begun)]
            if tool is not None:
                shown.append(_seen(subject.call(link, tool)))
            seen.append(shown)
    if subject.plain and seen[0] != seen[1]:
        raise NotOffered("each reset gives another world: a task's rollouts are not of the same task")
    require(seen[0][0] == seen[1][0], "the same first observation twice")
    require(seen[0] == seen[1], f"the same answer of {tool} twice")


@rule("two clients at once have an episode each", "one session at a time: more containers for more episodes")
def two_clients(subject: Subject) -> None:
    if not subject.plain and subject.slots < 2:
        raise NotOffered
    with subject.episode() as link, subject.link() as other:
        if code_of(other.ask("state")) is not None:
            raise NotOffered
        subject.reset(other)
        mine, theirs = _state(subject, link).get("episode_id"), _state(subject, other).get("episode_id")
        require(subject.plain or (mine, theirs) == (link.episode_id, other.episode_id), "an episode for each of them")


def _step(subject: Subject, reply: dict[str, Any]) -> dict[str, Any]:
    data = data_of(subject, reply, "observation")
    require(isinstance(data.get("observation"), dict), "an observation that is a JSON object")
    reward = data.get("reward")
    require(
        reward is None or (isinstance(reward, int | float) and not isinstance(reward, bool)), "reward null or a number"
    )
    require(isinstance(data.get("done"), bool), "done true or false")
    return data


def _calls(subject: Subject) -> int:
    """How many calls can be made before `submit`, two at most, without the episode ending by itself."""
    return min(2, int(subject.task.get("max_steps", 1)) - 1)


def _state(subject: Subject, link: Link) -> dict[str, Any]:
    return data_of(subject, link.ask("state"), "state")


def _seen(reply: dict[str, Any]) -> Any:
    data = reply.get("data")
    return data.get("observation") if isinstance(data, dict) else reply


def _callable_tool(subject: Subject) -> str:
    """A tool that can be called without knowing what it is for."""
    for tool in subject.tools:
        schema = tool.get("inputSchema") or tool.get("input_schema") or {}
        if tool["name"] != SUBMIT and not schema.get("required"):
            return str(tool["name"])
    return NO_TOOL


RULES: tuple[Rule, ...] = (
    reset,
    tool_error,
    tool_result,
    submit,
    after_the_end,
    record,
    max_steps,
    max_seconds,
    abandoned,
    determinism,
    two_clients,
)
