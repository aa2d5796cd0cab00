"""What a format is: how an episode becomes rows, and what the rows' columns hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ..conversation import Conversation, Message

Row = dict[str, Any]


class Kind(Enum):
    """What a format's rows stand for."""

    EPISODES = "episodes"
    TURNS = "turns"
    PAIRS = "pairs"
    TASKS = "tasks"
    TABLE = "table"  # every graded record, in numbers


class Column(Enum):
    """What a column holds."""

    MESSAGES = "a list of objects"
    OBJECT = "an object"
    TEXT = "text"
    BOOLEAN = "true or false"
    INTEGER = "a whole number"
    NUMBER = "a number"


@dataclass(frozen=True)
class Example:
    """An episode to be written.

    Each row of it ends where `ends` says, in messages; only `turns` has several. `masked` are the assistant's messages
    that are not to be learnt.
    """

    record: Mapping[str, Any]
    spoken: Conversation
    ends: tuple[int, ...]
    masked: frozenset[int] = frozenset()

    @property
    def messages(self) -> list[Message]:
        """The messages that train."""
        return self.spoken.messages[: self.ends[-1]]

    @property
    def told(self) -> list[Message]:
        """The messages before the assistant's first."""
        return self.spoken.messages[: self.spoken.opening]

    @property
    def ids(self) -> Row:
        """The columns that say where a row comes from."""
        return {"task_id": self.record["task_id"], "episode_id": str(self.record.get("episode_id"))}

    @property
    def succeeded(self) -> bool:
        """Whether the episode succeeded and did no harm."""
        return bool(self.record["metadata"]["success"] and not self.record["metadata"]["harm"])


@dataclass(frozen=True)
class Format:
    """A way to write episodes.

    `rows` makes the rows of one episode; of a format of pairs a draft, two of which `pair` joins. `any_outcome` takes
    failures too, `whole` also what follows the assistant's last message. `cuts` allows long conversations to be cut,
    `masks` single messages not to be learnt; `thoughts` says that there is a place for what a model thought.
    `file_each` is a folder with a file for each episode. `recipe` shows how the file is loaded.
    """

    name: str
    about: str
    kind: Kind
    columns: Mapping[str, Column]
    rows: Callable[[Example], list[Row]]
    pair: Callable[[Row, Row, int], Row] | None = None
    any_outcome: bool = False
    whole: bool = False
    cuts: bool = False
    masks: bool = False
    thoughts: bool = True
    file_each: bool = False
    recipe: str = ""

    @property
    def holds_numbers(self) -> bool:
        """Whether its rows hold numbers besides arguments and counts."""
        return not {Column.OBJECT, Column.NUMBER}.isdisjoint(self.columns.values())
