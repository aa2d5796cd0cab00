"""What records say about each task, added up in one pass: a few numbers a rollout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ..errors import InvalidArgument, RecordError
from ..records import required
from ..records.schema import GRADE_KEYS, moment
from .names import named

LATEST = "latest"
LARGEST = 1e100  # numbers beyond it are none of a rollout's, and their squares no floats

Agent = tuple[str | None, str | None]  # name and model
NOBODY: Agent = (None, None)

_NUMBERS = (float, int)


@dataclass
class Tally:
    """One version of a task: the rewards of its graded rollouts, and counts; void rollouts have no reward.

    `harmed` counts graded rollouts. `seconds`, `steps` and `tokens` are those of graded rollouts that have them.
    """

    task_hash: str
    rewards: list[float] = field(default_factory=list)
    successes: int = 0
    harmed: int = 0
    void: int = 0
    harmed_void: int = 0
    void_by: Counter[str] = field(default_factory=Counter)  # how void rollouts ended
    seconds: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)
    started: datetime | None = None  # the last rollout
    agent: Agent = NOBODY  # of the graded rollouts

    def add(self, record: Mapping[str, Any], agent: Agent) -> None:
        """Count one record of this version, which the agent played."""
        metadata = record["metadata"]
        at = moment(record)
        if at and (self.started is None or at > self.started):
            self.started = at
        reward = record["reward"]
        if reward is None:
            self.void += 1
            self.harmed_void += metadata["harm"]
            self.void_by[str(metadata.get("ended_by"))] += 1
            return
        self.agent = agent
        self.rewards.append(float(reward))
        self.successes += metadata["success"]
        self.harmed += metadata["harm"]
        usage = record.get("usage")
        if (seconds := _number(record.get("timings"), "episode_s")) is not None:
            self.seconds.append(seconds)
        if (steps := _number(record.get("diagnostics"), "steps")) is not None:
            self.steps.append(steps)
        if (read := _number(usage, "prompt_tokens")) is not None:
            self.tokens.append(read + (_number(usage, "completion_tokens") or 0))


def tally(
    records: Iterable[Mapping[str, Any]],
    *,
    agent: str | None = None,
    model: str | None = None,
    versions: Collection[str] = (),
    checked: bool = False,
) -> dict[str, Tally]:
    """Each task's tally, in order of first appearance; of one agent and one version of each task.

    `agent` and `model` keep the records of that agent name and model. `versions` (task hashes, or `latest`: the one
    whose last rollout started last) chooses where a task has several. RecordError where a record lacks what is needed
    (`checked`: it was loaded with `GRADE_KEYS` required), and where agents or versions are mixed and not chosen.
    """
    found: dict[str, dict[str, Tally]] = {}
    agents: Counter[Agent] = Counter()
    others: Counter[Agent] = Counter()
    for record in records if checked else _checked(records):
        who = _agent_of(record)
        if agent in (None, who[0]) and model in (None, who[1]):
            if record["reward"] is not None or None not in who:  # a rollout can be void before its agent is known
                agents[who] += 1
            _version(found, record).add(record, who)
        else:
            others[who] += 1
        del record  # before the next one is parsed, which then takes its memory, still in the cache
    if others and not found:
        raise RecordError(
            f"none of {others.total():,} records is of that agent and model; they are of {_counted(others)}"
        )
    _refuse_mixed_agents(agents)
    _refuse_boundless(found)
    _refuse_unknown(versions, found)
    tallies = {task_id: _one_version(list(tallies.values()), versions) for task_id, tallies in found.items()}
    _refuse_mixed_versions({task_id: found[task_id] for task_id, chosen in tallies.items() if chosen is None})
    return {task_id: chosen for task_id, chosen in tallies.items() if chosen is not None}


def _checked(records: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for number, record in enumerate(records, 1):
        required(record, f"record {number}", GRADE_KEYS)
        yield record


def _version(found: dict[str, dict[str, Tally]], record: Mapping[str, Any]) -> Tally:
    versions = found.setdefault(record["task_id"], {})
    task_hash = record["metadata"]["task_hash"]
    one = versions.get(task_hash)
    if one is None:
        one = versions[task_hash] = Tally(task_hash)
    return one


def _one_version(tallies: list[Tally], versions: Collection[str]) -> Tally | None:
    """The one version that counts, or None where none is chosen."""
    if len(tallies) > 1:
        named_ones = [tally for tally in tallies if tally.task_hash in versions]
        if LATEST in versions and not named_ones:
            latest = max((tally.started for tally in tallies if tally.started), default=None)
            named_ones = [tally for tally in tallies if tally.started == latest]
        tallies = named_ones
    return tallies[0] if len(tallies) == 1 else None


def _refuse_mixed_agents(agents: Counter[Agent]) -> None:
    if len(agents) > 1:
        raise RecordError(
            f"the records are of {len(agents)} agents: {_counted(agents)}; "
            "choose one with --agent-filter or --model-filter"
        )


def _counted(agents: Counter[Agent]) -> str:
    """The agents with most records: name, model and number."""
    return ", ".join(
        f"{' with '.join(filter(None, who)) or 'nobody named'} ({count:,})" for who, count in agents.most_common(5)
    )


def _refuse_boundless(found: Mapping[str, Mapping[str, Tally]]) -> None:
    """RecordError for rewards of which no mean or variance is a float; NaN is one of them."""
    beyond = [
        task_id
        for task_id, tallies in found.items()
        if not all(abs(reward) <= LARGEST for tally in tallies.values() for reward in tally.rewards)
    ]
    if beyond:
        raise RecordError(
            f"rewards of {named(beyond)} are beyond {LARGEST:g}; mend the grader, or leave those records out"
        )


def _refuse_unknown(versions: Collection[str], found: Mapping[str, Mapping[str, Tally]]) -> None:
    hashes = {task_hash for tallies in found.values() for task_hash in tallies}
    unknown = sorted(set(versions) - hashes - {LATEST})
    if unknown:
        raise InvalidArgument(f"no record has the task_hash {named(unknown)}; give --version latest or another hash")


def _refuse_mixed_versions(mixed: Mapping[str, Mapping[str, Tally]]) -> None:
    if mixed:
        task_id, tallies = next(iter(mixed.items()))
        counts = ", ".join(f"{key} ({len(one.rewards) + one.void} rollouts)" for key, one in tallies.items())
        raise RecordError(
            f"rollouts of several versions of {named(mixed)}; those of {named([task_id])} are {counts}; "
            "choose with --version latest or --version HASH"
        )


def _agent_of(record: Mapping[str, Any]) -> Agent:
    """Who played, by name and model, as far as the record says."""
    agent = record.get("agent")
    if type(agent) is not dict:
        return NOBODY
    name, model = agent.get("name"), agent.get("model")
    return name if type(name) is str else None, model if type(model) is str else None


def _number(section: Any, name: str) -> float | None:
    """A number of one of the record's sections; None where either is missing, of another type, or beyond `LARGEST`."""
    value: Any = section.get(name) if type(section) is dict else None
    return value if type(value) in _NUMBERS and -LARGEST <= value <= LARGEST else None
