"""Tables of plain text."""

from __future__ import annotations

import pytest

from miroir.columns import aligned

ROWS = [("task", "n", "note"), ("plain", "12", ""), ("ö", "3", "ok")]


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    """Cells are flush left, and no line ends in blanks."""
    assert aligned(ROWS) == "task   n   note\nplain  12\nö      3   ok"


def test_numbers_are_flush_right() -> None:
    """All columns but the first."""
    assert aligned(ROWS, numbers=True) == "task    n  note\nplain  12\nö       3    ok"


def test_rows_have_the_same_columns() -> None:
    """A row that lacks a cell is a mistake of the caller's."""
    with pytest.raises(ValueError, match="shorter"):
        aligned([("a", "b"), ("c",)])
