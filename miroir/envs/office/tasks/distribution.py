"""Bring a distribution list in line with the directory, and answer the person who asked for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....serve.environment import ToolError
from ..company import OFFICES, SIMILAR
from ..grading import SameText, changed, contains, goal, sent
from ..stage import Stage
from ..world import Row
from .template import Act, Situation, Swap, Template

_HEAD = "Name,E-mail,Office"
_LISTS = ("Site safety contacts", "First aiders", "Fire wardens", "Newsletter desk", "Charity run helpers")
_WISH = """Hi {me},

could you tidy up our list "{title}"? It should say what the directory says now:

- whoever has left the company goes,
- nobody is on it twice, the upper line stays,
- whoever sits in another office by now gets that office.

Keep the order of the lines. When it is done, please answer this mail with the full names of those you took off
because they left. And I heard that {moved} went to {rumour}, but do check.

Thanks, {name}
"""


class CleanDistribution(Template):
    """Who has left and who has moved stands in the directory alone; those who left have namesakes who stayed."""

    name, level, team, calls = "clean-distribution", 1, "Operations", 14

    def stage(self, stage: Stage) -> Situation:
        """A list with two leavers, two lines twice and one move, and its older copy."""
        company, draw, me = stage.company, stage.draw, stage.me
        requester = company.someone("People", "Marketing")
        staff = draw.sample([row for row in company.people if row not in (me, requester)], 5)
        left = [self._leaver(row) for row in staff[:2]]
        moved = staff[2]
        cities = draw.shuffled([office for office, _ in OFFICES if office != moved["office"]])
        listed = draw.shuffled([*staff, *left])
        lines = [self._line(row, cities[0] if row is moved else row["office"]) for row in listed]
        twice = draw.sample(range(len(lines)), 2)
        lines += [lines[index] for index in twice]

        title = draw.pick(_LISTS)
        file = stage.file(f"/Operations/Lists/{title}.csv", me, self._text(lines), hours=500)
        archived = f"/Operations/Lists/Archive/{title} (last year).csv"
        old = stage.file(archived, me, self._text(draw.shuffled(lines)), hours=6000)
        words = {"me": me["name"].split()[0], "title": title, "moved": moved["name"], "rumour": cities[1]}
        body = _WISH.format(**words, name=requester["name"].split()[0])
        wish = stage.mail(requester, f"List: {title}", body, hours=draw.between(2, 15))
        kept = self._text([self._line(row, row["office"]) for row in listed if row not in left])
        told = contains(*(row["name"] for row in left))
        return Situation(
            f"{requester['name']} sent me a mail about one of our distribution lists. Please do with the shared file "
            "what the mail asks for, and answer it. An archived copy of the list exists as well, that one stays.",
            goals=[
                goal(
                    "the list says what the directory says",
                    changed("files", file["id"], content=SameText(kept)),
                ),
                goal("answered in the conversation", sent(requester["id"], thread=wish["thread"])),
                goal("the answer names those who left", sent(requester["id"], body=told)),
            ],
            wrong=Swap("files_write", "path", file["path"], old["path"]),
            brief={"requester": requester["name"]},
        )

    def solve(self, act: Act, brief: Mapping[str, Any]) -> None:
        """Read the mail and the list, look every address up, and write the lines that stand."""
        people = act("directory_search", query=brief["requester"])["people"]
        sender = next(person["email"] for person in people if person["name"] == brief["requester"])
        found = act("mail_search", query=f"{sender} list:")["mails"]
        wish = act("mail_read", mail_id=found[0]["mail_id"])
        title = wish["subject"].removeprefix("List: ")
        paths = [file["path"] for file in act("files_search", query=f"lists {title} csv")["files"]]
        path = next(path for path in paths if "Archive" not in path)
        head, *lines = act("files_read", path=path)["content"].splitlines()
        kept, left = [head], []
        for line in dict.fromkeys(lines):
            name, address, _ = line.split(",")
            try:
                kept.append(f"{name},{address},{act('directory_get', email=address)['office']}")
            except ToolError:  # nobody has that address
                left.append(name)
        act("files_write", path=path, content="\n".join(kept) + "\n")
        act("mail_reply", mail_id=wish["mail_id"], body=f"Done. These have left: {', '.join(left)}.")

    def _leaver(self, person: Row) -> Row:
        """Somebody who is not in the directory any more, easily taken for this person."""
        first, last = person["name"].split(" ", 1)
        domain = person["id"].rpartition("@")[2]
        address = f"{SIMILAR[first]}.{last}@{domain}".lower()
        return {"id": address, "name": f"{SIMILAR[first]} {last}", "office": person["office"]}

    def _line(self, person: Row, office: str) -> str:
        return f"{person['name']},{person['id']},{office}"

    def _text(self, lines: Sequence[str]) -> str:
        return "\n".join([_HEAD, *lines]) + "\n"
