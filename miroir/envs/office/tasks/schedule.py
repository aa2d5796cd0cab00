"""Find the earliest time that suits people in three time zones, and a room for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any

from .. import clock
from ..grading import added, contains, goal
from ..stage import Stage
from ..world import Row
from .template import Act, Situation, Swap, Template

_HOUR, _STEP = timedelta(hours=1), timedelta(minutes=30)
_TITLES = ("Atlas kick-off", "Pricing workshop", "Release rehearsal", "Vendor review", "Data migration walkthrough")


class ScheduleAroundConflicts(Template):
    """Working hours are in the directory, conflicts in the calendar; the smallest room is taken."""

    name, level, team, calls = "schedule-around-conflicts", 2, "Operations", 10

    def stage(self, stage: Stage) -> Situation:
        """Three guests with an hour in common, which is not the first that the calendars suggest."""
        company, draw, me = stage.company, stage.draw, stage.me
        company.update(me, office="Berlin", utc_offset="+01:00", work_start="09:00", work_end="17:00")
        guests: list[Row] = []
        for office, hours in (("London", ("09:00", "17:00")), ("Berlin", ("09:30", "17:30")), ("New York", None)):
            guest = company.someone(but=[me, *guests], offices=[office])
            work = hours or draw.pick((("08:00", "16:00"), ("08:30", "16:30")))
            guests.append(company.update(guest, work_start=work[0], work_end=work[1]))
        guests = draw.shuffled(guests)
        days = [stage.day(ahead) for ahead in range(1, 5)]
        on, free = next((day, free) for day in days if (free := _free(stage, guests, day)))
        for early in free[:-1]:
            stage.event("Blocked", draw.pick(guests), [], early, 30)
        start = free[-1]
        host = company.someone(but=[me, *guests])
        stage.event("Candidate debrief", host, [], start - _STEP, 90, room="Berlin Alder")
        other = company.namesake(guests[0], guests[0]["team"], "Working Student")

        title, names = draw.pick(_TITLES), [guest["name"] for guest in guests]
        meeting = partial(added, "events", attendees=sorted(guest["id"] for guest in guests), title=contains(title))
        starts_at, ends_at = clock.stamp(start), clock.stamp(start + _HOUR)
        return Situation(
            f"Please set up the {title} with {names[0]}, {names[1]} and {names[2]} on {clock.spoken(on)}. It takes an "
            "hour and begins on a full or half hour, as early as it can within everybody's working hours (mine too) "
            "and without touching anybody's other events. Book the smallest room of our Berlin office that is free "
            "then and seats the four of us.",
            goals=[
                goal("invites the three guests and nobody else", meeting()),
                goal("takes the earliest hour that suits all", meeting(starts_at=starts_at, ends_at=ends_at)),
                goal("books the smallest free room", meeting(room=_smallest(stage, starts_at, ends_at))),
            ],
            wrong=Swap("calendar_create", "attendees", guests[0]["id"], other["id"]),
            brief={"me": me["id"], "title": title, "names": names, "day": on.isoformat(), "office": "Berlin"},
        )

    def solve(self, act: Act, brief: Mapping[str, Any]) -> None:
        """Look up the guests, walk through the half hours of their common working time, take the first free one."""
        found = [act("directory_search", query=name)["people"] for name in brief["names"]]
        guests = [
            next(person["email"] for person in people if person["name"] == name)
            for people, name in zip(found, brief["names"], strict=True)
        ]
        everyone = [brief["me"], *guests]
        cards = [act("directory_get", email=email) for email in everyone]
        on = clock.day(brief["day"])
        spans = [
            [clock.at(on, card["working_hours"][edge], card["utc_offset"]) for edge in ("start", "end")]
            for card in cards
        ]
        busy = act("calendar_busy", people=everyone, day=brief["day"])["busy"]
        blocks = [(clock.moment(each["start"]), clock.moment(each["end"])) for email in busy for each in busy[email]]
        begin = _starts(max(span[0] for span in spans), min(span[1] for span in spans), blocks)[0]
        start, end = clock.stamp(begin), clock.stamp(begin + _HOUR)
        rooms = act("calendar_rooms", start=start, end=end, office=brief["office"])["rooms"]
        room = min((each for each in rooms if each["capacity"] >= len(everyone)), key=lambda each: each["capacity"])
        act("calendar_create", title=brief["title"], attendees=guests, start=start, end=end, room=room["room"])


def _starts(first: datetime, last: datetime, blocks: Sequence[tuple[datetime, datetime]]) -> list[datetime]:
    """The half hours from first on at which an hour without a block begins and ends by last."""
    steps = [first + index * _STEP for index in range(max(0, (last - first - _HOUR) // _STEP + 1))]
    return [start for start in steps if all(end <= start or start + _HOUR <= begin for begin, end in blocks)]


def _free(stage: Stage, guests: Sequence[Row], on: date) -> list[datetime]:
    everyone = [stage.me, *guests]
    first = max(clock.at(on, person["work_start"], person["utc_offset"]) for person in everyone)
    last = min(clock.at(on, person["work_end"], person["utc_offset"]) for person in everyone)
    names = {person["id"] for person in everyone}
    events = [row for row in stage.world.all("events") if names & {row["organizer"], *row["attendees"]}]
    return _starts(first, last, [(clock.moment(row["starts_at"]), clock.moment(row["ends_at"])) for row in events])


def _smallest(stage: Stage, start: str, end: str) -> str:
    events = stage.world.all("events")
    taken = {row["room"] for row in events if row["starts_at"] < end and start < row["ends_at"]}
    rooms = [row for row in stage.world.all("rooms", office="Berlin") if row["id"] not in taken]
    smallest: str = min(rooms, key=lambda row: row["capacity"])["id"]
    return smallest
