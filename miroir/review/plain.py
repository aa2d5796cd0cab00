"""Text of a record made safe for a terminal, and how wide it is there."""

from __future__ import annotations

import re
import unicodedata

_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor, screen
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]?"
)
_BREAKS = re.compile(r"\r\n|[\r\u2028\u2029]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_UNSEEN = re.compile(r"[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_TAB = "    "


def plain(text: str) -> str:
    """The text without escape sequences and control characters; unseen ones that reorder or hide are spelt <U+202E>."""
    text = _CONTROLS.sub("", _SEQUENCES.sub("", _BREAKS.sub("\n", text)))
    text = _UNSEEN.sub(lambda found: f"<U+{ord(found[0]):04X}>", text)
    return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)


def line(text: str) -> str:
    """The same on one line."""
    return " ".join(plain(text).split())


def cells(text: str) -> int:
    """How many columns a terminal gives the text: two for wide characters, none for combining ones."""
    return sum(_width(character) for character in text.replace("\t", _TAB))


def fit(text: str, width: int) -> str:
    """The text cut, with an ellipsis, and padded to exactly `width` columns."""
    text = text.replace("\t", _TAB)
    if cells(text) > width:
        kept, used = "", 0
        for character in text:
            used += _width(character)
            if used > width - 1:
                break
            kept += character
        text = kept + "…"
    return text + " " * (width - cells(text))


def _width(character: str) -> int:
    if character < "\x7f":
        return 1
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
