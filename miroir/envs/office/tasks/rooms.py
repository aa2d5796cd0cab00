"""Move one of two meetings out of the room that both have booked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import combinations
from typing import Any

from .. import clock
from ..grading import SameText, changed, contains, goal, sent, told
from ..stage import Stage
from ..world import Row
from .template import Act, Situation, Swap, Template

_RULES = """# Room rules

When two meetings have the same room at the same time:

1. The one with guests from outside keeps it. How many of them come stands in its description.
2. If both have guests, or neither has, the one with {size} people keeps it. People are the organizer, everybody who \
is invited, and the guests.
3. The other moves to the smallest room of the same office that is free then and seats its people.
4. Its host, who stands in the description, is told the new room, and the move is added to the room log as a line \
like the others in it.
"""
_TITLES = ("Atlas design review", "Quarterly outlook", "Supplier talks", "Roadmap session", "Contract reading")
_HALF = timedelta(minutes=30)


class PlanRoomSwap(Template):
    """Guests and hosts stand in the descriptions; the old rules and another office's room mislead."""

    name, level, team, calls = "plan-room-swap", 2, "Operations", 12

    def stage(self, stage: Stage) -> Situation:
        """Two meetings that overlap in a room, one right after them, one in another office's room."""
        company, draw = stage.company, stage.draw
        on = stage.day(draw.between(5, 8))
        start = clock.at(on, f"{draw.between(10, 13)}:00")
        starts = draw.shuffled((start, start + _HALF))
        office, elsewhere = draw.shuffled(("Berlin", "London"))
        room, titles = f"{office} Cedar", draw.shuffled(_TITLES)
        host, *hosts = draw.sample([row for row in company.people if row != stage.me], 4)
        size, guests = draw.pick(("more", "fewer")), draw.pick(((2, 0), (2, 2), (0, 0)))
        # By size alone the first of these would keep the room; guests turn it round.
        people = (draw.between(7, 9), draw.between(4, 6))[:: 1 if size == "more" else -1]
        keeps, moves = people[::-1] if guests == (2, 0) else people
        self._meeting(stage, titles[0], hosts[0], starts[0], f"{elsewhere} Cedar", (5, 0))
        self._meeting(stage, titles[1], hosts[1], start + 3 * _HALF, room, (6, 2))
        kept = self._meeting(stage, titles[2], hosts[2], starts[0], room, (keeps, guests[0]))
        moved = self._meeting(stage, titles[3], host, starts[1], room, (moves, guests[1]))
        if blocked := draw.chance(0.5):
            stage.event("Interview", company.lead("People"), [], starts[1] + _HALF, 60, room=f"{office} Birch")
        target = f"{office} {'Alder' if moves <= 4 else 'Birch' if moves <= 6 and not blocked else 'Dogwood'}"
        company.namesake(host, "Sales", "Trainee")
        columns = draw.shuffled(("day", "event", "from", "to"))
        log = self._files(stage, size, columns)
        logged = log["content"] + _line(columns, on.isoformat(), moved["id"], room, target)
        named = contains(target)
        return Situation(
            f"Two of the meetings that I have booked for others on {clock.spoken(on)} have the same room at the same "
            "time. Please solve that as our room rules say, which are among the shared files, and leave my other "
            "meetings as they are.",
            goals=[
                goal("the meeting that yields has the right room", changed("events", moved["id"], room=target)),
                goal("its host knows it", told(host["id"], text=named), sent(host["id"], body=named)),
                goal("the move is in the log", changed("files", log["id"], content=SameText(logged))),
            ],
            wrong=Swap("calendar_update", "event_id", moved["id"], kept["id"]),
            brief={"day": on.isoformat()},
        )

    def solve(self, act: Act, brief: Mapping[str, Any]) -> None:
        """Find the two that overlap, decide by the newer rules which of them moves, and where to."""
        day = brief["day"]
        events = act("calendar_list", first_day=day, last_day=day)["events"]
        pair = next(
            (one, two)
            for one, two in combinations([event for event in events if event["room"]], 2)
            if one["room"] == two["room"] and one["start"] < two["end"] and two["start"] < one["end"]
        )
        meetings = [act("calendar_get", event_id=event["event_id"]) for event in pair]
        files = act("files_search", query="room rules")["files"]
        rules = act("files_read", path=max(files, key=lambda file: file["updated_at"])["path"])["content"]
        moved = max(meetings, key=lambda event: _rank(rules, event))
        rooms = act("calendar_rooms", start=moved["start"], end=moved["end"], office=moved["room"].rpartition(" ")[0])
        fitting = [room for room in rooms["rooms"] if room["capacity"] >= _people(moved)]
        target = min(fitting, key=lambda room: room["capacity"])["room"]
        act("calendar_update", event_id=moved["event_id"], room=target)
        (name,) = re.findall(r"Host: (.+?)\.", moved["description"])
        found = act("directory_search", query=name)["people"]
        host = next(person["email"] for person in found if person["name"] == name)
        act("chat_direct_send", person=host, text=f"{moved['title']} on {day} is in {target} now.")
        files = act("files_search", query="room log csv")["files"]
        path = max(files, key=lambda file: file["updated_at"])["path"]
        columns = act("files_read", path=path)["content"].splitlines()[0].split(",")
        act("files_append", path=path, text=_line(columns, day, moved["event_id"], moved["room"], target))

    def _meeting(self, stage: Stage, title: str, host: Row, start: datetime, room: str, size: tuple[int, int]) -> Row:
        """An hour that `me` booked for the host, for so many people, so many guests among them."""
        people, guests = size
        others = [row for row in stage.company.people if row not in (stage.me, host)]
        invited = [host, *stage.draw.sample(others, people - 2 - guests)]
        description = f"Host: {host['name']}." + (f" With {guests} guests from outside." if guests else "")
        return stage.event(title, stage.me, invited, start, 60, room=room, description=description)

    def _files(self, stage: Stage, size: str, columns: Sequence[str]) -> Row:
        """The rules and the log, each with an older one; the log that holds is returned."""
        lead, turned = stage.company.lead("Operations"), {"more": "fewer", "fewer": "more"}[size]
        stage.file("/Operations/Archive/Room rules.md", lead, _RULES.format(size=turned), hours=7000)
        stage.file("/Operations/Room rules.md", lead, _RULES.format(size=size), hours=800)
        head, day = ",".join(columns) + "\n", stage.now.date() - timedelta(days=stage.draw.between(3, 9))
        line = _line(columns, day.isoformat(), f"event-{stage.draw.between(300, 900)}", "London Birch", "London Cedar")
        stage.file("/Operations/Archive/Room log.csv", lead, head, hours=6000)
        return stage.file("/Operations/Room log.csv", lead, head + line, hours=70)


def _line(columns: Sequence[str], day: str, event: str, old: str, new: str) -> str:
    """A line of the log, whose columns are in this order."""
    values = {"day": day, "event": event, "from": old, "to": new}
    return ",".join(values[column] for column in columns) + "\n"


def _guests(event: Mapping[str, Any]) -> int:
    found = re.findall(r"(\d+) guests", event["description"])
    return int(found[0]) if found else 0


def _people(event: Mapping[str, Any]) -> int:
    return 1 + len(event["attendees"]) + _guests(event)


def _rank(rules: str, event: Mapping[str, Any]) -> tuple[bool, int]:
    """Smaller for the meeting that keeps the room by the rules."""
    return _guests(event) == 0, -_people(event) if "with more people" in rules else _people(event)
