"""How long calls may take."""

from __future__ import annotations

import dataclasses

from miroir.deadlines import Deadlines


def test_defaults_are_those_of_the_interface() -> None:
    """Health 2 s, handshake 30 s, reset, finish and step 600 s, a coworker's answer 30 s, idleness 20 s."""
    assert dataclasses.asdict(Deadlines()) == {
        "health_s": 2.0,
        "handshake_s": 30.0,
        "reset_s": 600.0,
        "step_s": 600.0,
        "step_margin_s": 30.0,
        "finish_s": 600.0,
        "coworker_s": 30.0,
        "idle_s": 20.0,
    }


def test_equal_deadlines_are_one() -> None:
    """Two with the same values are equal and hash alike, so that they share a broker."""
    assert len({Deadlines(), Deadlines(), Deadlines(step_s=1)}) == 2
