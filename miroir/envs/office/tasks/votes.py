"""Count a poll in a channel where some change their minds, some write elsewhere and some come too late."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from .. import clock
from ..grading import SameText, changed, contains, goal, posted, sent, told
from ..stage import Stage
from ..world import Row
from .template import Act, Situation, Swap, Template

_OPTIONS = ("Boat trip", "Bowling", "Garden party", "Museum", "Cooking class")
_OCCASIONS = ("summer party", "team day", "farewell of the interns")
_ENDED = "Poll for the winter outing: {0}, {1} or {2}?"
_POLL = (
    "Poll for the {occasion}: {0}, {1} or {2}? One vote each, here or in a direct message to {me}. "
    "The last word of each of you counts, if it comes before {end}."
)


class CollectVotes(Template):
    """Some votes are in direct messages, some were changed or taken back, some belong to an older poll."""

    name, level, team, calls = "collect-votes", 2, "Marketing", 11

    def stage(self, stage: Stage) -> Situation:
        """A poll among eleven people, and an older one with the same options."""
        company, draw, me = stage.company, stage.draw, stage.me
        channel, occasion = draw.pick(("#random", "#general")), draw.pick(_OCCASIONS)
        options = draw.sample(_OPTIONS, 3)
        asker = company.someone("Marketing", but=[me])
        voters = draw.sample([row for row in company.people if row not in (me, asker)], 11)
        stage.message(channel, asker, _ENDED.format(*options), hours=800)
        for voter in voters[2:5]:
            stage.message(channel, voter, f"{draw.pick(options)}, please.", hours=790)
        end = clock.stamp(stage.now - timedelta(hours=1))
        poll = _POLL.format(*options, occasion=occasion, me=me["name"], end=end)
        stage.message(channel, asker, poll, hours=40)
        votes = self._votes(stage, channel, voters, draw.shuffled(options))
        counted = Counter(votes)
        (winner, most), _ = counted.most_common(2)
        heading = "Option,Votes\n"
        empty = heading + "".join(f"{option},\n" for option in options)
        full = heading + "".join(f"{option},{counted[option]}\n" for option in options)
        sheet = stage.file(f"/Marketing/Polls/{occasion.capitalize()}.csv", asker, empty, hours=39)
        older = stage.file(f"/Marketing/Polls/Archive/{occasion.capitalize()}.csv", asker, empty, hours=8000)
        late, text = voters[-1]["id"], contains(winner, str(most))
        return Situation(
            f"The poll of {asker['name']} for the {occasion} has ended. Please count the votes, enter them into the "
            "poll's sheet among the shared files, and announce in the channel of the poll which option won and with "
            "how many votes. If somebody wrote only after the end, tell that person directly that it was too late.",
            goals=[
                goal("the sheet has the final votes", changed("files", sheet["id"], content=SameText(full))),
                goal("the winner is announced in the channel", posted(channel, text=text)),
                goal("who came too late knows it", told(late), sent(late)),
            ],
            wrong=Swap("files_write", "path", sheet["path"], older["path"]),
            brief={"occasion": occasion},
        )

    def solve(self, act: Act, brief: Mapping[str, Any]) -> None:
        """Find the poll, then all that was written about its options since, and count each person's last vote."""
        poll = act("chat_search", query=f"poll {brief['occasion']}")["messages"][0]
        ((listed, end),) = re.findall(r": (.+?)\? .* before (\S+Z)\.", poll["text"])
        options = re.split(", | or ", listed)
        found = [message for option in options for message in _all(act, option)]
        messages = {each["message_id"]: each for each in found if each["sent_at"] > poll["sent_at"]}
        last: dict[str, str | None] = {}
        late = []
        for message in sorted(messages.values(), key=lambda each: each["sent_at"]):
            if message["sent_at"] < end and not message["text"].endswith("?"):
                last[message["from"]] = _choice(message["text"], options)
            elif message["sent_at"] >= end and message["from"] not in last:
                late.append(message["from"])
        counted = Counter(last.values())
        files = act("files_search", query=f"polls {brief['occasion']}.csv")["files"]
        path = max(files, key=lambda file: file["updated_at"])["path"]
        head = act("files_read", path=path)["content"].splitlines()[0]
        lines = [f"{option},{counted[option]}" for option in options]
        act("files_write", path=path, content="\n".join([head, *lines]) + "\n")
        winner = max(options, key=lambda option: counted[option])
        act("chat_post", channel=poll["channel"], text=f"{winner} has won with {counted[winner]} votes.")
        for person in late:
            act("chat_direct_send", person=person, text="Sorry, your vote came after the end of the poll.")

    def _votes(self, stage: Stage, channel: str, voters: Sequence[Row], options: Sequence[str]) -> list[str]:
        """Let people vote; the votes that count are returned, most of them for the first option."""
        winner, rival, third = options
        first = [winner, winner, stage.draw.pick((winner, third)), *[rival] * 3, rival, third, rival, winner]
        for voter, option in zip(voters, first, strict=False):
            text = stage.draw.pick(("{0} for me.", "I am for this one: {0}.", "{0}, please.")).format(option)
            stage.message(channel, voter, text, hours=stage.draw.between(12, 35))
        changed_mind = ((3, channel, winner), (4, "@" + voters[4]["id"], winner), (8, channel, third))
        for index, where, option in changed_mind:
            said = f"I wrote {rival}, but make it {option}."
            stage.message(where, voters[index], said, hours=stage.draw.between(3, 10))
        stage.message(
            channel, voters[9], f"I take back {winner}, I am away on that day.", hours=stage.draw.between(3, 10)
        )
        stage.message(channel, voters[0], f"Is {rival} open in the evening at all?", hours=stage.draw.between(3, 10))
        stage.message(channel, voters[7], f"Changed my mind, {rival}.", hours=1)
        stage.message(channel, voters[10], f"{rival} for me.", hours=1)
        return [winner, winner, first[2], winner, winner, rival, rival, third, third]


def _all(act: Act, query: str) -> list[dict[str, Any]]:
    """What all pages of a search hold."""
    first = act("chat_search", query=query)
    rest = [act("chat_search", query=query, page=page) for page in range(2, first["pages"] + 1)]
    return [message for page in (first, *rest) for message in page["messages"]]


def _choice(text: str, options: Sequence[str]) -> str | None:
    """The option that a vote names last; None when it takes a vote back."""
    return None if "take back" in text else max(options, key=text.rfind)
