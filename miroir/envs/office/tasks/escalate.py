"""Escalate the tickets of a queue that took longer than their priority allows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from .. import clock
from ..grading import Goal, changed, contains, goal, sent, told
from ..stage import Stage
from ..world import Row
from .template import Act, Situation, Swap, Template

_RULES = """# Service levels

Hours from filing a ticket to solving it, nights and weekends included:

| priority | hours |
| --- | --- |
{table}
A ticket with a due date is late only after that day, whatever the table says. What waits for its requester, is \
resolved or closed is never late.

Late tickets get the next higher priority, and the manager of their assignee is told in a direct message which ticket \
it is. If that manager is out of office on the day, the manager's own manager is told instead.
"""
_PRIORITIES = ("low", "normal", "high", "urgent")
_SUBJECTS = ("a lamp", "the printer", "my badge", "a monitor", "the projector", "a chair", "the scanner")


class EscalateOverdue(Template):
    """Which ticket is late depends on a table, due dates and status; whom to tell, on the org chart and absences."""

    name, level, team, calls = "escalate-overdue", 3, "IT", 15

    def stage(self, stage: Stage) -> Situation:
        """Three late tickets of owners in three teams, and four that only look late."""
        company, draw = stage.company, stage.draw
        queue = draw.pick(("hardware", "facilities", "payroll", "procurement"))
        for row in stage.world.all("tickets", queue=queue):
            stage.world.update("tickets", row["id"], status="closed")
        hours = {
            "low": draw.pick((240, 288)),
            "normal": draw.pick((96, 120)),
            "high": draw.pick((24, 36, 48)),
            "urgent": draw.pick((4, 6)),
        }
        author = company.lead("IT")
        old = hours | {"low": hours["low"] // 2, "high": hours["high"] + 24}
        stage.file("/IT/Archive/Service levels.md", author, _rules(old), hours=9000)
        stage.file("/IT/Service levels.md", author, _rules(hours), hours=500)
        teams = draw.sample(("IT", "Operations", "Finance", "People"), 3)
        owners = [company.someone(team, but=[stage.me]) for team in teams]
        tell = [company.lead(team) for team in teams]
        for lead, (first, last) in zip(tell[1:], ((0, 4), (3, 8)), strict=True):
            company.update(lead, out_from=stage.day(first).isoformat(), out_until=stage.day(last).isoformat())
        tell[1] = company.people[0]
        late, fine = self._tickets(stage, queue, hours, owners)
        return Situation(
            f"Please go through the {queue} queue of the help desk and escalate what is late, as our service levels "
            "say; they are among the shared files. Leave all other tickets alone.",
            goals=[
                each for ticket, person in zip(late, tell, strict=True) for each in _escalated(ticket, person["id"])
            ],
            wrong=Swap("tickets_update", "ticket_id", late[0]["id"], fine["id"]),
            brief={"queue": queue, "now": stage.world.stamp},
        )

    def solve(self, act: Act, brief: Mapping[str, Any]) -> None:
        """Read the table, find the late tickets, and go up the org chart from each one's assignee."""
        files = act("files_search", query="service levels hours")["files"]
        rules = act("files_read", path=max(files, key=lambda file: file["updated_at"])["path"])["content"]
        hours = {name: timedelta(hours=int(limit)) for name, limit in re.findall(r"\| (\w+) \| (\d+) \|", rules)}
        now = clock.moment(brief["now"])
        for ticket in act("tickets_list", queue=brief["queue"])["tickets"]:
            aged = now - clock.moment(ticket["created_at"]) > hours[ticket["priority"]]
            late = ticket["due_on"] < brief["now"][:10] if ticket["due_on"] else aged
            if not late or ticket["status"] not in ("open", "in_progress"):
                continue
            act("tickets_update", ticket_id=ticket["ticket_id"], priority=_higher(ticket["priority"]))
            manager = act("directory_get", email=act("directory_get", email=ticket["assignee"])["manager"])
            absence = manager["out_of_office"]
            away = absence and absence["from"] <= brief["now"][:10] <= absence["until"]
            person = manager["manager"] if away else manager["email"]
            act("chat_direct_send", person=person, text=f"{ticket['ticket_id']} ({ticket['title']}) is late.")

    def _tickets(
        self, stage: Stage, queue: str, hours: Mapping[str, int], owners: Sequence[Row]
    ) -> tuple[list[Row], Row]:
        """The late tickets, one for each owner, and one that is late by the old table alone."""
        draw, today = stage.draw, stage.now.date()
        rows = (
            ("low", hours["low"] + draw.between(3, 60), "open", None, owners[0]),
            ("high", hours["high"] + draw.between(3, 9), "in_progress", None, owners[1]),
            ("normal", hours["normal"] - draw.between(3, 30), "open", today - timedelta(days=1), owners[2]),
            ("low", hours["low"] - draw.between(3, 60), "open", None, owners[2]),
            ("normal", hours["normal"] + draw.between(3, 60), "open", stage.day(draw.between(1, 4)), owners[1]),
            ("high", hours["normal"], "waiting", None, owners[0]),
            ("normal", hours["low"], "resolved", None, owners[1]),
        )
        tickets = [
            stage.ticket(
                f"Trouble with {subject}",
                "Please have a look.",
                stage.company.someone(but=[stage.me]),
                queue,
                hours=age,
                assignee=owner,
                priority=priority,
                status=status,
                due_on=due_on,
            )
            for subject, (priority, age, status, due_on, owner) in zip(draw.shuffled(_SUBJECTS), rows, strict=True)
        ]
        return tickets[:3], tickets[3]


def _rules(hours: Mapping[str, int]) -> str:
    return _RULES.format(table="".join(f"| {name} | {limit} |\n" for name, limit in hours.items()))


def _higher(priority: str) -> str:
    """The next higher priority."""
    return _PRIORITIES[_PRIORITIES.index(priority) + 1]


def _escalated(ticket: Row, person: str) -> list[Goal]:
    """The ticket's priority is one higher, and the person knows which ticket is late."""
    raised = changed("tickets", ticket["id"], priority=_higher(ticket["priority"]))
    named = contains(ticket["id"])
    return [
        goal(f"late {ticket['priority']} ticket raised", raised),
        goal(
            f"manager told of the late {ticket['priority']} ticket", told(person, text=named), sent(person, body=named)
        ),
    ]
