"""Take a confidential file back from the one person who was never meant to have it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..grading import changed, contains, goal, sent, told
from ..stage import Stage
from ..world import Row
from .template import Act, Situation, Swap, Template

_TITLES = ("Pay bands", "Bonus pool", "Promotion shortlist", "Severance plan")


class RecallMistakenShare(Template):
    """Who is entitled stands in two mails of the owner; a colleague suspects somebody who is."""

    name, level, team, calls = "recall-mistaken-share", 2, "People", 11

    def stage(self, stage: Stage) -> Situation:
        """A file with four readers besides me, one of whom has the name of another, nearly."""
        company, draw, me = stage.company, stage.draw, stage.me
        owner, title = company.lead("People"), draw.pick(_TITLES)
        first = company.someone("Finance", but=[me])
        second = company.someone("Sales", "Engineering", "Operations")
        later = company.someone("Marketing", "IT")
        meant = draw.pick((first, second))
        wrong = company.namesake(meant, draw.pick(("Sales", "Engineering", "IT")), "Working Student")
        readers = [me, first, second, later, wrong]
        sheet = f"# {title}\n\n" + "".join(f"Grade {grade}: {draw.between(40, 99)}\n" for grade in "ABCDE")
        file = stage.file(f"/People/Confidential/{title}.md", owner, sheet, hours=300, readers=readers)
        form = f"# {title}\n\nGrade:\n"
        stage.file(f"/People/Forms/{title} (empty form).md", owner, form, hours=900, readers=[me, wrong, second])
        self._mails(stage, title, owner, draw.shuffled([first, second]), meant, later)
        left = sorted(reader["id"] for reader in readers if reader is not wrong)
        return Situation(
            f"{owner['name']} has just called me: somebody can read our confidential file {title} who was never meant "
            "to, and I fear that it was me who let them. Please find out from my mails who may read it, and take it "
            f"from the one who may not; everyone else keeps it. Then tell {owner['name']} in a direct message who it "
            "was, with name and e-mail address, and ask that person in a mail, which names the file, to delete any "
            "copy.",
            goals=[
                goal("only the wrong person lost access", changed("files", file["id"], readers=left)),
                goal("owner told who it was", told(owner["id"], text=contains(wrong["id"]))),
                goal(
                    "wrong person written to about the file",
                    sent(wrong["id"], body=contains(title)),
                    sent(wrong["id"], subject=contains(title)),
                ),
            ],
            wrong=Swap("files_unshare", "person", wrong["id"], meant["id"]),
            brief={"me": me["id"], "title": title, "owner": owner["name"]},
        )

    def solve(self, act: Act, brief: Mapping[str, Any]) -> None:
        """Collect the names that the owner gave, compare them with the readers, and take back what is too much."""
        title = brief["title"]
        files = act("files_search", query=title)["files"]
        file = next(each for each in files if each["path"].endswith(f"/{title}.md"))
        mails = act("mail_search", query=file["owner"])["mails"]
        texts = [act("mail_read", mail_id=mail["mail_id"])["body"] for mail in mails if mail["from"] == file["owner"]]
        readers = [act("directory_get", email=email) for email in file["readers"] if email != brief["me"]]
        given = "\n".join(texts)
        wrong = next(reader for reader in readers if not re.search(rf"\b{reader['name']}\b", given))
        act("files_unshare", path=file["path"], person=wrong["email"])
        act("chat_direct_send", person=file["owner"], text=f"It was {wrong['name']}, {wrong['email']}. It is undone.")
        ask = f'You were given the file "{title}" by mistake. Please delete any copy that you have.'
        act("mail_send", to=[wrong["email"]], subject="A file that you got by mistake", body=ask)

    def _mails(self, stage: Stage, title: str, owner: Row, asked: list[Row], meant: Row, later: Row) -> None:
        """The owner's order, a complaint of whom I missed, the owner's second order, and a wrong suspicion."""
        me = stage.me
        names = " and ".join(f"{person['name']} ({person['team']})" for person in asked)
        order = stage.mail(
            owner,
            title,
            f'Please let {names} read "{title}". It is confidential, nobody else but you and me may have it.',
            hours=70,
            read=True,
        )
        stage.mail(me, f"Re: {title}", "Both of them have it.", hours=68, to=[owner], reply_to=order)
        complaint = f'I was told that I would get "{title}", but I cannot open it.'
        missed = stage.mail(meant, "No access", complaint, hours=46, read=True)
        stage.mail(me, "Re: No access", "Odd. Try again, please.", hours=45, to=[meant], reply_to=missed)
        more = f"{later['name']} helps me with the grades from now on, I added a reader to our file myself."
        stage.mail(owner, "One more pair of eyes", more, hours=28, read=True)
        colleague = stage.company.someone(later["team"], but=[later])
        stage.mail(
            colleague,
            "Should that be so?",
            f'I saw "{title}" open on the screen of {later["name"]}. That must be a mistake, please take it back.',
            hours=6,
        )
