"""Correct a figure in a shared file from a conversation in which it changed twice."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..grading import SameText, changed, contains, goal, sent
from ..stage import Stage
from ..world import Row
from .template import Act, Situation, Swap, Template

_LINES = ("Licences", "Licences EMEA", "Consulting", "Consulting partners", "Training", "Support contracts")


class CorrectFigure(Template):
    """The last word in the conversation counts; an old draft holds the same line."""

    name, level, team, calls = "correct-figure", 1, "Finance", 6

    def stage(self, stage: Stage) -> Situation:
        """A forecast with one wrong line, and three mails about it."""
        company, draw, me = stage.company, stage.draw, stage.me
        colleague = company.someone("Sales")
        figures = {line: draw.between(180, 990) * 100 for line in _LINES}
        line = draw.pick(_LINES)
        first = figures[line] + draw.between(11, 60) * 100
        right = figures[line] - draw.between(11, 60) * 100
        sheet = "Line,Owner,EUR\n" + "".join(f"{name},{colleague['name']},{figures[name]}\n" for name in _LINES)
        file = stage.file("/Finance/Forecast first quarter.csv", me, sheet, hours=90)
        draft = stage.file("/Finance/Drafts/Forecast first quarter (draft).csv", me, sheet, hours=500)
        mail = _mails(stage, colleague, line, first, right)
        expected = sheet.replace(f"{line},{colleague['name']},{figures[line]}", f"{line},{colleague['name']},{right}")
        return Situation(
            f"{colleague['name']} wrote to me about the line {line} in our forecast for the first quarter. Please put "
            "the right figure into the shared file (not into the draft), change nothing else there, and answer in the "
            "same conversation with the figure that is in the file now.",
            goals=[
                goal("the line holds the figure that stands", changed("files", file["id"], content=SameText(expected))),
                goal("answered in the conversation", sent(colleague["id"], thread=mail["thread"])),
                goal("the answer names the figure", sent(colleague["id"], body=contains(str(right)))),
            ],
            wrong=Swap("files_edit", "path", file["path"], draft["path"]),
            brief={"line": line},
        )

    def solve(self, act: Act, brief: Mapping[str, Any]) -> None:
        """Read the conversation to its end, then the file, and replace the number in its line."""
        found = act("mail_search", query=f"Forecast: {brief['line']}")["mails"]
        subject = f"Forecast: {brief['line']}"
        newest = next(mail for mail in found if mail["subject"].endswith(subject))
        last = act("mail_thread", mail_id=newest["mail_id"])["mails"][-1]
        (figure,) = re.findall(r"EUR ([\d,]+)", last["body"])
        figure = figure.replace(",", "")
        files = act("files_search", query="forecast first quarter csv")["files"]
        path = next(file["path"] for file in files if "draft" not in file["path"].lower())
        rows = act("files_read", path=path)["content"].splitlines()
        row = next(row for row in rows if row.startswith(brief["line"] + ","))
        act("files_edit", path=path, find=row, replace=row.rpartition(",")[0] + "," + figure)
        act("mail_reply", mail_id=last["mail_id"], body=f"Done: {brief['line']} now reads EUR {figure}.")


def _mails(stage: Stage, colleague: Row, line: str, first: int, right: int) -> Row:
    """A colleague's figure for the line, the thanks, and the figure that stands; the first mail."""
    subject = f"Forecast: {line}"
    mail = stage.mail(
        colleague,
        subject,
        f"Hi,\n\nthe line {line} in the forecast for the first quarter is too low. It should read EUR {first:,}.\n",
        hours=30,
        read=True,
    )
    stage.mail(stage.me, f"Re: {subject}", "Thanks, I will change it today.", hours=28, to=[colleague], reply_to=mail)
    stage.mail(
        colleague,
        f"Re: {subject}",
        "Please wait: one customer has cancelled. I went through the contracts again and the number that stands is "
        f"EUR {right:,}. Forget the other one, sorry.\n",
        hours=4,
        reply_to=mail,
    )
    return mail
