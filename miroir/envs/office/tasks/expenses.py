"""Check the expenses of a trip against the receipts in the mail, and report their total."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from ..grading import SameText, changed, contains, goal, sent
from ..stage import Stage
from .template import Act, Situation, Swap, Template

_GUIDE = """# Expense guide

- Pounds are entered in euros: GBP 1 is EUR {before:.2f} for what was paid before {since}, and EUR {after:.2f} since.
- Tips are not refunded: enter the amount without them.
- A corrected invoice replaces the earlier one with the same number.
- When a sheet is checked, mail its total in euros to the {title}, with the numbers of the receipts whose lines \
were changed.
"""
_TRIPS = ("Leipzig fair", "Nordic roadshow", "Partner days Ghent", "Porto summit")


class _Line(NamedTuple):
    number: str
    what: str
    euros: int  # what the guide makes of the receipt
    slip: int  # what somebody enters who does not know the guide


class ReconcileExpenses(Template):
    """Three lines look wrong and are right by the guide; the colleague's suspicion is one of them."""

    name, level, team, calls = "reconcile-expenses", 3, "Marketing", 14

    def stage(self, stage: Stage) -> Situation:
        """A sheet of five lines, six receipts, and a colleague who has looked at the sheet only."""
        company, draw, me = stage.company, stage.draw, stage.me
        trip, title = draw.pick(_TRIPS), draw.pick(("Accounts Payable Clerk", "Payroll Accountant"))
        payer = company.titled(title)
        lines = self._receipts(stage, trip, title)
        wrong, suspected = draw.sample(lines[:-1], 2)
        lines = draw.shuffled(lines)
        right = self._sheet([(line, line.euros) for line in lines])
        sheet = self._sheet([(line, line.slip if line is wrong else line.euros) for line in lines])
        file = stage.file(f"/Marketing/Trips/Expenses {trip}.csv", me, sheet, hours=40)
        draft = stage.file(f"/Marketing/Trips/Drafts/Expenses {trip} (draft).csv", me, sheet, hours=60)
        hint = f"I had a look at the sheet. The {suspected.what.lower()} cannot be right: make it EUR {suspected.slip}."
        stage.mail(company.someone("Marketing", but=[me]), f"Expenses {trip}", hint, hours=5)
        total = sum(line.euros for line in lines)
        return Situation(
            f"One line in our shared sheet with the expenses of the {trip} is wrong, and I do not know which. Please "
            "check it against the receipts, which are in my mail, correct that line, and report to Finance as our "
            "expense guide says. Leave the draft of the sheet alone.",
            goals=[
                goal("the wrong line is right, the others stay", changed("files", file["id"], content=SameText(right))),
                goal("total reported to Finance", sent(payer["id"], body=contains(str(total)))),
                goal("report names the changed line's receipt", sent(payer["id"], body=contains(wrong.number))),
            ],
            wrong=Swap("files_edit", "path", file["path"], draft["path"]),
            brief={"trip": trip},
        )

    def solve(self, act: Act, brief: Mapping[str, Any]) -> None:
        """Read the guide and the receipts from old to new, and compare what they make with the sheet."""
        paths = [file["path"] for file in act("files_search", query=f"trips expenses {brief['trip']} csv")["files"]]
        path = next(path for path in paths if "Drafts" not in path)
        rows = act("files_read", path=path)["content"].splitlines()[1:]
        guide = act("files_read", path=act("files_search", query="expense guide")["files"][0]["path"])["content"]
        found = act("mail_search", query=f"{brief['trip']} amount number")["mails"]
        euros = {}
        for mail in sorted(found, key=lambda mail: mail["sent_at"]):
            body = act("mail_read", mail_id=mail["mail_id"])["body"]
            euros[re.findall(r"Number: (\S+)", body)[0]] = _euros(guide, body)
        number, what, entered = next(cells for row in rows if int((cells := row.split(","))[2]) != euros[cells[0]])
        row = f"{number},{what},"
        act("files_edit", path=path, find=row + entered, replace=f"{row}{euros[number]}")
        (title,) = re.findall(r"in euros to the (.+?),", guide)
        payer = act("directory_search", query=title)["people"][0]["email"]
        report = f"The total is EUR {sum(euros.values())}. I corrected the line of receipt {number}."
        act("mail_send", to=[payer], subject=f"Expenses {brief['trip']}", body=report)

    def _receipts(self, stage: Stage, trip: str, title: str) -> list[_Line]:
        """The guide, the receipts by mail, and the lines that they make; the last of them is plain."""
        draw, today = stage.draw, stage.now.date()
        since, days = today - timedelta(days=12), draw.pick((10, 14))
        rates = draw.sample((115, 120, 125), 2)  # euro cents for a pound: before the day, and from it on
        guide = _GUIDE.format(before=rates[0] / 100, after=rates[1] / 100, since=since, title=title)
        stage.file("/Finance/Expense guide.md", stage.company.lead("Finance"), guide, hours=700)
        ids = [f"{letter}-{number}" for letter, number in zip("HTDRP", draw.sample(range(2101, 9899), 5), strict=True)]
        pounds, tip, extra = 20 * draw.between(2, 6), draw.between(4, 9), draw.between(21, 39)
        room, meal, poster = draw.between(300, 480), draw.between(70, 130), draw.between(40, 60)
        tens, units = draw.between(1, 4), draw.between(5, 9)
        holds, other = rates if days > 12 else reversed(rates)
        lines = [
            _Line(ids[0], "Hotel", room, room + extra),
            _Line(ids[1], "Taxi", pounds * holds // 100, pounds * other // 100),
            _Line(ids[2], "Dinner", meal, meal + tip),
            _Line(ids[3], "Train", 100 + 10 * tens + units, 100 + 10 * units + tens),
            _Line(ids[4], "Posters", poster, poster),
        ]
        paid = [f"EUR {line.euros}" for line in lines]
        paid[:3] = [f"EUR {room + extra}", f"GBP {pounds}", f"EUR {meal + tip}\nTip included: EUR {tip}"]
        head = f"Your reference: {trip}\nPaid on: {today - timedelta(days=days)}"
        for line, amount in draw.shuffled(list(zip(lines, paid, strict=True))):
            body = f"{head}\nNumber: {line.number}\nAmount: {amount}"
            stage.mail(
                f"receipts@{line.what.lower()}-desk.example", "Your receipt", body, hours=24 * days - 9, read=True
            )
        body = f"{head}\nNumber: {ids[0]}\nAmount: EUR {room}\n\nThis invoice corrects the one that you have."
        stage.mail("receipts@hotel-desk.example", "Corrected invoice", body, hours=55, read=True)
        return lines

    def _sheet(self, lines: Sequence[tuple[_Line, int]]) -> str:
        rows = [f"{line.number},{line.what},{euros}" for line, euros in lines]
        return "\n".join(["Receipt,What,EUR", *rows]) + "\n"


def _euros(guide: str, receipt: str) -> int:
    """What the guide makes of a receipt, in euros."""
    currency, amount = re.findall(r"Amount: (EUR|GBP) (\d+)", receipt)[0]
    if currency == "GBP":
        (day,) = re.findall(r"Paid on: (\S+)", receipt)
        ((before, since, after),) = re.findall(r"EUR ([\d.]+) for what was paid before (\S+), and EUR ([\d.]+)", guide)
        return round(int(amount) * float(before if day < since else after))
    return int(amount) - sum(int(tip) for tip in re.findall(r"Tip included: EUR (\d+)", receipt))
