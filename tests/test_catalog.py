"""What a model is told first."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from fakefleet import FakeFleet

from miroir import catalog, prompt
from miroir.catalog import opening
from miroir.errors import ConnectionFailed, InvalidArgument, ToolsError

TASK = {"id": "a", "task_hash": "h", "instruction": "Do it.", "persona": {"name": "Ann", "description": "a clerk"}}
SUBMIT = [{"name": "submit", "description": "", "inputSchema": {}}]


def test_the_prompt_has_instruction_persona_limits_and_date() -> None:
    """Paragraphs in this order, one blank line between them, the date last."""
    told = prompt({**TASK, "max_steps": 9}, date(2026, 3, 4))

    assert told == (
        "Do it.\n\nYou act as Ann, a clerk. You have 9 tool calls. When you are done, call the tool `submit`."
        "\n\nToday is 2026-03-04 (UTC)."
    )


def test_what_is_missing_leaves_its_clause_out() -> None:
    """No persona, no limit and no submit: the instruction and the date."""
    assert prompt({"instruction": "Do it."}, date(2026, 3, 4), submit=False) == "Do it.\n\nToday is 2026-03-04 (UTC)."
    assert "You act" not in prompt({**TASK, "persona": {"name": "Ann", "description": ""}}, date(2026, 3, 4))


def test_the_date_is_the_world_s_where_it_has_one() -> None:
    """An observation with `now` decides the date; without, it is today's."""
    told = opening(TASK, SUBMIT, {"now": "2025-02-10T09:00:00+00:00"})

    assert "Today is 2025-02-10 (UTC)." in told
    assert f"Today is {datetime.now(UTC).date()} (UTC)." in opening(TASK, SUBMIT, {"now": "noon"})


def test_what_else_the_observation_says_comes_below() -> None:
    """The rest of the observation follows the prompt, without what the prompt says already."""
    told = opening(TASK, [], {"instruction": "Do it.", "count": 0, "episode_id": "x", "note": ""})

    assert told.endswith('(UTC).\n\n{"count":0}')
    assert "submit" not in told


def test_the_room_of_a_fleet_is_counted() -> None:
    """Healthy containers count with all their sessions, leased or not; others do not."""
    with FakeFleet("free", "held", "down", slots=2) as fleet:
        assert catalog.capacity(fleet.urls) == 4


def test_a_wait_that_is_no_number_is_refused() -> None:
    """It would never be over."""
    with pytest.raises(InvalidArgument, match="the wait is no number of seconds; give one, such as 10"):
        catalog.first_alive(["http://127.0.0.1:9"], wait_s=float("nan"))


@pytest.mark.parametrize("answer", [None, [], "x", 5, {"result": "x"}, {"result": []}, {"result": {"tools": "x"}}])
def test_an_answer_that_lists_no_tools(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    """Whatever the server makes of its answer, the error says what it lacks."""
    monkeypatch.setattr("miroir.rest.post", lambda *_, **__: answer)
    with pytest.raises(ToolsError, match="http://h answered no list of tools; is this an environment server"):
        catalog.tools("http://h")


def test_an_answer_that_lists_no_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for splits."""
    monkeypatch.setattr("miroir.rest.get", lambda url, **_: ["env"] if url.endswith("list_environments") else None)
    with pytest.raises(ConnectionFailed, match="http://h answered no list of splits; is this an environment server"):
        catalog.splits("http://h")
