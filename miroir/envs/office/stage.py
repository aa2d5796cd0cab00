"""The stage of a task: a company with its daily noise, and short ways to set a situation in it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

from . import clock, files
from .company import Company
from .draw import Draw
from .world import Row, World

_FIRST_DAY = date(2025, 1, 14)
_DAYS = 40


class Stage:
    """A seeded company at 09:00 UTC of a working day, seen by `me`, who works in `team`."""

    def __init__(self, name: str, seed: int, team: str) -> None:
        self.draw = Draw("office", name, seed)
        today = clock.working_day(_FIRST_DAY + timedelta(days=self.draw.between(0, _DAYS)), 1)
        self.now = datetime(today.year, today.month, today.day, 9, 0, tzinfo=UTC)
        self.world = World(self.now, Draw("ids", name, seed))
        self.company = Company(self.world, self.draw)
        self.me = self.company.someone(team)

    def ago(self, hours: float) -> str:
        """A time so many hours back, or up to an hour later, so that more hours are always earlier."""
        minutes = self.draw.between(0, 59) if hours >= 1 else 0
        return clock.stamp(self.now - timedelta(hours=hours, minutes=-minutes))

    def day(self, ahead: int) -> date:
        """The working day so many working days ahead; 0 is today."""
        return clock.working_day(self.now.date(), ahead)

    def mail(
        self,
        sender: Row | str,
        subject: str,
        body: str,
        *,
        hours: float,
        to: Sequence[Row] = (),
        cc: Sequence[Row] = (),
        reply_to: Row | None = None,
        read: bool = False,
    ) -> Row:
        """A mail to `me` (or `to`), so many hours old; `reply_to` puts it into that mail's conversation."""
        address = sender if isinstance(sender, str) else sender["id"]
        mine = address == self.me["id"]
        row = self.world.insert(
            "mails",
            sender=address,
            recipients=sorted(person["id"] for person in to or [self.me]),
            cc=sorted(person["id"] for person in cc),
            subject=subject,
            body=body,
            sent_at=self.ago(hours),
            folder="sent" if mine else "inbox",
            read=int(read or mine),
        )
        return self.world.update("mails", row["id"], thread=reply_to["thread"] if reply_to else row["id"])

    def message(self, channel: str, author: Row, text: str, *, hours: float) -> Row:
        """A chat message in a channel, `#name` or `@address` (a direct conversation of `me` with that person)."""
        return self.world.insert("messages", channel=channel, author=author["id"], text=text, sent_at=self.ago(hours))

    def channel(self, name: str, topic: str, members: Sequence[Row]) -> Row:
        """A private channel."""
        inside = sorted(person["id"] for person in members)
        return self.world.insert("channels", name, topic=topic, members=inside, private=1)

    def event(
        self,
        title: str,
        organizer: Row,
        attendees: Sequence[Row],
        start: datetime,
        minutes: int,
        *,
        room: str | None = None,
        description: str = "",
    ) -> Row:
        """An event, accepted by all who attend."""
        invited = sorted(person["id"] for person in attendees if person["id"] != organizer["id"])
        return self.world.insert(
            "events",
            title=title,
            organizer=organizer["id"],
            attendees=invited,
            responses=dict.fromkeys(invited, "accepted"),
            starts_at=clock.stamp(start),
            ends_at=clock.stamp(start + timedelta(minutes=minutes)),
            room=room,
            description=description,
        )

    def ticket(
        self,
        title: str,
        body: str,
        requester: Row,
        queue: str,
        *,
        hours: float,
        assignee: Row | None = None,
        priority: str = "normal",
        status: str = "open",
        due_on: date | None = None,
    ) -> Row:
        """A help-desk ticket."""
        created_at = self.ago(hours)
        return self.world.insert(
            "tickets",
            title=title,
            body=body,
            requester=requester["id"],
            queue=queue,
            assignee=assignee["id"] if assignee else None,
            priority=priority,
            status=status,
            created_at=created_at,
            due_on=due_on.isoformat() if due_on else None,
            updated_at=created_at,
        )

    def comment(self, ticket: Row, author: Row, text: str, *, hours: float) -> Row:
        """A comment on a ticket."""
        written_at = self.ago(hours)
        return self.world.insert("comments", ticket=ticket["id"], author=author["id"], text=text, written_at=written_at)

    def file(self, path: str, owner: Row, content: str, *, hours: float, readers: Sequence[Row] | None = None) -> Row:
        """A shared file in its first version; everyone reads it unless `readers` are given."""
        may_read = [files.EVERYONE] if readers is None else sorted(person["id"] for person in readers)
        row = self.world.insert("files", path=path, owner=owner["id"], readers=may_read, content="", version=0)
        return files.save(self.world, row, content, owner["id"], self.ago(hours))

    def revise(self, file: Row, author: Row, content: str, *, hours: float) -> Row:
        """A newer version of a file."""
        return files.save(self.world, file, content, author["id"], self.ago(hours))
