"""Calendar: everybody's events and the meeting rooms."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal

from ...serve.environment import ToolError
from . import clock
from .operation import Answer, App, Day, Email, Emails, Time, operation
from .world import Row, Rows

EventId = Annotated[str, "id of an event, like event-1234"]
Room = Annotated[str, "name of a meeting room"]

_LONGEST_RANGE_DAYS = 14


class Calendar(App):
    """Read calendars, and plan meetings of one's own."""

    name: ClassVar[str] = "calendar"
    summary: ClassVar[str] = "calendars and meeting rooms"

    @operation("List a person's events (yours by default) from one day to another, 14 days at most; times in UTC.")
    def list(self, first_day: Day, last_day: Day, person: Email | None = None) -> Answer:
        who = self._person(person or self.me)["id"]
        first, last = clock.day(first_day), clock.day(last_day)
        if not timedelta(0) <= last - first < timedelta(days=_LONGEST_RANGE_DAYS):
            raise ToolError(f"last_day must be 0 to {_LONGEST_RANGE_DAYS - 1} days after first_day", "invalid_args")
        rows = [row for row in self._of(who) if first_day <= row["starts_at"][:10] <= last_day]
        return {"person": who, "events": [_line(row) for row in rows]}

    @operation("When people are busy on a day; times in UTC. Working hours and absences are in the directory.")
    def busy(self, people: Emails, day: Day) -> Answer:
        clock.day(day)
        blocks = {}
        for person in people:
            rows = [row for row in self._of(self._person(person)["id"]) if row["starts_at"][:10] == day]
            blocks[person] = [{"start": row["starts_at"], "end": row["ends_at"]} for row in rows]
        return {"day": day, "busy": blocks}

    @operation("Meeting rooms that are free from start to end, with office, capacity and equipment.")
    def rooms(self, start: Time, end: Time, office: Annotated[str, "city of the office"] | None = None) -> Answer:
        first, last = self._span(start, end)
        rows = [row for row in self.world.all("rooms") if office in (None, row["office"])]
        if not rows:
            offices = sorted({row["office"] for row in self.world.all("rooms")})
            raise ToolError(f"there is no office {office!r}; offices: {', '.join(offices)}")
        free = [row for row in rows if self._booking(row["id"], first, last, None) is None]
        return {"rooms": [{"room": row["id"]} | {key: row[key] for key in row if key != "id"} for row in free]}

    @operation("One event in full.")
    def get(self, event_id: EventId) -> Answer:
        row = self._event(event_id)
        return _line(row) | {"responses": row["responses"], "description": row["description"]}

    @operation("Create an event that you organize and invite others to it.", writes=True)
    def create(
        self,
        title: str,
        attendees: Emails,
        start: Time,
        end: Time,
        room: Room | None = None,
        description: str = "",
    ) -> Answer:
        first, last = self._span(start, end)
        self._free(room, first, last, None)
        invited = self._invited(attendees)
        row = self.world.insert(
            "events",
            title=title,
            organizer=self.me,
            attendees=invited,
            responses=dict.fromkeys(invited, "needs_action"),
            starts_at=first,
            ends_at=last,
            room=room,
            description=description,
        )
        return _line(row)

    @operation("Change an event that you organize; what you leave out stays.", writes=True)
    def update(
        self,
        event_id: EventId,
        title: str | None = None,
        attendees: Emails | None = None,
        start: Time | None = None,
        end: Time | None = None,
        room: Room | None = None,
        description: str | None = None,
    ) -> Answer:
        row = self._own(event_id)
        first, last = self._span(start or row["starts_at"], end or row["ends_at"])
        self._free(room or row["room"], first, last, event_id)
        changes: Row = {"starts_at": first, "ends_at": last, "room": room or row["room"]}
        if attendees is not None:
            invited = self._invited(attendees)
            changes |= {
                "attendees": invited,
                "responses": {email: row["responses"].get(email, "needs_action") for email in invited},
            }
        changes |= {"title": title or row["title"]}
        changes |= {"description": row["description"] if description is None else description}
        return _line(self.world.update("events", event_id, **changes))

    @operation("Answer an invitation of yours.", writes=True)
    def respond(self, event_id: EventId, response: Literal["accepted", "declined", "tentative"]) -> Answer:
        row = self._event(event_id)
        if self.me not in row["attendees"]:
            raise ToolError(f"you are not invited to {event_id}; its organizer is {row['organizer']}")
        self.world.update("events", event_id, responses=row["responses"] | {self.me: response})
        return {"event_id": event_id, "response": response}

    @operation("Cancel an event that you organize.", writes=True)
    def cancel(self, event_id: EventId) -> Answer:
        self.world.delete("events", self._own(event_id)["id"])
        return {"event_id": event_id, "cancelled": True}

    def _of(self, person: str) -> Rows:
        rows = [row for row in self.world.all("events") if person in (row["organizer"], *row["attendees"])]
        attending = [row for row in rows if row["responses"].get(person) != "declined"]
        return sorted(attending, key=lambda row: row["starts_at"])

    def _event(self, event_id: str) -> Row:
        row = self.world.get("events", event_id)
        if row is None:
            raise ToolError(f"there is no event {event_id!r}; calendar list gives the ids")
        return row

    def _own(self, event_id: str) -> Row:
        row = self._event(event_id)
        if row["organizer"] != self.me:
            raise ToolError(f"only the organizer, {row['organizer']}, can change {event_id}; you can respond to it")
        return row

    def _invited(self, attendees: Emails) -> Emails:
        return sorted({self._person(email)["id"] for email in attendees} - {self.me})

    def _span(self, start: str, end: str) -> tuple[str, str]:
        first, last = clock.moment(start), clock.moment(end)
        if last <= first:
            raise ToolError(f"the end {end} must be after the start {start}", "invalid_args")
        return clock.stamp(first), clock.stamp(last)

    def _booking(self, room: str, first: str, last: str, but: str | None) -> Row | None:
        """The event other than `but` that has the room at some moment from first to last."""
        booked = [row for row in self.world.all("events", room=room) if row["id"] != but]
        return next((row for row in booked if row["starts_at"] < last and first < row["ends_at"]), None)

    def _free(self, room: str | None, first: str, last: str, but: str | None) -> None:
        """ToolError when the room is not known or taken."""
        if room is None:
            return
        if self.world.get("rooms", room) is None:
            names = [row["id"] for row in self.world.all("rooms")]
            raise ToolError(f"there is no room {room!r}; rooms: {', '.join(names)}")
        taken = self._booking(room, first, last, but)
        if taken is not None:
            raise ToolError(f"{room} is taken from {taken['starts_at']} to {taken['ends_at']} by {taken['id']}")


def _line(row: Row) -> dict[str, Any]:
    return {
        "event_id": row["id"],
        "title": row["title"],
        "organizer": row["organizer"],
        "attendees": row["attendees"],
        "start": row["starts_at"],
        "end": row["ends_at"],
        "room": row["room"],
    }
