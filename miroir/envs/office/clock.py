"""Times as the world writes them: ISO-8601 in UTC, `2025-02-04T09:00:00Z`; days as `2025-02-04`."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from ...serve.environment import ToolError

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def stamp(moment: datetime) -> str:
    """The moment as ISO-8601 text in UTC."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def moment(text: str) -> datetime:
    """The moment that a time with an offset names; ToolError for anything else."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise ToolError(f"{text!r} is no ISO-8601 time; write it like 2025-02-04T09:00:00Z", "invalid_args") from None
    if parsed.tzinfo is None:
        raise ToolError(f"{text!r} has no UTC offset; add Z or an offset like +01:00", "invalid_args")
    return parsed.astimezone(UTC)


def day(text: str) -> date:
    """The day that `YYYY-MM-DD` names; ToolError for anything else."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ToolError(f"{text!r} is no day; write it like 2025-02-04", "invalid_args") from None


def weekday(on: date) -> str:
    """The English name of a day of the week, whatever the locale."""
    return _WEEKDAYS[on.weekday()]


def spoken(on: date) -> str:
    """A day as people write it here: `Tuesday, 2025-02-04`."""
    return f"{weekday(on)}, {on.isoformat()}"


def at(on: date, clock_time: str, utc_offset: str = "+00:00") -> datetime:
    """The moment of a local clock time (`HH:MM`) on a day, in a zone `UTC_OFFSET` hours from UTC."""
    return datetime.fromisoformat(f"{on.isoformat()}T{clock_time}:00{utc_offset}").astimezone(UTC)


def working_day(start: date, ahead: int) -> date:
    """The working day (Monday to Friday) `ahead` working days after `start`."""
    current = start
    while ahead > 0:
        current += timedelta(days=1)
        if current.weekday() < 5:
            ahead -= 1
    return current
