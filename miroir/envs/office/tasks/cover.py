"""Clear the calendar of days away by a delegation note, and tell organizers who comes instead."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from .. import clock
from ..grading import Goal, changed, contains, deleted, goal, sent, told
from ..stage import Stage
from ..world import Row
from .template import Act, Situation, Swap, Template

_NOTE = """# Delegation note of {name}

While I am out of office:

- Meetings that I organize for our own team alone are cancelled.
- Meetings that I organize with anybody from elsewhere move to the day on which I am back, at the same time.
- Invitations from our own team stay as they are, I join by phone.
- Invitations from other teams are declined, and their organizer is told who comes in my place: {first}, or, \
if that calendar is not free at the time: {second}.
"""
_INVITATIONS = ("Contract round", "Launch checklist", "Cost review", "Supplier call", "Hiring round", "Demo rehearsal")


class CoverAbsence(Template):
    """When and what is away stands in the directory and in a note; who comes depends on a calendar."""

    name, level, team, calls = "cover-absence", 3, "Sales", 13

    def stage(self, stage: Stage) -> Situation:
        """Five meetings in the days away, one of them to be left, and the same series on the day before."""
        company, draw, me = stage.company, stage.draw, stage.me
        away = [stage.day(ahead) for ahead in (6, 7, 8)]
        back = stage.day(9)
        company.update(
            me, out_from=away[0].isoformat(), out_until=away[-1].isoformat(), out_note=f"Back on {clock.spoken(back)}."
        )
        first, second, mate = draw.shuffled([row for row in company.members(me["team"])[1:] if row != me])
        self._notes(stage, first, second, mate)
        one = company.someone("Engineering", "Finance", but=[me])
        two = company.someone("Marketing", "Operations", but=[me])
        guest = company.someone("People", "IT")
        start = [clock.at(day, draw.pick(("14:00", "14:30", "15:00"))) for day in away]
        hour = timedelta(hours=1)
        own = stage.event("Numbers of the week", me, [first, mate], start[0] - hour, 30)
        mixed = stage.event("Terms for new partners", me, [mate, guest], start[1] - hour, 60)
        stage.event("Team breakfast", company.lead(me["team"]), [me, first, second, mate], start[2] - 4 * hour, 60)
        titles = draw.sample(_INVITATIONS, 2)
        covered = stage.event(titles[0], one, [me, guest], start[1], 60)
        before = stage.event(titles[0], one, [me, guest], clock.at(stage.day(5), "14:00"), 60)
        busy = stage.event(titles[1], two, [me], start[2], 60)
        stage.event("Customer call", first, [], start[1] + hour, 30)
        stage.event("Customer call", first, [], start[2] + hour / 2, 30)
        moved = {edge: clock.stamp(clock.at(back, mixed[edge][11:16])) for edge in ("starts_at", "ends_at")}
        return Situation(
            "I will be out of office for some days soon; the directory has the dates. Please clear my calendar of "
            "those days as my delegation note says, which is among the shared files. Where the note wants an "
            "organizer to be told something, write to them directly and name the person in full.",
            goals=[
                goal("own team's meeting cancelled", deleted("events", own["id"])),
                goal("meeting with a guest moved to the day of the return", changed("events", mixed["id"], **moved)),
                *self._covered(me, covered, first, "first delegate"),
                *self._covered(me, busy, second, "second delegate"),
            ],
            wrong=Swap("calendar_respond", "event_id", covered["id"], before["id"]),
            brief={"me": me["id"]},
        )

    def solve(self, act: Act, brief: Mapping[str, Any]) -> None:
        """Look up the absence and the note, then go through the meetings of those days."""
        card = act("directory_get", email=brief["me"])
        absence, name = card["out_of_office"], card["name"]
        files = [file for file in act("files_search", query=f"delegation note {name}")["files"] if name in file["path"]]
        note = act("files_read", path=max(files, key=lambda file: file["updated_at"])["path"])["content"]
        ((first, second),) = re.findall(r"in my place: (.+?), or, .*: (.+?)\.", note)
        back = clock.day(re.findall(r"\d{4}-\d\d-\d\d", absence["note"])[0])
        team = {person["email"]: person["name"] for person in act("directory_team", team=card["team"])["members"]}
        delegate = next(email for email in team if team[email] == first)
        events = act("calendar_list", first_day=absence["from"], last_day=absence["until"])["events"]
        for event in events:
            event_id, edges = event["event_id"], {edge: event[edge] for edge in ("start", "end")}
            if event["organizer"] == brief["me"] and team.keys() >= set(event["attendees"]):
                act("calendar_cancel", event_id=event_id)
            elif event["organizer"] == brief["me"]:
                moved = {edge: clock.stamp(clock.at(back, time[11:16])) for edge, time in edges.items()}
                act("calendar_update", event_id=event_id, **moved)
            elif event["organizer"] not in team:
                blocks = act("calendar_busy", people=[delegate], day=event["start"][:10])["busy"][delegate]
                free = all(block["end"] <= edges["start"] or edges["end"] <= block["start"] for block in blocks)
                act("calendar_respond", event_id=event_id, response="declined")
                text = f"I am away. {first if free else second} comes to {event['title']} in my place."
                act("chat_direct_send", person=event["organizer"], text=text)

    def _notes(self, stage: Stage, first: Row, second: Row, mate: Row) -> None:
        """The note that holds, an older one, and a colleague's."""
        me = stage.me
        notes = (
            ("/Sales/Delegation", me, first, second, 60),
            ("/Sales/Archive/Delegation", me, mate, first, 4000),
            ("/Sales/Delegation", mate, me, second, 20),
        )
        for folder, owner, one, other, hours in notes:
            content = _NOTE.format(name=owner["name"], first=one["name"], second=other["name"])
            stage.file(f"{folder}/Delegation note {owner['name']}.md", owner, content, hours=hours)

    def _covered(self, me: Row, event: Row, delegate: Row, who: str) -> list[Goal]:
        """The event is declined and its organizer knows who comes."""
        organizer, words = event["organizer"], contains(delegate["name"])
        declined = changed("events", event["id"], responses={**event["responses"], me["id"]: "declined"})
        return [
            goal(f"invitation declined that the {who} takes", declined),
            goal(f"its organizer told of the {who}", told(organizer, text=words), sent(organizer, body=words)),
        ]
