"""Answer a colleague's question from the handbook that is in force."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..grading import contains, goal, sent
from ..stage import Stage
from ..world import Row
from .template import Act, Situation, Swap, Template

_TOPICS = ("Working from abroad", "Training leave", "Volunteering", "Care for relatives", "Moving house")
_OFFICES = ("Berlin", "London", "New York")


class AnswerFromHandbook(Template):
    """The question changes in a second mail; the old handbook and the chat give other figures."""

    name, level, team, calls = "answer-from-handbook", 1, "People", 7

    def stage(self, stage: Stage) -> Situation:
        """Two handbooks, a rumour, a question in two mails, and a namesake's question about the same."""
        company, draw = stage.company, stage.draw
        topics = draw.shuffled(_TOPICS)
        old = {topic: draw.sample(range(11, 29), len(_OFFICES)) for topic in topics}
        new = {topic: [days + draw.between(1, 9) for days in old[topic]] for topic in topics}
        lead = company.lead("People")
        stage.file("/People/Archive/Handbook of benefits.md", lead, _handbook(sorted(topics), old), hours=6000)
        stage.file("/People/Handbook of benefits.md", lead, _handbook(topics, new), hours=150)

        colleague = company.someone("Engineering", "Sales", "Marketing")
        asked, dropped = topics[0], topics[1]
        days = new[asked][_OFFICES.index(colleague["office"])]
        rumour = f"Have you heard? {asked}: it is {days + 10} days for everyone from now on."
        stage.message("#random", company.someone(but=[stage.me, colleague]), rumour, hours=20)
        mail = self._question(stage, colleague, dropped, 30)
        other = company.namesake(colleague, "Operations", "Trainee")
        strange = self._question(stage, other, asked, 8)
        later = f"Sorry, I meant another thing: how many days are there for this: {asked.lower()}? Forget the first."
        last = stage.mail(colleague, "Re: " + mail["subject"], later, hours=5, reply_to=mail)
        section = f"{topics.index(asked) + 1}.{_OFFICES.index(colleague['office']) + 1}"
        return Situation(
            f"{colleague['name']} asked me by mail about our benefits. Please answer in the same conversation, from "
            "the handbook that is in force now: how many days it is in that person's office, and the number of the "
            "paragraph where it stands (like 7.3).",
            goals=[
                goal("answered in the conversation", sent(colleague["id"], thread=mail["thread"])),
                goal("the answer has the figure", sent(colleague["id"], body=contains(str(days)))),
                goal("the answer has the paragraph", sent(colleague["id"], body=contains(section))),
            ],
            wrong=Swap("mail_reply", "mail_id", last["id"], strange["id"]),
            brief={"name": colleague["name"]},
        )

    def solve(self, act: Act, brief: Mapping[str, Any]) -> None:
        """See where the colleague works, read the conversation to its end, and look it up in the newer handbook."""
        name = brief["name"]
        people = act("directory_search", query=name)["people"]
        card = act("directory_get", email=next(person["email"] for person in people if person["name"] == name))
        mails = act("mail_search", query=f"{name} benefits")["mails"]
        mail_id = next(mail["mail_id"] for mail in mails if mail["from"] == card["email"])
        last = act("mail_thread", mail_id=mail_id)["mails"][-1]
        (topic,) = re.findall(r"for this: (.+)\?", last["body"])
        files = act("files_search", query=f"handbook benefits {topic}")["files"]
        path = max(files, key=lambda file: file["updated_at"])["path"]
        part = act("files_read", path=path)["content"].lower().partition(topic)[2]
        (section, days), *_ = re.findall(rf"(\d\.\d) {card['office'].lower()}: (\d+) days", part)
        act("mail_reply", mail_id=last["mail_id"], body=f"It is {days} days, see {section} of the handbook.")

    def _question(self, stage: Stage, sender: Row, topic: str, hours: int) -> Row:
        body = f"Hi,\n\nhow many days do I have for this: {topic.lower()}?\n\n{sender['name']}"
        return stage.mail(sender, "A question about our benefits", body, hours=hours)


def _handbook(topics: Sequence[str], days: Mapping[str, Sequence[int]]) -> str:
    """Topics in this order, each with a numbered paragraph for each office."""
    lines = ["# Handbook of benefits", "", "Days a year, by office."]
    for number, topic in enumerate(topics, 1):
        lines += ["", f"## {number} {topic}", ""]
        lines += [
            f"{number}.{place} {office}: {days[topic][place - 1]} days" for place, office in enumerate(_OFFICES, 1)
        ]
    return "\n".join(lines) + "\n"
