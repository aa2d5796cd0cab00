"""Tables of plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def aligned(rows: Iterable[Sequence[str]], *, numbers: bool = False) -> str:
    """The rows as lines, two blanks between columns; with `numbers` all columns but the first are flush right."""
    listed = list(rows)
    widths = [max(map(len, column)) for column in zip(*listed, strict=True)]
    justified = [str.ljust, *[str.rjust if numbers else str.ljust] * (len(widths) - 1)]
    return "\n".join(
        "  ".join(place(cell, width) for place, cell, width in zip(justified, row, widths, strict=True)).rstrip()
        for row in listed
    )
