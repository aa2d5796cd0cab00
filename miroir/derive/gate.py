"""Which records may come through at all: what was asked for, and what no training data may be made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InvalidArgument, RecordError
from ..notes import read_notes, record_sha256, verdicts
from ..records.schema import started
from ..records.shape import mapping
from ..run.jobs import read_tasks
from .exclusion import Exclusion
from .formats import Format, Kind
from .funnel import Dropped
from .options import NO_SPLIT, TRAINING_SPLIT, Options


class Gate:
    """The stages that need no more than a record's own facts."""

    def __init__(self, options: Options, format_: Format) -> None:
        self._options = options
        self._outcome = options.outcome or ("any" if format_.any_outcome else "success")
        self._harm_matters = not (
            options.allow_harm or format_.kind is Kind.TASKS or (format_.kind is Kind.PAIRS and options.pairs == "harm")
        )
        self.exclusion = Exclusion(options.exclude)
        self._entries = _calibration(options.calibration)
        self.known_versions = _known_versions(options, self._entries)
        self._verdicts = None if options.notes is None else verdicts(read_notes(options.notes))
        self._reviewed = {episode_id for episode_id, _ in self._verdicts or ()}

    def check(self, record: Mapping[str, Any]) -> None:
        """Dropped where the record does not come through; RecordError for a split that is not to be trained on."""
        self._check_split(record)
        if record["reward"] is None:
            raise Dropped("graded", "void")
        reason = self._unasked(record) or self._judged(record)
        if reason:
            raise Dropped("asked for", reason)
        excluded = self.exclusion.reason(record)
        if excluded:
            raise Dropped("not excluded", excluded)

    def check_outcome(self, record: Mapping[str, Any]) -> None:
        """Dropped where the episode's outcome is not wanted."""
        success = record["metadata"]["success"]
        if self._outcome == "success" and not success:
            raise Dropped("successful", "failed")
        if self._outcome == "failure" and success:
            raise Dropped("asked for", "successful")
        if record["metadata"]["harm"] and self._harm_matters:
            raise Dropped("harmless", "harmful")

    def _check_split(self, record: Mapping[str, Any]) -> None:
        options = self._options
        allowed = {TRAINING_SPLIT, *options.allow_splits, *options.splits}
        for split in _splits(record):
            if options.splits and split not in options.splits:
                raise Dropped("asked for", f"of split {split}")
            if split not in allowed:
                what = "has no split" if split == NO_SPLIT else f"is of split {split!r}"
                raise RecordError(
                    f"episode {record.get('episode_id')} of task {record['task_id']} {what}, and evaluation tasks must "
                    f"not be trained on; keep to --split {TRAINING_SPLIT}, or allow it with --allow-split {split}"
                )

    def _unasked(self, record: Mapping[str, Any]) -> str | None:
        options, agent, reward = self._options, mapping(record.get("agent")), record["reward"]
        task_id = record["task_id"]
        if options.tasks and task_id not in options.tasks:
            return "of another task"
        if options.agents and agent.get("name") not in options.agents:
            return "of another agent"
        if options.models and agent.get("model") not in options.models:
            return "of another model"
        if options.min_reward is not None and reward < options.min_reward:
            return "with a smaller reward"
        if options.max_reward is not None and reward > options.max_reward:
            return "with a larger reward"
        if options.classes and (self._entries or {}).get(task_id, {}).get("class") not in options.classes:
            return "of a task of another class"
        return self._out_of_time(record)

    def _out_of_time(self, record: Mapping[str, Any]) -> str | None:
        since, until = self._options.since, self._options.until
        if since is None and until is None:
            return None
        at = started(record)
        if not at:
            return "without a start time"
        if (since and at < _sortable(since)) or (until and at >= _sortable(until)):
            return "of another time"
        return None

    def _judged(self, record: Mapping[str, Any]) -> str | None:
        if self._verdicts is None:
            return None
        episode_id = record.get("episode_id")
        right = None
        if episode_id in self._reviewed:
            right = self._verdicts.get((str(episode_id), record_sha256(record)))
        if right is False:
            return "judged wrongly graded"
        return "not reviewed" if right is None and self._options.only_reviewed else None


def _sortable(time: Any) -> str:
    return started({"timings": {"started_at": time.isoformat()}})


def _splits(record: Mapping[str, Any]) -> set[str]:
    """The splits that the record and its task name."""
    named = {str(split) for split in (record.get("split"), mapping(record.get("task")).get("split")) if split}
    return named or {NO_SPLIT}


def _calibration(path: str | None) -> Mapping[str, Mapping[str, Any]] | None:
    if path is None:
        return None
    from ..calibrate import read_calibration

    entries: Mapping[str, Mapping[str, Any]] = read_calibration(path)["tasks"]
    return entries


def _known_versions(options: Options, entries: Mapping[str, Mapping[str, Any]] | None) -> dict[str, str] | None:
    """Each task's current task_hash, where a file says it."""
    if options.tasks_file is not None and options.version is not None:
        raise InvalidArgument("--tasks and --version both say which versions are current; give one")
    if options.tasks_file is not None:
        return {task["id"]: task["task_hash"] for task in read_tasks(options.tasks_file)}
    if entries is not None and options.version is None:
        return {task_id: str(entry.get("task_hash")) for task_id, entry in entries.items()}
    return None
