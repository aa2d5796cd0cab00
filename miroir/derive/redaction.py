"""Texts that must not reach a trainer: what is to be redacted, what marks a leak, and what the grader wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import RecordError
from ..records.redaction import Patterns
from ..records.shape import rows, text
from .conversation import Conversation

_NAMES = frozenset({"task_id", "episode_id", "task_hash", "id", "split"})
_SPOKEN = frozenset({"messages", "steps", "tools"})
_TELLING = 24  # characters from which a grader's text is no chance match


class Redaction(Patterns):
    """Replaces what matches one of the patterns in messages, in arguments and in a record's facts."""

    def apply(self, spoken: Conversation) -> None:
        """Redact the conversation in place."""
        if not self:
            return
        for message in spoken.messages:
            for key in ("content", "reasoning_content"):
                if key in message:
                    message[key] = self.text(message[key])
            for call in message.get("tool_calls", ()):
                function = call["function"]
                function["arguments"] = {
                    name: self._value(value, keys=True) for name, value in function["arguments"].items()
                }

    def facts(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """The record, redacted but for what its conversation is made of, what names it, and its keys."""
        if not self:
            return record
        return {key: value if key in _SPOKEN else self._fact(key, value) for key, value in record.items()}

    def _fact(self, key: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: self._fact(name, item) for name, item in value.items()}
        return value if key in _NAMES else self._value(value)

    def _value(self, value: Any, *, keys: bool = False) -> Any:
        """A JSON value, redacted; with `keys` those of its objects too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(key) if keys else key: self._value(item, keys=keys) for key, item in value.items()}
        return [self._value(item, keys=keys) for item in value] if isinstance(value, list) else value


def refuse_canaries(canaries: Sequence[str], record: Mapping[str, Any], spoken: Conversation) -> None:
    """RecordError, naming the episode, where a canary occurs in the conversation, its tools or the record's facts."""
    if not canaries:
        return
    facts = {key: value for key, value in record.items() if key not in _SPOKEN}
    texts = [*_texts(spoken), spoken.tools.text, *_strings(facts)]
    for canary in canaries:
        if any(canary in text for text in texts):
            raise RecordError(
                f"the canary {canary!r:.60} is in episode {record.get('episode_id')}: what it marks has leaked; "
                "find out how first"
            )


def holds_grader_text(record: Mapping[str, Any], spoken: Conversation) -> bool:
    """Whether the model was told a detail of the grader's checks or harms."""
    metadata = record["metadata"]
    findings = [*rows(metadata.get("checks")), *rows(metadata.get("harms"))]
    details = {detail for finding in findings if len(detail := text(finding.get("detail"))) >= _TELLING}
    if not details:
        return False
    told = "\n".join(message["content"] for message in spoken.messages if message["role"] != "assistant")
    return any(detail in told for detail in details)


def _texts(spoken: Conversation) -> Iterator[str]:
    for message in spoken.messages:
        yield message["content"]
        yield message.get("reasoning_content", "")
        for call in message.get("tool_calls", ()):
            yield from _strings(call["function"]["arguments"])


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
