"""One line of a trace file to one object, the same with orjson as without it.

orjson, where it is installed, reads what both readers take alike; a line that it refuses, or would read differently,
is read by the standard library. So records and complaints never depend on what is installed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from .schema import not_finite

Parse = Callable[[bytes], dict[str, Any]]

_DIGITS = bytes(ord("0") if code in b"0123456789" else ord(" ") for code in range(256))
_HUGE = re.compile(rb"[0-9]{19}")  # 2**63 has 19 digits; orjson reads integers beyond 64 bits as floats
_STRIDE = 4  # 19 digits in a row hold four digits that are four bytes apart
_CANDIDATES = 64


def parser(*, exact: bool = True) -> Parse:
    """A function from a line to its object; ValueError with the reason where it holds none.

    NaN, Infinity and numbers beyond the floats are refused everywhere but in `reward`, which is left to the caller.
    `exact` False lets orjson read integers beyond 64 bits as floats, which is faster.
    """
    try:
        from orjson import loads  # here, because `import miroir` is to load no extra
    except ImportError:
        return _with_json
    return partial(_with_orjson, loads, exact)


def _with_json(line: bytes) -> dict[str, Any]:
    try:
        return _object(_FINITE.decode(line.decode()))
    except (ValueError, RecursionError):
        return _carefully(line)


def _with_orjson(loads: Callable[[bytes], Any], exact: bool, line: bytes) -> dict[str, Any]:
    if exact and _may_hold_huge_integer(line):
        return _with_json(line)
    try:
        return _object(loads(line))
    except ValueError:
        return _carefully(line)


def _carefully(line: bytes) -> dict[str, Any]:
    """The object of a line that the fast ways refuse: with a byte order mark, a reward that is NaN, or a true fault."""
    try:
        value = _object(json.loads(line.decode("utf-8-sig")))
        place = not_finite({**value, "reward": None})
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON at character {error.pos + 1}: {error.msg}") from None
    if place is not None:
        raise ValueError(f"{place} is not a finite number")
    return value


def _object(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise NotARecord(f"a JSON {type(value).__name__}, not an object")


class NotARecord(ValueError):
    """Whole, but no record: never a record cut short."""


def _finite(text: str) -> float:
    value = float(text)
    if value - value:  # NaN for an infinite value
        raise ValueError(text)
    return value


def _refuse(text: str) -> float:
    raise ValueError(text)


_FINITE = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse)


def _may_hold_huge_integer(line: bytes) -> bool:
    """Whether 19 digits stand in a row somewhere, found from every fourth byte: a search of all would cost a parse."""
    sample = line[::_STRIDE].translate(_DIGITS)
    at = sample.find(b"0000")
    for _ in range(_CANDIDATES):
        if at < 0:
            return False
        if _HUGE.search(line, max(0, _STRIDE * at - 6), _STRIDE * at + 19):
            return True
        at = sample.find(b"0000", at + 1)
    return True
