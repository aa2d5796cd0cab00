"""What a reviewer types at a terminal, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ..errors import InvalidArgument
from ..notes import NOTE_SCHEMA, Note, append_note, verdicts
from .alignment import best_pair
from .collection import Collection
from .entry import Entry
from .index import Facts
from .terminal import Screen, failure_lines, rollout_lines, task_lines
from .transcript import comparison_lines, episode_lines

HELP = """\
tasks                        every task, with a mark for each rollout
NUMBER                       the rollouts of that task
failures                     episodes that failed alike
show ID                      an episode; the beginning of its id is enough
compare NUMBER | ID ID       two rollouts side by side; of a task the pair that tells most
next                         the next episode of the queue that you have not judged
note ID VERDICT [@STEP] [+LABEL…] [TEXT…]
                             right or wrong (the grade), done or undone (the task), or - for no verdict
quit"""
_VERDICTS = ("right", "wrong", "done", "undone", "-")


class Console:
    """Answers a reviewer's commands about a collection, and appends notes to a file.

    InvalidArgument for a command that cannot be answered, RecordError where a note cannot be written.
    """

    def __init__(
        self, collection: Collection, facts: Facts, screen: Screen, *, reviewer: str, notes: Path | None = None
    ) -> None:
        self._collection = collection
        self._facts = facts
        self._screen = screen
        self._reviewer = reviewer
        self._file = notes
        self._notes: list[Note] = list(facts.notes)
        self._commands: dict[str, Callable[[Sequence[str]], list[str]]] = {
            "tasks": self._tasks,
            "failures": self._failures,
            "show": self._show,
            "compare": self._compare,
            "next": self._next,
            "note": self._note,
            "help": lambda _: HELP.split("\n"),
        }

    def answer(self, words: str) -> list[str]:
        """The lines that answer a command."""
        name, *rest = words.split() or ["help"]
        if name.isdigit():
            return self._rollouts(int(name))
        if name not in self._commands:
            raise InvalidArgument(f"{name} is no command; `help` lists them")
        return self._commands[name](rest)

    def _tasks(self, _: Sequence[str]) -> list[str]:
        self._refuse_blind()
        return task_lines(self._collection, self._facts.classes, self._screen)

    def _rollouts(self, number: int) -> list[str]:
        self._refuse_blind()
        return rollout_lines(self._task(number), self._screen, self._collection.id_width)

    def _failures(self, _: Sequence[str]) -> list[str]:
        self._refuse_blind()
        return failure_lines(self._collection.entries, self._screen, self._collection.id_width)

    def _show(self, words: Sequence[str]) -> list[str]:
        if len(words) != 1:
            raise InvalidArgument("show takes one episode id")
        entry = self._collection.find(words[0])
        notes = [note for note in self._notes if note["episode_id"] == entry.episode_id]
        graded = not self._facts.blind or self._judged(entry)
        return episode_lines(
            entry, self._collection.record(entry), notes if graded else [], self._screen, graded=graded
        )

    def _compare(self, words: Sequence[str]) -> list[str]:
        self._refuse_blind()
        if len(words) == 1 and words[0].isdigit() and len(words[0]) < self._collection.id_width:
            pair = best_pair(self._task(int(words[0])))
            if pair is None:
                raise InvalidArgument("this task has no success and failure to compare; give two episode ids")
            chosen = [pair.good, pair.bad]
        elif len(words) == 2:
            chosen = [self._collection.find(word) for word in words]
        else:
            raise InvalidArgument("compare takes the number of a task or two episode ids")
        return comparison_lines([(entry, self._collection.record(entry)) for entry in chosen], self._screen)

    def _next(self, _: Sequence[str]) -> list[str]:
        for episode_id in self._facts.queue or [entry.episode_id for entry in self._collection.entries]:
            if not self._judged(self._collection.find(episode_id)):
                return self._show([episode_id])
        return ["You have judged them all."]

    def _note(self, words: Sequence[str]) -> list[str]:
        if self._file is None:
            raise InvalidArgument("there is no file to write notes to; give --notes FILE")
        if len(words) < 2 or words[1] not in _VERDICTS:
            raise InvalidArgument(f"note takes an episode id and a verdict ({', '.join(_VERDICTS)}); `help` shows how")
        entry = self._collection.find(words[0])
        note = self._made(entry, words[1], words[2:])
        append_note(self._file, note)
        self._notes.append(note)
        return [f"noted in {self._file}"]

    def _made(self, entry: Entry, verdict: str, words: Sequence[str]) -> Note:
        rest, step = list(words), None
        if rest and rest[0].startswith("@"):
            number = rest.pop(0)[1:]
            if not number.isdigit() or not 1 <= int(number) <= entry.steps:
                raise InvalidArgument(f"the episode has no step {number}; its steps are 1 to {entry.steps}")
            step = int(number) - 1
        labels = []
        while rest and rest[0].startswith("+"):
            labels.append(rest.pop(0)[1:].replace("_", " "))
        success = entry.outcome == "success"
        right = {"right": True, "wrong": False, "done": success, "undone": not success, "-": None}[verdict]
        return Note(
            schema=NOTE_SCHEMA,
            episode_id=entry.episode_id,
            record_sha256=entry.sha256,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            reviewer=self._reviewer,
            labels=labels,
            grade_right=right,
            step=step,
            text=" ".join(rest),
        )

    def _judged(self, entry: Entry) -> bool:
        own = (note for note in self._notes if note["reviewer"] == self._reviewer)
        return (entry.episode_id, entry.sha256) in verdicts(own)

    def _task(self, number: int) -> list[Entry]:
        found = [entries for _, entries in self._collection.by_task()]
        if not 1 <= number <= len(found):
            raise InvalidArgument(f"there is no task {number}; `tasks` numbers them from 1 to {len(found)}")
        return found[number - 1]

    def _refuse_blind(self) -> None:
        if self._facts.blind:
            raise InvalidArgument("grades are hidden while you judge; `next` shows an episode")
