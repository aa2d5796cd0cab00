"""Coworkers of a task: who owes the agent a reply, and the scripted reply when no model plays them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...serve.environment import UnknownCoworker
from ...wire import CoworkerTurn
from .world import Row, Rows, World

_OK = 200


@dataclass(frozen=True)
class Coworker:
    """A person who answers when asked by direct message or mail.

    `fact` is what they say when a message holds one of the words `about`; `otherwise` is what they say else.
    """

    email: str
    name: str
    about: tuple[str, ...]
    fact: str
    otherwise: str = "Sorry, I am between two meetings. What exactly do you need from me?"

    def scripted(self, text: str) -> str:
        """The reply to a message."""
        asked = text.casefold()
        return self.fact if any(word.casefold() in asked for word in self.about) else self.otherwise


class Coworkers:
    """The coworkers of one episode; they answer messages that were written since it began."""

    def __init__(self, world: World, me: str, cast: Sequence[Coworker]) -> None:
        self._world = world
        self._me = me
        self._cast = cast
        self._old = {row["id"] for table in ("messages", "mails") for row in world.all(table)}
        self.replies = 0

    def answer(self) -> None:
        """Deliver the scripted reply to everything that awaits one."""
        for coworker in self._cast:
            for asked in self._owed(coworker):
                self._deliver(coworker, asked, coworker.scripted(asked.get("text") or asked["subject"] + asked["body"]))

    def turns(self) -> list[CoworkerTurn]:
        """Who owes a reply, each with the conversation as chat messages, the coworker's part being the assistant's."""
        return [
            {"coworker": coworker.name, "messages": self._chat(coworker, owed[0])}
            for coworker in self._cast
            if (owed := self._owed(coworker))
        ]

    def reply(self, name: str, text: str) -> int:
        """Deliver the reply to the oldest message that awaits one from this coworker."""
        for coworker in self._cast:
            if coworker.name == name and (owed := self._owed(coworker)):
                self._deliver(coworker, owed[0], text)
                return _OK
        raise UnknownCoworker(f"{name!r} owes no reply")

    def _owed(self, coworker: Coworker) -> Rows:
        """The last message of each conversation that `me` wrote to the coworker and that has no reply yet."""
        chat = self._world.all("messages", channel="@" + coworker.email)[-1:]
        threads: dict[str, Row] = {}
        for mail in self._world.all("mails"):
            if mail["sender"] == coworker.email or coworker.email in mail["recipients"]:
                threads[mail["thread"]] = mail
        asked = [row for row in chat if row["author"] == self._me]
        asked += [mail for mail in threads.values() if mail["sender"] == self._me]
        return [row for row in asked if row["id"] not in self._old]

    def _deliver(self, coworker: Coworker, asked: Row, text: str) -> None:
        self.replies += 1
        if "channel" in asked:
            self._world.insert(
                "messages", channel=asked["channel"], author=coworker.email, text=text, sent_at=self._world.stamp
            )
            return
        subject = asked["subject"] if asked["subject"].startswith("Re: ") else "Re: " + asked["subject"]
        self._world.insert(
            "mails",
            thread=asked["thread"],
            sender=coworker.email,
            recipients=[self._me],
            cc=[],
            subject=subject,
            body=text,
            sent_at=self._world.stamp,
            folder="inbox",
            read=0,
        )

    def _chat(self, coworker: Coworker, asked: Row) -> list[dict[str, Any]]:
        if "channel" in asked:
            said = [(row["author"], row["text"]) for row in self._world.all("messages", channel=asked["channel"])]
        else:
            mails = self._world.all("mails", thread=asked["thread"])
            said = [(row["sender"], f"Subject: {row['subject']}\n\n{row['body']}") for row in mails]
        turns = [
            {"role": "assistant" if author == coworker.email else "user", "content": text} for author, text in said
        ]
        return [{"role": "system", "content": self._brief(coworker)}, *turns]

    def _brief(self, coworker: Coworker) -> str:
        me = self._world.get("people", self._me)
        person = self._world.get("people", coworker.email)
        assert me is not None, "the persona works here"
        assert person is not None, "the coworker works here"
        return (
            f"You are {coworker.name}, {person['title']}. Your colleague {me['name']} ({me['title']}) writes to you.\n"
            f"What you know: {coworker.fact}\n"
            "When you are asked about it, say it, with every name, number, code and date exactly as given. "
            "Know and promise nothing else. Answer in at most three plain sentences."
        )
