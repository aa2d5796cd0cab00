"""The directory: who works here, in which team, for whom, where and when."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ...serve.environment import ToolError
from . import listing
from .operation import Answer, App, Email, Page, Query, operation


class Directory(App):
    """Search and read the staff directory."""

    name: ClassVar[str] = "directory"
    summary: ClassVar[str] = "the staff directory"

    @operation("Search people by name, title, team or office.")
    def search(self, query: Query, page: Page = 1) -> Answer:
        found = [
            {"email": row["id"], "name": row["name"], "title": row["title"], "team": row["team"]}
            for row in self.world.all("people")
            if listing.holds(query, row["id"], row["name"], row["title"], row["team"], row["office"])
        ]
        return listing.paged("people", found, page)

    @operation("One person's card: title, team, manager, reports, office, working hours, absence.")
    def get(self, email: Email) -> Answer:
        row = self._person(email)
        absence = {"from": row["out_from"], "until": row["out_until"], "note": row["out_note"]}
        return {
            "email": row["id"],
            "name": row["name"],
            "title": row["title"],
            "team": row["team"],
            "manager": row["manager"],
            "reports": [report["id"] for report in self.world.all("people", manager=row["id"])],
            "office": row["office"],
            "utc_offset": row["utc_offset"],
            "working_hours": {"start": row["work_start"], "end": row["work_end"]},
            "out_of_office": absence if row["out_from"] else None,
        }

    @operation("A team's lead and members.")
    def team(self, team: Annotated[str, "team name"]) -> Answer:
        members = [row for row in self.world.all("people") if row["team"].casefold() == team.casefold()]
        if not members:
            teams = sorted({row["team"] for row in self.world.all("people")})
            raise ToolError(f"there is no team {team!r}; teams: {', '.join(teams)}")
        addresses = {row["id"] for row in members}
        leads = [row["id"] for row in members if row["manager"] not in addresses]
        people = [{"email": row["id"], "name": row["name"], "title": row["title"]} for row in members]
        return {"team": members[0]["team"], "leads": leads, "members": people}
