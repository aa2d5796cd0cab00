"""Values as JSON bytes, the same with orjson as without it."""

from __future__ import annotations

import json
import re
from typing import Any

from ..wire import encode

try:
    import orjson
except ImportError:  # the extra `fast`
    orjson = None  # type: ignore[assignment]

_FAST = orjson is not None
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
_EXPONENT = re.compile(rb"[:,\[]-?\d[\d.]*e")


def encoded(value: Any, *, exponents: bool = True) -> bytes:
    """The value as `wire.encode` writes it, in UTF-8.

    `exponents` says whether numbers in it may have one: orjson writes 1e-7 where the standard library writes 1e-07.
    """
    if _FAST and not exponents:
        try:
            data: bytes = orjson.dumps(value)
        except TypeError:  # integers beyond 64 bits, lone surrogates
            pass
        else:
            return data
    return encode(value).encode()


def canonical(value: Any) -> bytes:
    """The value with its keys sorted, in UTF-8: equal values give equal bytes."""
    if _FAST:
        try:
            data: bytes = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        except TypeError:
            pass
        else:
            if not has_exponent(data):
                return data
    return _CANONICAL.encode(value).encode(errors="surrogatepass")


def has_exponent(data: bytes) -> bool:
    """Whether a number in JSON bytes without blanks may have an exponent."""
    return _EXPONENT.search(data) is not None
