"""Why episodes failed: what those that failed alike have in common."""

from __future__ import annotations

from typing import Any

import pytest

from miroir.review.reason import error_text, reason_of, signature


def reason(outcome: str = "failure", **metadata: Any) -> tuple[str, str, str] | None:
    """The reason of a record with these metadata."""
    steps = metadata.pop("steps", [])
    return reason_of({"metadata": {"ended_by": "submit", **metadata}, "steps": steps}, outcome)


def test_a_failure_is_named_by_its_first_unmet_check_and_last_error() -> None:
    """The first check that was not met, the last tool error with its details taken out, how it ended."""
    checks = [{"name": "a", "passed": True}, {"name": "b", "passed": False}, {"name": "c", "passed": False}]
    steps = [{"error": {"error_type": "x", "message": "first"}}, {"error": {"message": "no mail 'mail-17'"}}, {}]

    assert reason(checks=checks, steps=steps) == ("unmet: b", "no mail '…'", "submit")
    assert reason() == ("", "", "submit")


def test_a_clean_success_has_no_reason() -> None:
    """Nothing is wrong with it."""
    assert reason("success") is None


def test_harm_is_a_reason_even_of_a_success() -> None:
    """The first harm names it."""
    assert reason("success", harms=[{"name": "mail to a stranger"}]) == ("harm: mail to a stranger", "", "submit")
    assert reason("success", harm=True) == ("harm: unnamed", "", "submit")


def test_void_is_named_by_its_cause() -> None:
    """The cause without its details; a void without a cause says so."""
    lost = "CONNECTION_LOST: http://10.0.0.3:8000 went away at step 17"
    assert reason("void", void_reason=lost) == ("void: CONNECTION_LOST: … went away at step #", "", "submit")
    assert reason("void") == ("void: no reason given", "", "submit")


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("there is no mail 'mail-7085'; search gives ids", "there is no mail '…'; search gives ids"),
        ('no file "/a/b c"', "no file '…'"),
        ("nobody is ada@x.example, bo@x.example", "nobody is …"),
        ("timeout after 30 s at 0x7fbeef01", "timeout after # s at #"),
        ("first\nsecond", "first"),
        ("", ""),
    ],
)
def test_details_are_taken_out_of_errors(message: str, wanted: str) -> None:
    """Quoted words, addresses, paths and numbers do not tell errors apart."""
    assert signature(message) == wanted


def test_a_signature_is_short() -> None:
    """However long the error is."""
    assert len(signature("word " * 100_000)) <= 120


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (None, ""),
        ("text", "text"),
        ({"error_type": "invalid_args", "message": "bad"}, "invalid_args: bad"),
        ({"message": "bad"}, "bad"),
        ({}, "an error without a message"),
        ({"message": 7}, "an error without a message"),
        (7, "7"),
    ],
)
def test_errors_of_every_shape_have_a_text(error: Any, text: str) -> None:
    """An object's type and message, a text as it is."""
    assert error_text(error) == text
