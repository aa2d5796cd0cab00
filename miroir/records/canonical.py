"""Canonical JSON of a record: one text for equal records, the same with orjson as without it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

_quick: Callable[..., bytes] | None
try:
    from orjson import OPT_SORT_KEYS
    from orjson import dumps as _quick
except ImportError:  # the extra `fast`
    _quick = None

_ASCII = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
_CLASSES = bytes(
    ord("0") if code in b"0123456789" else ord("e") if code == ord("e") else ord(" ") for code in range(256)
)
_EXPONENT = re.compile(rb"[:,\[]-?[0-9.]+e")  # orjson writes 1e-7 where the standard library writes 1e-07
_SMALL = b"0.0000"  # orjson writes 0.00001 where the standard library writes 1e-05
_LONGEST = 32  # characters before the e of a float
_CANDIDATES = 64


def canonical(record: Mapping[str, Any] | list[Any]) -> bytes:
    """The record's JSON with sorted keys and no blanks in UTF-8, lone surrogates let through.

    RecursionError where it is nested too deeply.
    """
    if _quick is not None:
        try:
            data = _quick(record, option=OPT_SORT_KEYS)
        except TypeError:  # integers beyond 64 bits, lone surrogates, deep nesting
            pass
        else:
            if _SMALL not in data and not _may_hold_exponent(data):
                return data
    text = _ASCII.encode(record)
    if "\\u" not in text:  # then nothing was escaped that need not be, and this is the quicker way
        return text.encode()
    return _JSON.encode(record).encode(errors="surrogatepass")


def alike(value: Mapping[str, Any] | list[Any]) -> bytes:
    """A text that is the same for equal values within one process, quicker than `canonical`; raises as it does."""
    if _quick is not None:
        try:
            return _quick(value, option=OPT_SORT_KEYS)
        except TypeError:
            pass
    return _ASCII.encode(value).encode()


def _may_hold_exponent(data: bytes) -> bool:
    """Whether a float may be written with an exponent, found by digits before an e: a search of all would cost more."""
    marked = data.translate(_CLASSES)
    at = marked.find(b"0e")
    for _ in range(_CANDIDATES):
        if at < 0:
            return False
        if _EXPONENT.search(data, max(0, at - _LONGEST), at + 2):
            return True
        at = marked.find(b"0e", at + 2)
    return True
