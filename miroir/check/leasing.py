"""Rules about the lease: a connection holds a session, and gives it back however it goes."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from ..wire import CAPACITY_REACHED
from .link import Ended, Link
from .rules import NotReached, Rule, code_of, data_of, require, rule
from .subject import NO_TOOL, Subject

_RELEASE_S = 2.0  # ten times what the protocol says, for a server on a busy machine
_STEP_S = 15.0
_MOST_SLOTS = 256


@rule("the first frame after a handshake answers `state`: the lease is there")
def first_frame(subject: Subject) -> None:
    with subject.lease() as link:
        state = data_of(subject, link.first, "state")
        require(state.get("episode_id") is None, "episode_id null before the first reset")
        require(subject.plain or state.get("done") is False, "done false before the first reset")


@rule("when every session is leased the next is told CAPACITY_REACHED with the counts, and closed with 1000")
def capacity(subject: Subject) -> None:
    with contextlib.ExitStack() as stack:
        held = _hold_all(subject, stack)
        with subject.link() as late:
            said = late.ask("state")
            require(code_of(said) == CAPACITY_REACHED, f"CAPACITY_REACHED for session {held + 1}")
            counts = (said["data"].get("active_sessions"), said["data"].get("max_sessions"))
            require(counts == (held, held), f"active_sessions and max_sessions {held}")
            require(_close_code(late) == 1000, "a close with 1000 after it")


@rule(
    "`leased` of /health is true exactly when no session is free",
    "that a container is busy costs every client a handshake",
    ours=True,
)
def health_tells_leases(subject: Subject) -> None:
    require(subject.until(subject.free, _RELEASE_S), "leased false while nobody holds a session")
    with contextlib.ExitStack() as stack:
        held = _hold_all(subject, stack)
        body = subject.get("health").body
        require(body.get("leased") is True, "leased true while every session is held")
        require(body.get("sessions", {}).get("active") == held, f"sessions.active {held}")
    require(subject.until(subject.free, _RELEASE_S), f"leased false again within {_RELEASE_S:g} s")


@rule("a session that is closed is free at once")
def release_after_close(subject: Subject) -> None:
    with subject.episode() as link:
        link.close()
    _require_free(subject, _RELEASE_S, "after a close")


@rule("a session whose client is gone without a word is free at once")
def release_after_drop(subject: Subject) -> None:
    with subject.episode() as link:
        link.drop()
    _require_free(subject, _RELEASE_S, "after the connection was cut")


@rule("a session whose client goes during a step is free when the step ends")
def release_during_step(subject: Subject) -> None:
    with subject.episode() as link:
        link.say(f'{{"type":"step","data":{{"type":"call_tool","tool_name":"{NO_TOOL}","arguments":{{}}}}}}')
        link.drop()
    _require_free(subject, _STEP_S, "after the connection was cut during a step")


@rule("`close` ends the session, and the server closes with 1000")
def close_frame(subject: Subject) -> None:
    with subject.lease() as link:
        link.say('{"type":"close"}')
        require(_close_code(link) == 1000, "a close with 1000 and no reply")
    _require_free(subject, _RELEASE_S, "after `close`")


@rule(
    "a holder is told by `wanted_s` of clients that wait",
    "a client passes a container on inside its process until 8 episodes are over, whoever waits",
    ours=True,
)
def waiting_clients(subject: Subject) -> None:
    with subject.lease(waiting="the-check-itself") as link:
        before = data_of(subject, link.ask("state"), "state").get("wanted_s")
        subject.get("health", headers={"Miroir-Waiting": "another-client-of-the-check"})
        after = data_of(subject, link.ask("state"), "state").get("wanted_s")
    require(before is None or isinstance(before, int | float), "wanted_s null or a number of seconds")
    require(isinstance(after, int | float) and 0 <= after < _STEP_S, "the seconds since another client was seen")


def _hold_all(subject: Subject, stack: contextlib.ExitStack) -> int:
    """Lease every session; how many there are. A plain server does not say how many it has."""
    if subject.slots > _MOST_SLOTS:
        raise NotReached(f"it has {subject.slots} sessions, which are too many to be held at once")
    stack.enter_context(subject.lease())
    held = 1
    while subject.plain or held < subject.slots:
        link = subject.open()
        reply = link.ask("state")
        if code_of(reply) == CAPACITY_REACHED:
            link.close()
            require(subject.plain, f"{subject.slots} sessions, as /health says; {held} are held")
            break
        stack.callback(link.close)
        held += 1
        if held > _MOST_SLOTS:
            raise NotReached(f"it has more than {_MOST_SLOTS} sessions, which are too many to be held at once")
    return held


def _require_free(subject: Subject, seconds: float, when: str) -> None:
    """Broken unless a session can be had within some seconds."""
    deadline = time.monotonic() + seconds
    reply: dict[str, Any] = {}
    while time.monotonic() < deadline:
        with contextlib.suppress(Ended), subject.link() as link:
            reply = link.ask("state")
            if code_of(reply) != CAPACITY_REACHED:
                data_of(subject, reply, "state")
                return
        time.sleep(0.02)
    require(False, f"a session that can be leased within {seconds:g} s {when}")


def _close_code(link: Link) -> int | None:
    try:
        link.hear(_RELEASE_S)
    except Ended as ended:
        return ended.code
    return None


RULES: tuple[Rule, ...] = (
    first_frame,
    capacity,
    health_tells_leases,
    release_after_close,
    release_after_drop,
    release_during_step,
    close_frame,
    waiting_clients,
)
