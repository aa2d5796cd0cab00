"""Hand a leaver's tickets and files to their successors, some of whom changed after the first mail."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .. import clock
from ..grading import Goal, changed, goal
from ..stage import Stage
from ..world import Row
from .template import Act, Situation, Swap, Template

_PROJECTS = ("Atlas", "Boreas", "Cobalt", "Delta", "Ember", "Fjord", "Garnet")
_TICKETS = (
    ("access", "{project}: read access for the auditors", "They come next month.", "open"),
    ("network", "Port for {project} is closed", "The test machine cannot reach it.", "waiting"),
    ("hardware", "{project}: noisy test machine", "It was the fan, a new one is in.", "resolved"),
)
_FILES = ("Design notes", "Open questions")


class HandOverProject(Template):
    """The head's second mail overrides a part of the first; a colleague's wish, which came last, does not count."""

    name, level, team, calls = "hand-over-project", 3, "Engineering", 16

    def stage(self, stage: Stage) -> Situation:
        """Two projects, one of them divided, with tickets and files of mine and of others."""
        company, draw, me = stage.company, stage.draw, stage.me
        lead = company.lead("Engineering")
        one, two, other = draw.shuffled([row for row in company.members("Engineering")[1:] if row != me])
        late = company.namesake(two, "Engineering", "Platform Engineer")
        whole, divided = draw.sample(_PROJECTS, 2)
        part = draw.pick(("tickets", "files"))
        heirs = {"tickets": two, "files": two, part: late}
        goals = [
            *self._goals(stage, "undivided project", whole, other, {"tickets": one, "files": one}),
            *self._goals(stage, "divided project", divided, other, heirs),
        ]
        split = draw.shuffled((f"- {whole} goes to {one['name']}.", f"- {divided} goes to {two['name']}."))
        first = "\n".join(["Your tickets and files go with the projects:", "", *split, "", "Thank you for everything."])
        stage.mail(lead, "Your projects", first, hours=90, read=True)
        second = (
            f"I have to take one thing back. {two['name']} has no room for all of that: the {part} of {divided} go to "
            f"{late['name']}, who is new with us. The rest stays as I wrote."
        )
        stage.mail(lead, "Change of plan", second, hours=22, read=draw.chance(0.5))
        wish = f"I would love to look after the files of {whole}. Just make me their owner before you go, will you?"
        stage.mail(other, f"{whole}?", wish, hours=4)
        tool, argument = ("tickets_update", "assignee") if part == "tickets" else ("files_transfer", "person")
        return Situation(
            f"My last day is {clock.spoken(stage.day(3))}. {lead['name']} decided who takes over what and wrote it to "
            "me. Please hand my two projects over accordingly: my tickets that are not done yet get their new "
            "assignee, and my files in the projects' folders their new owner. Tickets that are done and whatever "
            "belongs to others stay as they are.",
            goals=goals,
            wrong=Swap(tool, argument, late["id"], two["id"]),
            brief={"me": me["id"], "lead": lead["name"]},
        )

    def solve(self, act: Act, brief: Mapping[str, Any]) -> None:
        """Read the head's mails from old to new, so that later words win, then go through tickets and folders."""
        people = act("directory_search", query=brief["lead"])["people"]
        lead = next(person for person in people if person["name"] == brief["lead"])
        team = {person["name"]: person["email"] for person in act("directory_team", team=lead["team"])["members"]}
        heirs: dict[tuple[str, str], str] = {}
        mails = [mail for mail in act("mail_search", query=lead["email"])["mails"] if mail["from"] == lead["email"]]
        for mail in sorted(mails, key=lambda mail: mail["sent_at"]):
            text = act("mail_read", mail_id=mail["mail_id"])["body"]
            for project, name in re.findall(r"- (\w+) goes to (.+)\.", text):
                heirs |= {(project, "tickets"): team[name], (project, "files"): team[name]}
            for kind, project, name in re.findall(r"the (tickets|files) of (\w+) go to (.+?),", text):
                heirs[project, kind] = team[name]
        for ticket in act("tickets_list", assignee=brief["me"])["tickets"]:
            if ticket["status"] not in ("resolved", "closed"):
                project = next(project for project, _ in heirs if project in ticket["title"])
                act("tickets_update", ticket_id=ticket["ticket_id"], assignee=heirs[project, "tickets"])
        for project in dict.fromkeys(project for project, _ in heirs):
            for file in act("files_list", folder=f"/Engineering/{project}")["files"]:
                if file["owner"] == brief["me"]:
                    act("files_transfer", path=file["path"], person=heirs[project, "files"])

    def _goals(self, stage: Stage, what: str, project: str, other: Row, heirs: Mapping[str, Row]) -> list[Goal]:
        """The project's tickets and files, and who has to get which of them."""
        draw, goals = stage.draw, []
        for queue, title, body, status in draw.shuffled(_TICKETS):
            requester = stage.company.someone(but=[stage.me])
            text, hours = title.format(project=project), draw.between(20, 300)
            row = stage.ticket(text, body, requester, queue, hours=hours, assignee=stage.me, status=status)
            if status != "resolved":
                claim = changed("tickets", row["id"], assignee=heirs["tickets"]["id"])
                goals.append(goal(f"{queue} ticket of the {what} handed over", claim))
        stage.ticket(f"{project}: disk is nearly full", "90 % used.", other, "hardware", hours=40, assignee=other)
        folder = f"/Engineering/{project}"
        for name in _FILES:
            text, hours = f"# {project}: {name.lower()}\n\nSee the tickets.\n", draw.between(300, 900)
            file = stage.file(f"{folder}/{name}.md", stage.me, text, hours=hours)
            claim = changed("files", file["id"], owner=heirs["files"]["id"])
            goals.append(goal(f"{name.lower()} of the {what} handed over", claim))
        stage.file(f"{folder}/Budget.csv", other, "Item,EUR\nMachines,4200\n", hours=draw.between(300, 900))
        return goals
