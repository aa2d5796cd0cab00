"""From records to rows: one pass that keeps of each fit record a few facts in memory and its rows on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ..records.schema import started
from ..records.shape import count, mapping, text
from .conversation import Conversation, Unfit, conversation
from .encoding import encoded
from .exclusion import Near, instruction
from .formats import Example, Format, Kind, Row
from .funnel import RECORD_STAGES, Dropped, Funnel
from .gate import Gate
from .measure import Measured, Yardstick
from .options import Options
from .redaction import Redaction, holds_grader_text, refuse_canaries
from .selection import Candidate, Shape, Versions
from .spill import Spill
from .toolset import Toolset, Toolsets, read_tools

_SILENCE = Conversation([], Toolset([]), 0, 0)  # of a record that is no more than its numbers


class Workshop:
    """Takes records one by one; `candidates` are those that are fit. Without a spill no rows are kept."""

    def __init__(self, format_: Format, options: Options, spill: Spill | None) -> None:
        self.format = format_
        self.options = options
        self._spill = spill
        self.gate = Gate(options, format_)
        self.funnel = Funnel("records read", RECORD_STAGES)
        self.versions = Versions(self.gate.known_versions, options.version)
        self.yardstick = Yardstick(options.tokenizer)
        self.redaction = Redaction(options.redact)
        self.toolsets = Toolsets(None if options.tools_file is None else read_tools(options.tools_file))
        self._each = options.max_tokens is not None or format_.kind in (Kind.TURNS, Kind.PAIRS, Kind.TASKS)
        self.candidates: list[Candidate] = []
        self.graded: Counter[str] = Counter()  # by task
        self.successes: Counter[str] = Counter()
        self.near: dict[str, Near] = {}  # by task

    def take(self, record: Mapping[str, Any]) -> None:
        """Count the record and keep it if it is fit."""
        self.funnel.read += 1
        try:
            candidate = self._candidate(record)
        except Dropped as dropped:
            self.funnel.drop(dropped.stage, dropped.reason)
        except RecursionError:
            self.funnel.drop("whole", "nested too deeply")
        else:
            self.candidates.append(candidate)

    def _candidate(self, record: Mapping[str, Any]) -> Candidate:
        self.gate.check(record)
        self.versions.see(record["task_id"], record["metadata"]["task_hash"], started(record))
        self._tally(record)
        self.gate.check_outcome(record)
        spoken = _SILENCE if self.format.kind is Kind.TABLE else self._spoken(record)
        measured = self.yardstick.measure(spoken, each=self._each)
        example = Example(self.redaction.facts(record), spoken, *self._ends(spoken, measured))
        try:
            rows = self.format.rows(example)
        except Unfit as unfit:
            raise Dropped("in the format", str(unfit)) from unfit
        return self._kept(example, measured, rows)

    def _tally(self, record: Mapping[str, Any]) -> None:
        task_id = record["task_id"]
        if task_id not in self.graded:
            near = self.gate.exclusion.near(task_id, instruction(record))
            if near:
                self.near[task_id] = near
        self.graded[task_id] += 1
        self.successes[task_id] += record["metadata"]["success"]

    def _spoken(self, record: Mapping[str, Any]) -> Conversation:
        """The record's conversation, whole and clean."""
        options = self.options
        reasoning = options.reasoning and self.format.thoughts
        invalid_calls = options.allow_invalid_calls or self.format.kind is Kind.TASKS
        try:
            tools = self.toolsets.of(record)
            spoken = conversation(record, tools, reasoning=reasoning, invalid_calls=invalid_calls)
        except (Unfit, ValueError) as unfit:
            raise Dropped("whole", str(unfit)) from unfit
        refuse_canaries(options.canaries, record, spoken)
        self.redaction.apply(spoken)
        if not options.allow_grader_text and holds_grader_text(record, spoken):
            raise Dropped("clean", "with the grader's text in it")
        return spoken

    def _ends(self, spoken: Conversation, measured: Measured) -> tuple[tuple[int, ...], frozenset[int]]:
        """Where the rows end, in messages, so that each is short enough; and what of them is masked."""
        masked = self._masked(spoken)
        ends = self._possible_ends(spoken)
        limit = self.options.max_tokens
        fit = ends if limit is None else [end for end in ends if self._tokens(measured, end) <= limit]
        if self.format.kind is Kind.TURNS:
            fit = [end for end in fit if end - 1 not in masked]
        else:
            fit = fit[-1:] if self.options.too_long == "cut" or fit[-1:] == ends[-1:] else []
        if ends and not fit:
            raise Dropped("short enough", "too long" if limit else "with nothing but masked messages")
        return tuple(fit), masked

    def _possible_ends(self, spoken: Conversation) -> list[int]:
        if self.format.kind is Kind.TASKS:
            return [spoken.opening]
        if self.format.whole:
            return [len(spoken.messages)]
        return [at + 1 for at, message in enumerate(spoken.messages) if message["role"] == "assistant"]

    def _tokens(self, measured: Measured, end: int) -> int:
        return self.yardstick.tokens(measured.tools + sum(measured.sizes[:end]))

    def _masked(self, spoken: Conversation) -> frozenset[int]:
        """The assistant's messages that are not to be learnt: with invalid calls, and with none but failed ones."""
        if not self.options.mask_errors:
            return frozenset(spoken.invalid)
        return frozenset(spoken.invalid) | {
            at
            for at, message in enumerate(spoken.messages)
            if "tool_calls" in message and all(call["id"] in spoken.failed for call in message["tool_calls"])
        }

    def _kept(self, example: Example, measured: Measured, rows: list[Row]) -> Candidate:
        record, spoken = example.record, example.spoken
        metadata, env, agent = record["metadata"], mapping(record.get("env")), mapping(record.get("agent"))
        exponents = measured.exponents or self.format.holds_numbers
        shape = Shape(
            lengths=tuple(self._tokens(measured, end) for end in example.ends),
            calls=measured.calls,
            opening=spoken.opening,
            key=measured.key,
            prompt=measured.prompt,
            marks=measured.marks[: spoken.end],
        )
        return Candidate(
            task_id=record["task_id"],
            task_hash=metadata["task_hash"],
            episode_id=str(record.get("episode_id")),
            trial=count(record.get("trial")),
            started_at=started(record),
            reward=float(record["reward"]),
            success=metadata["success"],
            harm=metadata["harm"],
            source=(text(env.get("name")) or None, text(agent.get("model")) or None),
            shape=shape,
            span=self._spill.add([encoded(row, exponents=exponents) for row in rows]) if self._spill else None,
        )
