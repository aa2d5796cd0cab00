"""The formats that training data is written in, by name; a module for each family."""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import InvalidArgument
from .anthropic import ANTHROPIC
from .atif import ATIF, record_from_atif
from .form import Column, Example, Format, Kind, Row
from .hub import HUB
from .openai import OPENAI
from .rewards import REWARDS
from .sharegpt import SHAREGPT
from .trl import DPO, KTO, PROMPT_COMPLETION, PROMPTS, SFT, TURNS

FORMATS: Mapping[str, Format] = {
    each.name: each
    for each in (
        SFT,
        PROMPT_COMPLETION,
        TURNS,
        DPO,
        KTO,
        PROMPTS,
        OPENAI,
        SHAREGPT,
        ANTHROPIC,
        ATIF,
        HUB,
        REWARDS,
    )
}


def format_named(name: str) -> Format:
    """The format of this name; InvalidArgument when there is none."""
    if name not in FORMATS:
        raise InvalidArgument(f"there is no format {name!r}; the formats are {', '.join(FORMATS)}")
    return FORMATS[name]


__all__ = ["FORMATS", "Column", "Example", "Format", "Kind", "Row", "format_named", "record_from_atif"]
