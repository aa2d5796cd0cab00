"""What can be asked of a derivation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from ..errors import InvalidArgument
from .formats import Format, Kind
from .pairs import MODES
from .selection import PICKS

OUTCOMES = ("success", "failure", "any")
TOO_LONG = ("drop", "cut")
TRAINING_SPLIT = "train"
NO_SPLIT = "none"  # how --allow-split names records without one


@dataclass(frozen=True)
class Options:
    """Which records are taken, what is guarded against, and how rows are made; the defaults are the safe ones.

    Which: `splits`, `tasks`, `agents`, `models`, `classes` of `calibration`, rewards, times, `outcome`; `tasks_file`
    and `version` say which versions of tasks are current; `notes` leaves out records judged wrongly graded,
    `only_reviewed` all that were not judged right. How many: `pick`, `k` a task, `balance`. Pairs: `pairs`, `margin`,
    `length_ratio`, `max_pairs` a task, `max_uses` a record. Guards: `allow_splits`, `exclude`, `redact`, `canaries`,
    and the allowances. Length in tokens: `tokenizer`, `max_tokens`, `too_long`. `validation` is the held-out share.
    """

    splits: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    outcome: str | None = None
    min_reward: float | None = None
    max_reward: float | None = None
    since: datetime | None = None
    until: datetime | None = None
    calibration: str | None = None
    classes: tuple[str, ...] = ()
    tasks_file: str | None = None
    version: str | None = None
    notes: str | None = None
    only_reviewed: bool = False
    pick: str | None = None
    k: int | None = None
    balance: bool = False
    seed: int = 0
    pairs: str = "all"
    margin: float = 0.0
    length_ratio: float | None = None
    max_pairs: int | None = None
    max_uses: int | None = None
    allow_splits: tuple[str, ...] = ()
    allow_harm: bool = False
    allow_grader_text: bool = False
    allow_invalid_calls: bool = False
    mask_errors: bool = False
    exclude: tuple[str, ...] = ()
    redact: tuple[str, ...] = ()
    canaries: tuple[str, ...] = ()
    tools_file: str | None = None
    reasoning: bool = True
    tokenizer: str | None = None
    max_tokens: int | None = None
    too_long: str = "drop"
    validation: float = 0.0
    skip_bad: bool = False

    def __post_init__(self) -> None:
        _one_of("outcome", self.outcome, (None, *OUTCOMES))
        _one_of("pick", self.pick, (None, *PICKS))
        _one_of("pairs", self.pairs, MODES)
        _one_of("too_long", self.too_long, TOO_LONG)
        for name in ("k", "max_pairs", "max_uses", "max_tokens"):
            _at_least(name, getattr(self, name), 1)
        _at_least("margin", self.margin, 0)
        _at_least("length_ratio", self.length_ratio, 1)
        if not 0 <= self.validation < 1:
            raise InvalidArgument(f"a validation share of {self.validation} cannot be; give one from 0 to below 1")
        if self.only_reviewed and not self.notes:
            raise InvalidArgument("only reviewed records were asked for, but no notes; name them with --notes FILE")
        if self.classes and not self.calibration:
            raise InvalidArgument("classes need a calibration file; name it with --calibration FILE")
        if "" in self.canaries:
            raise InvalidArgument("an empty canary is in every text; give one that marks something")

    def refuse_for(self, format_: Format) -> None:
        """InvalidArgument where the format cannot do what these options ask."""
        name = format_.name
        if self.too_long == "cut" and not (format_.cuts or format_.kind is Kind.TURNS):
            raise InvalidArgument(f"rows of {name} cannot be cut without changing what they say; use --too-long drop")
        if self.mask_errors and not format_.masks:
            raise InvalidArgument(f"{name} cannot mask single messages; use openai or turns")
        if format_.kind is Kind.PAIRS and (self.pick or self.k or self.balance):
            raise InvalidArgument("pairs are limited by --max-pairs and --max-uses, not by --pick, -k or --balance")
        if format_.kind is not Kind.PAIRS and self.pairs != "all":
            raise InvalidArgument(f"{name} has no pairs; use --format dpo")


def moment(text: str) -> datetime:
    """A time written as ISO 8601, in UTC unless it says otherwise."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidArgument(f"{text!r} is no time; write it like 2026-01-31 or 2026-01-31T12:00:00Z") from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _one_of(name: str, value: str | None, known: tuple[str | None, ...]) -> None:
    if value not in known:
        choices = ", ".join(str(each) for each in known if each is not None)
        raise InvalidArgument(f"{name} is {value!r}; choose one of {choices}")


def _at_least(name: str, value: float | None, least: int) -> None:
    if value is not None and not value >= least:
        raise InvalidArgument(f"{name} is {value}; give at least {least}")
