"""One session's exchanges: which reply is an answer, which an error, and which the end."""

from __future__ import annotations

from typing import Any, cast

import pytest

from miroir.errors import ConnectionLost, EnvError, InvalidArgument, MiroirError, StepTimeout
from miroir.session.dialogue import Dialogue
from miroir.transport import LinkClosed, LinkTimeout, Transport


class Link:
    """Stands for a connection: replies, or raises, what it is told to."""

    url = "http://h:1"

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.aborted = ""

    def exchange(self, frame: Any, timeout_s: float) -> dict[str, Any]:
        """The next reply."""
        reply = self.replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        return cast("dict[str, Any]", reply)

    def abort(self, why: str) -> None:
        """Write down why."""
        self.aborted = why

    def close(self) -> None:
        """Write down that it was closed."""
        self.aborted = "closed"


def dialogue(*replies: Any) -> tuple[Dialogue, Link]:
    """One over a connection with these replies, in the third step of episode e."""
    link = Link(*replies)
    made = Dialogue(cast("Transport", link))
    made.episode_id, made.step = "e", 3
    return made, link


def ask(made: Dialogue) -> dict[str, Any]:
    """Ask for the state."""
    return made.ask({"type": "state"}, "state", 5.0)


def test_the_data_of_the_reply() -> None:
    """A reply of the expected type is its data."""
    made, _ = dialogue({"type": "state", "data": {"done": True}})

    assert ask(made) == {"done": True}


def test_an_error_frame_is_an_env_error() -> None:
    """Its code, message and details; the dialogue goes on."""
    frame = {"type": "error", "data": {"code": "UNKNOWN_TASK", "message": "no", "errors": [1]}}
    made, _ = dialogue(frame, {"type": "state", "data": {}})
    with pytest.raises(EnvError) as caught:
        ask(made)

    assert str(caught.value) == "UNKNOWN_TASK: http://h:1, episode e, step 3: no ([1])"
    assert (caught.value.errors, caught.value.url) == ([1], "http://h:1")
    assert ask(made) == {}


def test_before_an_episode_none_is_named() -> None:
    """What a reset refuses is said of the container alone."""
    made, _ = dialogue({"type": "error", "data": {"code": "UNKNOWN_TASK", "message": "no"}})
    made.episode_id, made.step = None, 0
    with pytest.raises(EnvError) as caught:
        ask(made)

    assert str(caught.value) == "UNKNOWN_TASK: http://h:1: no"


@pytest.mark.parametrize(
    ("reply", "kind", "text"),
    [
        (LinkTimeout("no reply came within 5 s"), StepTimeout, "no reply came within 5 s; the session is broken"),
        (LinkClosed("it was reset"), ConnectionLost, "it was reset; the episode is void, lease another session"),
        ({"type": "observation", "data": {}}, ConnectionLost, "a frame of type 'observation' where 'state' was owed"),
        ({"type": "state"}, ConnectionLost, "a frame of type 'state' where 'state' was owed"),
        (
            {"type": "error", "data": {"code": "SESSION_ERROR", "message": "reaped"}},
            ConnectionLost,
            "the server ended the session with SESSION_ERROR: reaped",
        ),
    ],
)
def test_what_ends_it_is_there_for_good(reply: Any, kind: type[MiroirError], text: str) -> None:
    """Every later call raises the same error."""
    made, _ = dialogue(reply, {"type": "state", "data": {}})
    with pytest.raises(kind) as caught:
        ask(made)

    assert text in str(caught.value)
    assert "http://h:1, episode e, step 3: " in str(caught.value)
    assert made.ended
    for call in (made.check, lambda: ask(made)):
        with pytest.raises(kind) as again:
            call()

        assert again.value is caught.value


def test_a_bad_argument_ends_nothing() -> None:
    """It was found before anything was sent."""
    made, _ = dialogue(InvalidArgument("NaN"), {"type": "state", "data": {}})
    with pytest.raises(InvalidArgument):
        ask(made)

    assert ask(made) == {}


def test_an_interrupt_ends_it() -> None:
    """KeyboardInterrupt is raised as it is, and later calls are CONNECTION_LOST."""
    made, _ = dialogue(KeyboardInterrupt(), {"type": "state", "data": {}})
    with pytest.raises(KeyboardInterrupt):
        ask(made)
    with pytest.raises(ConnectionLost, match="a call was interrupted while its reply was owed"):
        ask(made)


def test_closing_says_what_it_found() -> None:
    """Idle and sound; idle and ended; or in the middle of a call, which is woken."""
    made, _ = dialogue()

    assert made.close() == (True, True)
    assert made.close() == (True, False)

    busy, link = dialogue()
    with busy.call():
        assert busy.close() == (False, True)

    assert link.aborted == "closed"
