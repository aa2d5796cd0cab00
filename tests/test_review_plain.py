"""Text made safe for a terminal."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miroir.review.plain import cells, fit, line, plain

UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("a\x1b]0;title\x07b", "ab"),
        ("a\x1b]52;c;cHduZWQ=\x1b\\b", "ab"),
        ("a\x1b]8;;http://x/\x1b\\link\x1b]8;;\x1b\\b", "alinkb"),
        ("a\x1b]0;never ended\nnext", "a\nnext"),
        ("a\x1bP+q\x1b\\b\x1bcc\x1b(Bd", "abcd"),
        ("\x1b", ""),
        ("\x00\x07\x08\x7f\x85x", "x"),
        ("a\r\nb\rc\u2028d", "a\nb\nc\nd"),
        ("gnp.\u202egpj", "gnp.<U+202E>gpj"),
        ("\ufeff\u200bx\U000e0041", "<U+FEFF><U+200B>x<U+E0041>"),
        ("\ud800x", "\N{REPLACEMENT CHARACTER}x"),
        ("tab\tnewline\n", "tab\tnewline\n"),
        ("中文 👨 é", "中文 👨 é"),
    ],
)
def test_escape_sequences_and_controls_are_taken_out(text: str, safe: str) -> None:
    """Escape sequences go, controls go, what hides or reorders is spelt, all else stays."""
    assert plain(text) == safe


@given(st.text(st.characters() | st.sampled_from("\x1b[]0;m\x07\x9b\\")))
def test_nothing_unsafe_is_left(text: str) -> None:
    """Whatever the text, no control but tab and newline is left, and making it safe again changes nothing."""
    safe = plain(text)

    assert not UNSAFE.search(safe)
    assert plain(safe) == safe
    assert "\n" not in line(text)


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("中文", 4), ("e\u0301", 1), ("\t", 4), ("👍", 2), ("", 0)])
def test_width_is_counted_in_columns(text: str, width: int) -> None:
    """Wide characters take two columns, combining ones none, a tab four."""
    assert cells(text) == width


@given(st.text(max_size=30), st.integers(1, 20))
def test_a_fitted_text_has_exactly_its_width(text: str, width: int) -> None:
    """Cut or padded, it takes as many columns as it was given."""
    assert cells(fit(plain(text).replace("\n", " "), width)) == width


def test_a_cut_shows() -> None:
    """What was cut ends in an ellipsis, and a wide character is never halved."""
    assert fit("abcdef", 4) == "abc…"
    assert fit("中文中文", 4) == "中… "
