"""Get a new colleague into the right channels and meetings, and welcome them with the right buddy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from .. import clock
from ..grading import Goal, changed, contains, goal, sent
from ..stage import Stage
from ..world import Row
from .template import Act, Situation, Swap, Template

_CHECKLIST = """# Onboarding checklist

On somebody's first day:

1. Add them to the private channels on their team's list (Team lists.md). Where the topic of a channel says that it is \
closed, take the one that the topic names instead.
2. Invite them to their team's weekly, every one of the next two weeks. Whoever is invited already stays invited.
3. Their buddy is the first on their team's list who is not out of office on that day.
4. Send them, and nobody else, a welcome mail with their buddy's full name.
"""
_LIST = """
## {team}

- Channels: {channels}
- Buddies: {buddies}
"""
_FOLDER = "/People/Onboarding"
_SUFFIXES = ("desk", "reviews", "news", "talk", "plans")


class OnboardNewcomer(Template):
    """A namesake works in another team, a listed channel is closed, and listed buddies are away."""

    name, level, team, calls = "onboard-newcomer", 2, "People", 16

    def stage(self, stage: Stage) -> Situation:
        """Two teams with channels and a weekly that I organize, their lists, and an older version of these."""
        company, draw, head = stage.company, stage.draw, stage.company.lead("People")
        teams = draw.sample(("Engineering", "Sales", "Marketing", "Operations"), 2)
        buddies = {team: draw.sample(company.members(team)[1:], 3) for team in teams}
        channels = {team: self._channels(stage, team) for team in teams}
        weeklies = {team: self._weeklies(stage, team) for team in teams}
        lists = "".join(_list(team, channels[team][:2], buddies[team]) for team in sorted(teams))
        older = "".join(_list(team, channels[team][1:], buddies[team][::-1]) for team in sorted(teams))
        stage.file(f"{_FOLDER}/Checklist.md", head, _CHECKLIST, hours=900)
        stage.file(f"{_FOLDER}/Team lists.md", head, lists, hours=200)
        stage.file(f"{_FOLDER}/Archive/Team lists (last year).md", head, older, hours=7000)
        team, elsewhere = teams
        buddy, other = self._absences(stage, buddies[team]), company.someone(elsewhere)
        newcomer = company.namesake(other, team, draw.pick(("Trainee", "Working Student", "Analyst")))
        return Situation(
            f"Today is the first day of {newcomer['name']}. Please do everything that our onboarding checklist says "
            "for a first day; it is among the shared files, and I am in all the channels and organize the weeklies, so "
            "you can do it in my name.",
            goals=[
                *_goals(newcomer, channels[team][::2], weeklies[team]),
                goal("welcomed with the right buddy", sent(newcomer["id"], body=contains(buddy["name"]))),
            ],
            wrong=Swap("chat_invite", "person", newcomer["id"], other["id"]),
            brief={"name": newcomer["name"], "today": stage.day(0).isoformat()},
        )

    def solve(self, act: Act, brief: Mapping[str, Any]) -> None:
        """Look the person and the lists up, then go through the checklist."""
        people = act("directory_search", query=brief["name"])["people"]
        newcomer, team = next((each["email"], each["team"]) for each in people if each["name"] == brief["name"])
        act("files_read", path=act("files_search", query="onboarding checklist first day")["files"][0]["path"])
        files = act("files_search", query="team lists channels buddies")["files"]
        lists = act("files_read", path=max(files, key=lambda file: file["updated_at"])["path"])["content"]
        ((listed, names),) = re.findall(rf"## {team}\n\n- Channels: (.+)\n- Buddies: (.+)", lists)
        topics = {each["channel"]: each["topic"] for each in act("chat_channels")["channels"]}
        for channel in listed.split(", "):
            instead = re.findall(r"Closed, use (\S+) instead", topics[channel])
            act("chat_invite", channel=(instead or [channel])[0], person=newcomer)
        tomorrow = clock.day(brief["today"]) + timedelta(days=1)
        last = tomorrow + timedelta(days=13)
        events = act("calendar_list", first_day=tomorrow.isoformat(), last_day=last.isoformat())["events"]
        for event in events:
            if event["title"] == f"{team} weekly":
                act("calendar_update", event_id=event["event_id"], attendees=[*event["attendees"], newcomer])
        emails = {member["name"]: member["email"] for member in act("directory_team", team=team)["members"]}
        buddy = next(name for name in names.split(", ") if not self._away(act, emails[name], brief["today"]))
        text = f"Welcome! Your buddy is {buddy}, who shows you around."
        act("mail_send", to=[newcomer], subject="Welcome", body=text)

    def _away(self, act: Act, email: str, today: str) -> bool:
        """Whether the directory says that the person is out of office today."""
        absence = act("directory_get", email=email)["out_of_office"]
        return bool(absence and absence["from"] <= today <= absence["until"])

    def _absences(self, stage: Stage, listed: Sequence[Row]) -> Row:
        """One or two of the listed are away today, the next only later: that is the buddy."""
        away = stage.draw.between(1, 2)
        for index, person in enumerate(listed[: away + 1]):
            first, last = (0, stage.draw.between(1, 6)) if index < away else (5, 9)
            dates = {"out_from": stage.day(first).isoformat(), "out_until": stage.day(last).isoformat()}
            stage.company.update(person, **dates, out_note="On holiday.")
        return listed[away]

    def _channels(self, stage: Stage, team: str) -> list[Row]:
        """A channel that is listed, one that is listed and closed, and the one that took its place."""
        members = [stage.me, *stage.company.members(team)]
        names = [f"#{team.lower()}-{suffix}" for suffix in stage.draw.sample(_SUFFIXES, 3)]
        topics = ("Private to the team", f"Closed, use {names[2]} instead", "Private to the team")
        return [stage.channel(name, topic, members) for name, topic in zip(names, topics, strict=True)]

    def _weeklies(self, stage: Stage, team: str) -> list[Row]:
        """The team's weekly of today, which is over, and those of the next two weeks."""
        title, guests = f"{team} weekly", stage.company.members(team)
        stage.event(title, stage.me, guests, clock.at(stage.day(0), "08:00"), 30)
        time = stage.draw.pick(("09:00", "12:30", "13:00"))
        return [stage.event(title, stage.me, guests, clock.at(stage.day(ahead), time), 30) for ahead in (3, 8)]


def _goals(newcomer: Row, channels: Sequence[Row], weeklies: Sequence[Row]) -> list[Goal]:
    """The newcomer is added where the rest of the team is."""
    person, goals = newcomer["id"], []
    for what, row in zip(("channel that is listed", "channel that replaced a closed one"), channels, strict=True):
        members = sorted([*row["members"], person])
        goals.append(goal(f"added to the {what}", changed("channels", row["id"], members=members)))
    for week, row in enumerate(weeklies, 1):
        guests = sorted([*row["attendees"], person])
        invited = {"attendees": guests, "responses": {**row["responses"], person: "needs_action"}}
        goals.append(goal(f"invited to the weekly of week {week}", changed("events", row["id"], **invited)))
    return goals


def _list(team: str, channels: Sequence[Row], buddies: Sequence[Row]) -> str:
    """A team's part of the lists."""
    names = [", ".join(names) for names in ([row["id"] for row in channels], [row["name"] for row in buddies])]
    return _LIST.format(team=team, channels=names[0], buddies=names[1])
