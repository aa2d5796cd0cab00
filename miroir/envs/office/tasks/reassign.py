"""Hand an absent colleague's tickets over by written rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..grading import changed, goal
from ..stage import Stage
from ..world import Row
from .template import Act, Situation, Swap, Template

_RULES = """# Handover rules of the help desk

When a technician is away, the tickets in their name that are open or in progress are handed over:

- queue access: to the {access}
- queue network: to the {network}
- queue hardware, priority high or urgent: to the {hardware}
- queue hardware, all others: they stay, with status waiting

Tickets with any other status are left alone.
"""
_TITLES = ("IT Manager", "Systems Administrator", "Network Engineer")
_TICKETS = (
    ("access", "No rights on the {thing} folder", "I need it for the closing and get 'permission denied'."),
    ("network", "{thing} times out on the third floor", "It works at my desk at home."),
    ("hardware", "Laptop for the {thing} project does not start", "Black screen, the fan runs."),
    ("hardware", "Mouse for the {thing} desk", "The wheel sticks, a spare one will do."),
    ("access", "Old {thing} account", "Please remove it, nobody uses it."),
)
_THINGS = ("Atlas", "Boreas", "Cobalt", "Delta", "Ember", "Fjord", "Garnet")


class ReassignByRules(Template):
    """A namesake has tickets that look alike; the rules were changed, and one ticket is done already."""

    name, level, team, calls = "reassign-by-rules", 2, "IT", 9

    def stage(self, stage: Stage) -> Situation:
        """Five tickets in the name of the absent technician, four of them to be handled."""
        company, draw = stage.company, stage.draw
        away = next(row for row in company.members("IT") if row["title"] == "Support Technician" and row != stage.me)
        until = stage.day(draw.between(4, 9)).isoformat()
        company.update(away, out_from=stage.day(0).isoformat(), out_until=until, out_note="Away, no access to mail.")
        other = company.namesake(away, "IT", "Trainee")
        for row in stage.world.all("tickets", assignee=away["id"]):
            stage.world.update("tickets", row["id"], assignee=other["id"])

        older, newer = draw.shuffled(_TITLES), draw.shuffled(_TITLES)
        rules = [_RULES.format(access=roles[0], network=roles[1], hardware=roles[2]) for roles in (older, newer)]
        file = stage.file("/IT/Handover rules.md", company.lead("IT"), rules[0], hours=2000)
        stage.revise(file, company.lead("IT"), rules[1], hours=100)
        mine = self._tickets(stage, away)
        alike = self._tickets(stage, other)
        access, network, hardware = (company.titled(role)["id"] for role in newer)
        return Situation(
            f"{away['name']} is away from today on. Please hand over the help-desk tickets in that name as our "
            "handover rules say; they are among the shared files. Touch no other ticket.",
            goals=[
                goal("access ticket handed over", changed("tickets", mine[0]["id"], assignee=access)),
                goal("network ticket handed over", changed("tickets", mine[1]["id"], assignee=network)),
                goal("high hardware ticket handed over", changed("tickets", mine[2]["id"], assignee=hardware)),
                goal("minor hardware ticket set to waiting", changed("tickets", mine[3]["id"], status="waiting")),
            ],
            wrong=Swap("tickets_update", "ticket_id", mine[0]["id"], alike[0]["id"]),
            brief={"name": away["name"]},
        )

    def _tickets(self, stage: Stage, assignee: Row) -> list[Row]:
        draw = stage.draw
        high, low = draw.pick(("high", "urgent")), draw.pick(("low", "normal"))
        states = ((low, "open"), ("low", "in_progress"), (high, "open"), (low, "open"), ("high", "resolved"))
        return [
            stage.ticket(
                title.format(thing=draw.pick(_THINGS)),
                body,
                stage.company.someone(),
                queue,
                hours=draw.between(5, 90),
                assignee=assignee,
                priority=priority,
                status=status,
            )
            for (queue, title, body), (priority, status) in zip(_TICKETS, states, strict=True)
        ]

    def solve(self, act: Act, brief: Mapping[str, Any]) -> None:
        """Read the rules, then go through the tickets in the absent person's name."""
        people = act("directory_search", query=brief["name"])["people"]
        away = next(person["email"] for person in people if person["name"] == brief["name"])
        path = act("files_search", query="handover rules technician away")["files"][0]["path"]
        rules = act("files_read", path=path)["content"]
        roles = dict(re.findall(r"- queue (\w+)[^:]*: to the (.+)", rules))
        holders = {person["title"]: person["email"] for person in act("directory_team", team="IT")["members"]}
        for ticket in act("tickets_list", assignee=away)["tickets"]:
            if ticket["status"] not in ("open", "in_progress"):
                continue
            if ticket["queue"] == "hardware" and ticket["priority"] not in ("high", "urgent"):
                act("tickets_update", ticket_id=ticket["ticket_id"], status="waiting")
            else:
                act("tickets_update", ticket_id=ticket["ticket_id"], assignee=holders[roles[ticket["queue"]]])
