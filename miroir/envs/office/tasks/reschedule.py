"""Move a meeting to the one free hour that suits somebody whose limits stand in no calendar."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from .. import clock
from ..coworkers import Coworker
from ..grading import Within, changed, contains, goal, told
from ..stage import Stage
from ..world import Row
from .template import Act, Situation, Swap, Template

_HOUR = timedelta(hours=1)
_STARTS = tuple(f"{hour:02}:00" for hour in range(9, 16))
_THINGS = (("demo rig", "Trial run"), ("large scanner", "Archive walkthrough"), ("test van", "Delivery rehearsal"))
_NEEDS = "We need the {thing} for this. {name} looks after it and knows when it is to be had."
_WINDOW = "On {day} the {thing} is there from {first} to {last} UTC."


class RescheduleByReply(Template):
    """The calendars leave three hours; a reply decides, and an older message speaks of another week."""

    name, level, team, calls = "reschedule-by-reply", 2, "Sales", 9

    def stage(self, stage: Stage) -> Situation:
        """A meeting of mine that has lost its day, its room taken whenever it could be, and one much like it."""
        company, draw, me = stage.company, stage.draw, stage.me
        guests: list[Row] = []
        for _ in range(2):
            guests.append(company.someone(but=[me, *guests], offices=["Berlin", "London"]))
        company.update(me, office="Berlin", utc_offset="+01:00")
        for person in (me, *guests):
            company.update(person, work_start="09:00", work_end="17:00")
        keeper = company.someone("Operations", "IT", but=guests)
        (thing, title), office = draw.pick(_THINGS), draw.pick(("Berlin", "London"))
        was, on, slots = stage.day(1), *self._day(stage, guests, f"{office} Dogwood")
        needs = _NEEDS.format(thing=thing, name=keeper["name"])
        event = stage.event(title, me, guests, clock.at(was, "10:00"), 60, room=f"{office} Dogwood", description=needs)
        twin = stage.event(f"{title} (internal)", me, guests[:1], clock.at(was, "14:00"), 60)
        right, *others = draw.shuffled(slots)
        fact = self._window(on, thing, right)
        stage.message("@" + keeper["id"], keeper, self._window(on - timedelta(days=14), thing, others[0]), hours=480)

        span = {"starts_at": clock.stamp(right), "ends_at": clock.stamp(right + _HOUR)}
        rooms = Within(self._rooms(stage, office, span))
        begins = contains(f"{right:%H:%M}", without=[f"{slot:%H:%M}" for slot in others])
        return Situation(
            f"My meeting {title} cannot take place on {clock.spoken(was)}. Please move it to {clock.spoken(on)}, to an "
            "hour that begins on the full hour, between 09:00 and 16:00 UTC, and when neither I nor my guests have "
            "anything else. Something is needed for it, see its description: ask the person named there in chat when "
            "we can have it, and choose the hour by that. If our room is taken then, book any other free one in the "
            "same office. Finally, tell that person in chat when we begin (in UTC).",
            goals=[
                goal("moved to the hour that suits", changed("events", event["id"], **span)),
                goal("a free room booked", changed("events", event["id"], room=rooms)),
                goal("the keeper knows the hour", told(keeper["id"], text=begins)),
            ],
            wrong=Swap("calendar_update", "event_id", event["id"], twin["id"]),
            brief={"me": me["id"], "title": title, "was": was.isoformat(), "day": on.isoformat()},
            coworkers=[Coworker(keeper["id"], keeper["name"], about=(thing, thing.split()[-1], title), fact=fact)],
        )

    def solve(self, act: Act, brief: Mapping[str, Any]) -> None:
        """Read the event, ask whom it names, and take the free hour within what they say."""
        events = act("calendar_list", first_day=brief["was"], last_day=brief["was"])["events"]
        listed = next(each for each in events if each["title"] == brief["title"])
        event = act("calendar_get", event_id=listed["event_id"])
        thing, name = re.findall(r"need the (.+) for this\. (.+) looks after", event["description"])[0]
        people = act("directory_search", query=name)["people"]
        keeper = next(person["email"] for person in people if person["name"] == name)
        day = clock.day(brief["day"])
        busy = act("calendar_busy", people=[brief["me"], *event["attendees"]], day=brief["day"])["busy"]
        free = _free(day, [(block["start"], block["end"]) for blocks in busy.values() for block in blocks])
        act("chat_direct_send", person=keeper, text=f"When can we have the {thing} on {clock.spoken(day)}?")
        reply = act("chat_direct_read", person=keeper)["messages"][0]["text"]
        first, last = (clock.at(day, time) for time in re.findall(r"\d\d:\d\d", reply))
        begin = next(hour for hour in free if first <= hour and hour + _HOUR <= last)
        span = {"start": clock.stamp(begin), "end": clock.stamp(begin + _HOUR)}
        rooms = act("calendar_rooms", office=event["room"].rpartition(" ")[0], **span)["rooms"]
        act("calendar_update", event_id=event["event_id"], room=rooms[0]["room"], **span)
        act("chat_direct_send", person=keeper, text=f"Thank you. We begin at {begin:%H:%M} UTC.")

    def _day(self, stage: Stage, guests: Sequence[Row], room: str) -> tuple[date, list[datetime]]:
        """A day on which three hours are left to everyone, and these; the room is taken in each of them."""
        names = {row["id"] for row in (stage.me, *guests)}
        events = [row for row in stage.world.all("events") if names & {row["organizer"], *row["attendees"]}]
        blocks = [(row["starts_at"], row["ends_at"]) for row in events]
        days = [stage.day(ahead) for ahead in range(2, 7)]
        on, free = next((day, free) for day in days if len(free := _free(day, blocks)) >= 3)
        slots = stage.draw.sample(free, 3)
        for hour in free:
            if hour in slots:
                stage.event("Board visit", stage.company.people[0], [], hour, 60, room=room)
            else:
                stage.event("Busy", stage.draw.pick(guests), [], hour, 60)
        return on, slots

    def _window(self, on: date, thing: str, slot: datetime) -> str:
        """A message of when the thing is there: around this hour, and around no other full one."""
        half = timedelta(minutes=30)
        first, last = f"{slot - half:%H:%M}", f"{slot + _HOUR + half:%H:%M}"
        return _WINDOW.format(day=clock.spoken(on), thing=thing, first=first, last=last)

    def _rooms(self, stage: Stage, office: str, span: Mapping[str, str]) -> tuple[str, ...]:
        """The office's rooms that are free then."""
        events = stage.world.all("events")
        taken = {
            row["room"] for row in events if row["starts_at"] < span["ends_at"] and span["starts_at"] < row["ends_at"]
        }
        return tuple(row["id"] for row in stage.world.all("rooms", office=office) if row["id"] not in taken)


def _free(on: date, blocks: Sequence[tuple[str, str]]) -> list[datetime]:
    """The full hours of the day that touch no block."""
    hours = [clock.at(on, start) for start in _STARTS]
    return [
        hour
        for hour in hours
        if all(end <= clock.stamp(hour) or clock.stamp(hour + _HOUR) <= start for start, end in blocks)
    ]
