"""What records say about each task, added up in one pass: a few numbers a rollout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ..errors import InvalidArgument, RecordError
from ..records import required
from .names import named

KEYS = ("task_id", "reward", "metadata.task_hash", "metadata.success", "metadata.harm")
LATEST = "latest"
_NEVER = datetime.min.replace(tzinfo=UTC)

Agent = tuple[str | None, str | None]  # name and model


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
    agents: Counter[Agent] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)
    started: datetime = _NEVER  # the last rollout

    def add(self, record: Mapping[str, Any]) -> None:
        """Count one record of this version."""
        metadata = record["metadata"]
        self.agents[_agent(record)] += 1
        self.started = max(self.started, _started(record))
        reward = record["reward"]
        if reward is None:
            self.void += 1
            self.harmed_void += metadata["harm"]
            self.void_by[str(metadata.get("ended_by"))] += 1
            return
        self.rewards.append(float(reward))
        self.successes += metadata["success"]
        self.harmed += metadata["harm"]
        self.seconds += _numbers(record, "timings", "episode_s")
        self.steps += _numbers(record, "diagnostics", "steps")
        used = _numbers(record, "usage", "prompt_tokens", "completion_tokens")
        if used:
            self.tokens.append(sum(used))


def tally(
    records: Iterable[Mapping[str, Any]],
    *,
    agent: str | None = None,
    model: str | None = None,
    versions: Collection[str] = (),
) -> dict[str, Tally]:
    """Each task's tally, in order of first appearance; of one agent and one version of each task.

    `agent` and `model` keep the records of that agent name and model. `versions` (task hashes, or `latest`: the one
    whose last rollout started last) chooses where a task has several. RecordError where a record lacks what is needed,
    and where agents or versions are mixed and not chosen.
    """
    found: dict[str, dict[str, Tally]] = {}
    for number, record in enumerate(records, 1):
        required(record, f"record {number}", KEYS)
        if not _chosen(_agent(record), agent, model):
            continue
        task_versions = found.setdefault(record["task_id"], {})
        task_hash = record["metadata"]["task_hash"]
        if task_hash not in task_versions:
            task_versions[task_hash] = Tally(task_hash)
        task_versions[task_hash].add(record)
    _refuse_mixed_agents(found)
    _refuse_unknown(versions, found)
    tallies = {task_id: _one_version(list(tallies.values()), versions) for task_id, tallies in found.items()}
    _refuse_mixed_versions({task_id: found[task_id] for task_id, chosen in tallies.items() if chosen is None})
    return {task_id: chosen for task_id, chosen in tallies.items() if chosen is not None}


def _chosen(agent: Agent, name: str | None, model: str | None) -> bool:
    return name in (None, agent[0]) and model in (None, agent[1])


def _one_version(tallies: list[Tally], versions: Collection[str]) -> Tally | None:
    """The one version that counts, or None where none is chosen."""
    if len(tallies) > 1:
        named_ones = [tally for tally in tallies if tally.task_hash in versions]
        if LATEST in versions and not named_ones:
            latest = max(tally.started for tally in tallies)
            named_ones = [tally for tally in tallies if tally.started == latest]
        tallies = named_ones
    return tallies[0] if len(tallies) == 1 else None


def _refuse_mixed_agents(found: Mapping[str, Mapping[str, Tally]]) -> None:
    agents: Counter[Agent] = Counter()
    for tallies in found.values():
        for one in tallies.values():
            agents.update(one.agents)
    if len(agents) > 1:
        counts = ", ".join(f"{name} with {model} ({count:,})" for (name, model), count in agents.most_common(5))
        raise RecordError(
            f"the records are of {len(agents)} agents: {counts}; choose one with --agent-filter or --model-filter"
        )


def _refuse_unknown(versions: Collection[str], found: Mapping[str, Mapping[str, Tally]]) -> None:
    hashes = {task_hash for tallies in found.values() for task_hash in tallies}
    unknown = sorted(set(versions) - hashes - {LATEST})
    if unknown:
        raise InvalidArgument(f"no record has the task_hash {named(unknown)}; give --version latest or another hash")


def _refuse_mixed_versions(mixed: Mapping[str, Mapping[str, Tally]]) -> None:
    if mixed:
        task_id, tallies = next(iter(mixed.items()))
        counts = ", ".join(f"{key} ({sum(one.agents.values())} rollouts)" for key, one in tallies.items())
        raise RecordError(
            f"rollouts of several versions of {named(mixed)}; those of {named([task_id])} are {counts}; "
            "choose with --version latest or --version HASH"
        )


def _agent(record: Mapping[str, Any]) -> Agent:
    agent = record.get("agent")
    return (agent.get("name"), agent.get("model")) if isinstance(agent, Mapping) else (None, None)


def _started(record: Mapping[str, Any]) -> datetime:
    timings = record.get("timings")
    try:
        started = datetime.fromisoformat(timings["started_at"]) if timings else _NEVER
    except (KeyError, TypeError, ValueError):
        return _NEVER
    return started if started.tzinfo else started.replace(tzinfo=UTC)


def _numbers(record: Mapping[str, Any], section: str, *names: str) -> list[float]:
    holder = record.get(section)
    if not isinstance(holder, Mapping):
        return []
    return [holder[name] for name in names if type(holder.get(name)) in (int, float)]
