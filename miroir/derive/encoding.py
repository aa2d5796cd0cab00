"""Values as JSON bytes, the same with orjson as without it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..wire import encode

_quick: Callable[[Any], bytes] | None
try:
    from orjson import dumps as _quick
except ImportError:  # the extra `fast`
    _quick = None

_EXPONENT = re.compile(rb"[:,\[]-?\d[\d.]*e")


def encoded(value: Any, *, exponents: bool = True) -> bytes:
    """The value as `wire.encode` writes it, in UTF-8.

    `exponents` says whether numbers in it may have one: orjson writes 1e-7 where the standard library writes 1e-07.
    """
    if _quick is not None and not exponents:
        try:
            return _quick(value)
        except TypeError:  # integers beyond 64 bits, lone surrogates
            pass
    return encode(value).encode()


def has_exponent(data: bytes) -> bool:
    """Whether a number in JSON bytes without blanks may have an exponent."""
    return _EXPONENT.search(data) is not None
