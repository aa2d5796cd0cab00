"""Get a purchase approved by whoever must approve it, and record what was said."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .. import clock
from ..coworkers import Coworker
from ..grading import Claim, added, changed, contains, goal
from ..stage import Stage
from ..world import Row
from .template import Act, Situation, Swap, Template

_RULES = """# Purchase rules

- Up to EUR {limit:,}: the head of the team that asks for it approves.
- Above EUR {limit:,}: the {title} approves.
- Whoever is out of office is replaced by the deputy whom the absence note names.
- An approval has a number (PA-...). Without it nothing is ordered.
"""
_SOFTWARE = ("Drawboard", "Queryline", "Testrail Cloud", "Mapwork", "Notelane")


class ChaseApproval(Template):
    """Who approves depends on the amount and on who is away; the number and the seats are known to them alone."""

    name, level, team, calls = "chase-approval", 3, "Operations", 13

    def stage(self, stage: Stage) -> Situation:
        """A purchase that waits, and another for the same software that does not matter."""
        company, draw = stage.company, stage.draw
        requester = company.someone("Engineering", "Sales", "Marketing")
        limit, above = draw.pick((1000, 1500, 2500)), draw.chance(0.5)
        amount = limit + draw.between(2, 9) * 60 if above else limit - draw.between(2, 9) * 60
        head = company.titled("Finance Director") if above else company.lead(requester["team"])
        deputy = company.someone(head["team"], but=[requester])
        note = f"Back on {clock.spoken(stage.day(6))}. My deputy is {deputy['name']}."
        company.update(head, out_from=stage.day(0).isoformat(), out_until=stage.day(5).isoformat(), out_note=note)
        rules = _RULES.format(limit=limit, title="Finance Director")
        stage.file("/Operations/Purchase rules.md", company.lead("Operations"), rules, hours=700)
        software, asked = draw.pick(_SOFTWARE), draw.between(15, 30)
        granted, number = asked - draw.between(2, 6), f"PA-{draw.between(3000, 9899)}"
        ticket = self._ticket(stage, requester, software, asked, amount)
        twin = self._ticket(
            stage, company.someone(requester["team"], but=[requester]), software, asked + 1, amount + 40
        )
        approver = Coworker(
            deputy["id"],
            deputy["name"],
            about=(software, ticket["id"], "approv"),
            fact=f"{software}: approved, but for {granted} seats only. The approval number is {number}.",
        )
        return Situation(
            f"The ticket in which {requester['name']} asks for {software} seats waits for an approval. Please ask the "
            "person who has to give it according to our purchase rules. Then note the approval's number and for how "
            "many seats it was given in a comment on the ticket, and set the ticket to in progress.",
            goals=[
                goal("comment with the approval's number", self._comment(ticket, number)),
                goal("comment with the seats that were approved", self._comment(ticket, str(granted))),
                goal("ticket in progress", changed("tickets", ticket["id"], status="in_progress")),
            ],
            wrong=Swap("tickets_comment", "ticket_id", ticket["id"], twin["id"]),
            brief={"requester": requester["name"], "software": software},
            coworkers=[approver],
        )

    def solve(self, act: Act, brief: Mapping[str, Any]) -> None:
        """Find the ticket, then the approver by the rules, ask, and record the reply."""
        found = act("tickets_search", query=f"{brief['software']} seats")["tickets"]
        for line in found:
            requester = act("directory_get", email=line["requester"])
            if requester["name"] == brief["requester"]:
                break
        ticket = act("tickets_get", ticket_id=line["ticket_id"])
        path = act("files_search", query="purchase rules")["files"][0]["path"]
        rules = act("files_read", path=path)["content"]
        limit, amount = (_euros(text) for text in (rules, ticket["body"]))
        if amount > limit:
            (title,) = re.findall(r"Above [^:]*: the (.+) approves", rules)
            approver = act("directory_get", email=act("directory_search", query=title)["people"][0]["email"])
        else:
            approver = act("directory_get", email=act("directory_team", team=requester["team"])["leads"][0])
        if approver["out_of_office"]:
            (deputy,) = re.findall(r"deputy is (.+)\.", approver["out_of_office"]["note"])
            approver = next(each for each in act("directory_search", query=deputy)["people"] if each["name"] == deputy)
        ask = f"Do you approve {brief['software']} for {brief['requester']} ({ticket['ticket_id']}, EUR {amount})?"
        act("chat_direct_send", person=approver["email"], text=ask)
        reply = act("chat_direct_read", person=approver["email"])["messages"][0]["text"]
        (number,), (seats,) = re.findall(r"PA-\d+", reply), re.findall(r"(\d+) seats", reply)
        note = f"Approved by {approver['name']} for {seats} seats, {number}."
        act("tickets_comment", ticket_id=ticket["ticket_id"], text=note)
        act("tickets_update", ticket_id=ticket["ticket_id"], status="in_progress")

    def _ticket(self, stage: Stage, requester: Row, software: str, seats: int, amount: int) -> Row:
        body = f"We need {seats} seats of {software} for one year. Total: EUR {amount:,}."
        return stage.ticket(
            f"{software}: new seats", body, requester, "procurement", hours=stage.draw.between(20, 70), status="waiting"
        )

    def _comment(self, ticket: Row, *words: str) -> Claim:
        return added("comments", ticket=ticket["id"], text=contains(*words))


def _euros(text: str) -> int:
    """The first amount in the text."""
    return int(re.findall(r"EUR ([\d,]+)", text)[0].replace(",", ""))
