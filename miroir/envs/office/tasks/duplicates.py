"""Merge the tickets that report one outage in different words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from .. import clock
from ..grading import Goal, added, changed, contains, goal
from ..stage import Stage
from ..world import Row
from .template import Act, Situation, Swap, Template

_RULES = """# Duplicate tickets

When one outage is reported more than once:

- A report is a ticket in queue network that names the server, under any of its names, and was filed after the \
outage began. Older tickets and requests are left alone.
- The earliest report is the parent. It stays open, gets priority {priority}, and a comment with the numbers of all \
others.
- Each of the others gets a comment with the parent's number, and the status {status}.
"""
_NAMES = (("plan archive", "drive P:"), ("photo store", "drive S:"), ("contract vault", "drive K:"))
_REPORTS = (
    ("{host} does not answer", "I tried from two machines, no ping."),
    ("{drive} has gone", "The letter is missing since I started my computer."),
    ("The {nick} is empty", "It says 'not available'. I need one thing from it for a customer today."),
    ("Error 53", "That is what I get when I save something to {drive}"),
)


class MergeDuplicates(Template):
    """What is down goes by three names, and the first message about it named the wrong server."""

    name, level, team, calls = "merge-duplicates", 2, "IT", 16

    def stage(self, stage: Stage) -> Situation:
        """Four reports, a request, an older ticket, and one about another server."""
        company, draw = stage.company, stage.draw
        hosts = [f"fs-{number}" for number in draw.sample(range(201, 299), 3)]
        servers = [
            {"host": host, "nick": nick, "drive": drive}
            for host, (nick, drive) in zip(hosts, draw.shuffled(_NAMES), strict=True)
        ]
        down, other = servers[:2]
        table = "".join(f"- {each['host']}: {each['nick']}, {each['drive']}\n" for each in draw.shuffled(servers))
        names = f"# File servers and their other names\n\n{table}"
        stage.file("/IT/File servers.md", company.lead("IT"), names, hours=900)
        ends = {"priority": draw.pick(("high", "urgent")), "status": draw.pick(("resolved", "closed"))}
        stage.file("/IT/Duplicates.md", company.lead("IT"), _RULES.format(**ends), hours=700)
        since = draw.between(6, 8)
        self._chat(stage, down["host"], other["host"], since)

        hours = draw.shuffled((5, 4, 3, 2))
        reports = [self._report(stage, text, down, hour) for text, hour in zip(_REPORTS, hours, strict=True)]
        parent, *rest = sorted(reports, key=lambda row: row["created_at"])
        self._report(stage, ("The {nick} is slow", "Since yesterday, files open after minutes."), down, since + 3)
        alike = self._report(stage, draw.pick(_REPORTS[1:3]), other, draw.pick((5, 3)))
        request = f"Please let me read {down['drive']}, I am new in the team."
        stage.ticket(f"Rights on {down['drive']}", request, company.someone(but=[stage.me]), "access", hours=4)
        return Situation(
            "One of our file servers is down and people report it again and again, each in their own words. Please "
            "merge the tickets about it as our rules for duplicates say; they are among the shared files. What "
            "happened is in #it-help. Leave every other ticket as it is.",
            goals=self._goals(parent, rest, **ends),
            wrong=Swap("tickets_update", "ticket_id", rest[0]["id"], alike["id"]),
        )

    def solve(self, act: Act, brief: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Learn what is down since when and by which names, search for each of them, and merge."""
        said = "\n".join(message["text"] for message in act("chat_read", channel="#it-help")["messages"])
        ((host, since),) = re.findall(r"it is (\S+) that went down, at (\S+Z)", said)
        path = act("files_search", query="file servers names")["files"][0]["path"]
        (names,) = re.findall(rf"- {host}: (.+)", act("files_read", path=path)["content"])
        path = act("files_search", query="duplicate tickets parent")["files"][0]["path"]
        rules = act("files_read", path=path)["content"]
        (priority,), (status,) = re.findall(r"gets priority (\w+)", rules), re.findall(r"the status (\w+)", rules)
        found = [act("tickets_search", query=name)["tickets"] for name in (host, *names.split(", "))]
        reports = {
            ticket["ticket_id"]: ticket["created_at"]
            for tickets in found
            for ticket in tickets
            if ticket["queue"] == "network" and ticket["created_at"] > since
        }
        parent, *rest = sorted(reports, key=lambda ticket_id: reports[ticket_id])
        for ticket_id in rest:
            act("tickets_comment", ticket_id=ticket_id, text=f"Duplicate of {parent}.")
            act("tickets_update", ticket_id=ticket_id, status=status)
        act("tickets_comment", ticket_id=parent, text=f"Also reported in {', '.join(rest)}.")
        act("tickets_update", ticket_id=parent, priority=priority)

    def _chat(self, stage: Stage, down: str, other: str, since: int) -> None:
        """Two messages of which the second corrects the first."""
        admin = stage.company.someone("IT", but=[stage.me])
        began = clock.stamp(stage.now - timedelta(hours=since))
        stage.message("#it-help", admin, f"{other} is down, looks like a disk. I am on it.", hours=since - 1)
        correction = f"Correction: it is {down} that went down, at {began}. {other} had a loose cable for a moment."
        stage.message("#it-help", admin, correction, hours=since - 3)

    def _report(self, stage: Stage, text: tuple[str, str], server: Mapping[str, str], hours: int) -> Row:
        title, body = (part.format(**server) for part in text)
        priority = stage.draw.pick(("low", "normal"))
        requester = stage.company.someone(but=[stage.me])
        return stage.ticket(title, body, requester, "network", hours=hours, priority=priority)

    def _goals(self, parent: Row, rest: Sequence[Row], *, priority: str, status: str) -> list[Goal]:
        ids = [row["id"] for row in rest]
        listed = added("comments", ticket=parent["id"], text=contains(*ids))
        goals = [
            goal("parent has its new priority", changed("tickets", parent["id"], priority=priority)),
            goal("parent lists the duplicates", listed),
        ]
        for number, ticket in enumerate(ids, 1):
            linked = added("comments", ticket=ticket, text=contains(parent["id"]))
            goals.append(goal(f"duplicate {number} names the parent", linked))
            goals.append(goal(f"duplicate {number} done", changed("tickets", ticket, status=status)))
        return goals
