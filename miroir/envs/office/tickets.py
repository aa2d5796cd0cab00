"""Help-desk tickets and their comments."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from ...serve.environment import ToolError
from . import clock, listing
from .operation import Answer, App, Day, Email, Page, Query, operation
from .world import Row, Rows

TicketId = Annotated[str, "id of a ticket, like T-1234"]
Queue = Literal["hardware", "access", "network", "facilities", "payroll", "procurement"]
Priority = Literal["low", "normal", "high", "urgent"]
Status = Literal["open", "in_progress", "waiting", "resolved", "closed"]


class Tickets(App):
    """Read, file and work on help-desk tickets."""

    name: ClassVar[str] = "tickets"
    summary: ClassVar[str] = "the help desk's tickets"

    @operation("List tickets, oldest first; every filter may be left out.")
    def list(
        self,
        queue: Queue | None = None,
        status: Status | None = None,
        priority: Priority | None = None,
        assignee: Email | None = None,
        page: Page = 1,
    ) -> Answer:
        if assignee is not None:
            self._person(assignee)
        rows = self.world.all("tickets", queue=queue, status=status, priority=priority, assignee=assignee)
        return listing.paged("tickets", [_line(row) for row in _oldest(rows)], page)

    @operation("Search tickets by id, title, text and requester, oldest first.")
    def search(self, query: Query, page: Page = 1) -> Answer:
        rows = [
            row
            for row in _oldest(self.world.all("tickets"))
            if listing.holds(query, row["id"], row["title"], row["body"], row["requester"])
        ]
        return listing.paged("tickets", [_line(row) for row in rows], page)

    @operation("One ticket in full, with its comments.")
    def get(self, ticket_id: TicketId) -> Answer:
        row = self._ticket(ticket_id)
        comments = [
            {"author": note["author"], "text": note["text"], "written_at": note["written_at"]}
            for note in self.world.all("comments", ticket=ticket_id)
        ]
        return _line(row) | {"body": row["body"], "comments": comments}

    @operation("File a ticket; you are its requester.", writes=True)
    def create(
        self,
        title: str,
        body: str,
        queue: Queue,
        priority: Priority = "normal",
        assignee: Email | None = None,
        due_on: Day | None = None,
    ) -> Answer:
        row = self.world.insert(
            "tickets",
            title=title,
            body=body,
            requester=self.me,
            queue=queue,
            assignee=self._person(assignee)["id"] if assignee else None,
            priority=priority,
            status="open",
            created_at=self.world.stamp,
            due_on=clock.day(due_on).isoformat() if due_on else None,
            updated_at=self.world.stamp,
        )
        return _line(row)

    @operation("Change a ticket; what you leave out stays.", writes=True)
    def update(
        self,
        ticket_id: TicketId,
        queue: Queue | None = None,
        assignee: Email | None = None,
        priority: Priority | None = None,
        status: Status | None = None,
        due_on: Day | None = None,
    ) -> Answer:
        self._ticket(ticket_id)
        changes: Row = {
            "queue": queue,
            "assignee": self._person(assignee)["id"] if assignee else None,
            "priority": priority,
            "status": status,
            "due_on": clock.day(due_on).isoformat() if due_on else None,
        }
        changes = {name: value for name, value in changes.items() if value is not None}
        if not changes:
            raise ToolError("nothing to change: give queue, assignee, priority, status or due_on", "invalid_args")
        return _line(self.world.update("tickets", ticket_id, **changes, updated_at=self.world.stamp))

    @operation("Add a comment to a ticket.", writes=True)
    def comment(self, ticket_id: TicketId, text: str) -> Answer:
        self._ticket(ticket_id)
        self.world.insert("comments", ticket=ticket_id, author=self.me, text=text, written_at=self.world.stamp)
        return {"ticket_id": ticket_id, "comments": len(self.world.all("comments", ticket=ticket_id))}

    def _ticket(self, ticket_id: str) -> Row:
        row = self.world.get("tickets", ticket_id)
        if row is None:
            known = [ticket["id"] for ticket in self.world.all("tickets")]
            raise ToolError(f"there is no ticket {ticket_id!r}; nearest: {listing.nearest(ticket_id, known)}")
        return row


def _oldest(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: row["created_at"])


def _line(row: Row) -> dict[str, Any]:
    shown = ("title", "requester", "queue", "assignee", "priority", "status", "created_at", "due_on")
    return {"ticket_id": row["id"]} | {name: row[name] for name in shown}
