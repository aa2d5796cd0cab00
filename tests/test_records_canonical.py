"""Canonical JSON: the same bytes with orjson as without it, whatever a record holds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miroir.records import canonical as module
from miroir.records.canonical import alike, canonical

TEXTS = st.text(st.characters(codec="utf-8")) | st.sampled_from(
    ["3e4", ":1e5", "1e-7", "0.0000", "é\x1b\x7f\u2028", ""]
)
NUMBERS = (
    st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(1e-9, 1e-3)
    | st.floats(1e14, 1e24)
    | st.booleans()
    | st.none()
)
VALUES = st.recursive(TEXTS | NUMBERS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=20)


def plainly(record: Any) -> bytes:
    """What the standard library makes of it."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode(errors="surrogatepass")


@given(st.dictionaries(TEXTS, VALUES))
def test_it_is_what_the_standard_library_writes(record: dict[str, Any]) -> None:
    """With orjson installed the bytes are those of `json.dumps` with sorted keys."""
    assert canonical(record) == plainly(record)


@pytest.mark.parametrize(
    "value", [1e-5, 8.3e-05, 9.99e-5, 1e-4, 1e-7, 5e-324, 1e16, 1.5e17, 1e22, -0.0, 2**70, "\ud800", "3e4" * 100]
)
def test_numbers_and_texts_that_the_two_write_differently(value: Any) -> None:
    """Floats with an exponent in one of them, integers beyond 64 bits, lone surrogates, and much that only looks so."""
    assert canonical({"a": [value]}) == plainly({"a": [value]})


def test_it_needs_no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without orjson the bytes are the same."""
    record = {"b": [1, 2.5, {"z": "é", "a": None}], "a": True}
    quick = canonical(record)
    monkeypatch.setattr(module, "_quick", None)

    assert canonical(record) == quick == '{"a":true,"b":[1,2.5,{"a":null,"z":"é"}]}'.encode()


def test_what_is_nested_too_deeply_is_told() -> None:
    """A value deeper than the interpreter's limit is a RecursionError, never a wrong text."""
    deep: list[Any] = []
    for _ in range(200_000):
        deep = [deep]

    with pytest.raises(RecursionError):
        canonical({"a": deep})
    while deep:  # taken apart level by level: freeing it at once would recurse as deeply
        deep = deep[0]


@given(st.dictionaries(TEXTS, VALUES))
def test_equal_values_are_alike_within_a_process(record: dict[str, Any]) -> None:
    """The quick text is that of the same value with its keys in another order, and of no other value."""
    turned = dict(reversed(record.items()))

    assert alike(record) == alike(turned)
    assert json.loads(alike(record)) == json.loads(plainly(record))


@pytest.mark.parametrize("value", [2**70, "\ud800"])
def test_alike_takes_what_orjson_does_not(value: Any) -> None:
    """Integers beyond 64 bits and lone surrogates have a text too."""
    assert json.loads(alike([value])) == [value]
