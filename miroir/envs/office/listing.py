"""Lists as tools answer them: rows that hold the words of a query, cut into pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

PAGE_SIZE = 10


def holds(query: str, *texts: str | None) -> bool:
    """Whether every word of the query is part of one of the texts, whatever its case."""
    everything = "\n".join(text for text in texts if text).casefold()
    return all(word in everything for word in query.casefold().split())


def paged(name: str, rows: Sequence[dict[str, Any]], page: int) -> dict[str, Any]:
    """Page `page` (from 1) of the rows under `name`, with how many pages and rows there are."""
    pages = max(1, -(-len(rows) // PAGE_SIZE))
    first = (page - 1) * PAGE_SIZE
    return {name: list(rows[first : first + PAGE_SIZE]), "page": page, "pages": pages, "total": len(rows)}


def nearest(wanted: str, known: Iterable[str]) -> str:
    """The up to five known names that are most like `wanted`, for an error message."""
    names = sorted(known)
    close = get_close_matches(wanted, names, n=5, cutoff=0.4)
    return ", ".join(close or names[:5])
