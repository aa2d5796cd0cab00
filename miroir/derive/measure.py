"""How long conversations are, and digests by which equal calls and equal prompts are found."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InvalidArgument, MissingExtra
from ..records.canonical import canonical
from .conversation import Conversation
from .encoding import has_exponent
from .toolset import Toolset

BOUNDS = (1024, 4096, 8192, 32768)  # tokens; the first is what TRL's trainers cut at unless told otherwise
CHARACTERS_PER_TOKEN = 4

_TODAY = re.compile(r"^Today is \d{4}-\d{2}-\d{2} \(UTC\)\.$", re.MULTILINE)  # the line that `miroir.prompt` ends with


class Measured(NamedTuple):
    """A conversation's sizes, in the yardstick's unit, and digests.

    `calls` counts the tool calls, `key` is a digest of them alone, and `exponents` says whether a number in them may
    have one. `prompt` is a digest of what the model was told before it spoke, whatever the day, and of its tools;
    `marks` are digests of the messages, where each is measured.
    """

    sizes: list[int]
    tools: int
    calls: int
    exponents: bool
    key: bytes
    prompt: bytes
    marks: tuple[int, ...]


class Yardstick:
    """Measures texts: in tokens of a tokenizer, or in characters, four of which are taken for a token."""

    def __init__(self, tokenizer: str | None = None) -> None:
        self.unit = "characters / 4, an estimate" if tokenizer is None else f"tokens of {tokenizer}"
        self._size: Callable[[str], int] = len if tokenizer is None else _tokenizer(tokenizer)
        self._share = CHARACTERS_PER_TOKEN if tokenizer is None else 1
        self._tools: dict[Toolset, int] = {}

    def tokens(self, size: int) -> int:
        """The tokens of a size, rounded up."""
        return -(-size // self._share)

    def measure(self, spoken: Conversation, *, each: bool) -> Measured:
        """The conversation's sizes and digests.

        `each` measures and marks every message; without it, which is faster, the size of all calls is in the
        assistant's first message.
        """
        messages = spoken.messages
        calls = [[call["function"] for call in message.get("tool_calls", ())] for message in messages]
        called = canonical(calls)
        texts = [message["content"] + message.get("reasoning_content", "") for message in messages]
        if each:
            texts = [text + _text(canonical(made)) if made else text for text, made in zip(texts, calls, strict=True)]
        elif texts:
            texts[spoken.opening] += _text(called)
        return Measured(
            sizes=[self._size(text) for text in texts],
            tools=self._tool_size(spoken.tools),
            calls=sum(map(len, calls)),
            exponents=has_exponent(called),
            key=_digest(called),
            prompt=_prompt_digest(spoken),
            marks=_marks(spoken, texts) if each else (),
        )

    def _tool_size(self, tools: Toolset) -> int:
        if tools not in self._tools:
            self._tools[tools] = self._size(tools.text)
        return self._tools[tools]


def _prompt_digest(spoken: Conversation) -> bytes:
    """A digest of what the model was told before it spoke, whatever the day, and of its tools."""
    told = [(message["role"], _TODAY.sub("", message["content"])) for message in spoken.messages[: spoken.opening]]
    return _digest(canonical([told, spoken.tools.digest]))


def _marks(spoken: Conversation, texts: Sequence[str]) -> tuple[int, ...]:
    """A digest of each message, whatever the day; equal within this process alone."""
    return tuple(
        hash((message["role"], _TODAY.sub("", text) if at < spoken.opening else text))
        for at, (message, text) in enumerate(zip(spoken.messages, texts, strict=True))
    )


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _text(data: bytes) -> str:
    return data.decode(errors="surrogatepass")


def histogram(lengths: Sequence[int]) -> dict[str, Any]:
    """The rows' lengths in tokens: how many rows, the shortest, median and longest, and the share above each bound."""
    if not lengths:
        return {"rows": 0}
    ordered = sorted(lengths)
    above = {f"over_{bound}": sum(length > bound for length in ordered) / len(ordered) for bound in BOUNDS}
    return {
        "rows": len(ordered),
        "shortest": ordered[0],
        "median": ordered[(len(ordered) - 1) // 2],
        "longest": ordered[-1],
        **above,
    }


def _tokenizer(name: str) -> Callable[[str], int]:
    path = Path(name) / "tokenizer.json" if Path(name).is_dir() else Path(name)
    if not path.is_file():
        raise InvalidArgument(f"the tokenizer {name} is missing; name a tokenizer.json or the folder of one")
    try:
        tokenizers: Any = import_module("tokenizers")
    except ImportError as error:
        raise MissingExtra(
            "counting tokens needs tokenizers; install it with: pip install 'miroir[tokenizers]'"
        ) from error
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises plain Exceptions
        raise InvalidArgument(f"{path} is no tokenizer ({error}); name a tokenizer.json") from error
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
