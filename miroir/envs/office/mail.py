"""Mail: one person's mailbox, and sending from it."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from ...serve.environment import ToolError
from . import listing
from .operation import Answer, App, Emails, Page, Query, operation
from .world import Row, Rows

MailId = Annotated[str, "id of a mail, like mail-1234"]

_ADDRESS = re.compile(r"[^@\s,;<>]+@[^@\s,;<>]+\.[^@\s,;<>]+")


class Mail(App):
    """Read and send mail."""

    name: ClassVar[str] = "mail"
    summary: ClassVar[str] = "your mailbox"

    @operation("List mails of a folder, newest first.")
    def list(
        self,
        folder: Literal["inbox", "sent", "archive", "trash"] = "inbox",
        unread_only: Annotated[bool, "leave out what was read"] = False,
        page: Page = 1,
    ) -> Answer:
        rows = [row for row in self._newest() if row["folder"] == folder and not (unread_only and row["read"])]
        return listing.paged("mails", [_line(row) for row in rows], page)

    @operation("Search all folders by sender, subject and text, newest first.")
    def search(self, query: Query, page: Page = 1) -> Answer:
        rows = [row for row in self._newest() if listing.holds(query, row["sender"], row["subject"], row["body"])]
        return listing.paged("mails", [_line(row) for row in rows], page)

    @operation("Read one mail; it counts as read then.")
    def read(self, mail_id: MailId) -> Answer:
        return _whole(self.world.update("mails", self._mail(mail_id)["id"], read=1))

    @operation("Read the whole conversation that a mail belongs to, oldest first.")
    def thread(self, mail_id: MailId) -> Answer:
        rows = sorted(self.world.all("mails", thread=self._mail(mail_id)["thread"]), key=lambda row: row["sent_at"])
        return {"mails": [_whole(self.world.update("mails", row["id"], read=1)) for row in rows]}

    @operation("Send a new mail.", writes=True)
    def send(self, to: Emails, subject: str, body: str, cc: Emails | None = None) -> Answer:
        return self._sent(None, to, cc or [], subject, body)

    @operation("Answer a mail: to its sender, or with reply_all to everyone on it.", writes=True)
    def reply(self, mail_id: MailId, body: str, reply_all: bool = False) -> Answer:
        row = self._mail(mail_id)
        to = row["recipients"] if row["sender"] == self.me else [row["sender"]]
        others = [email for email in [*row["recipients"], *row["cc"]] if email not in {self.me, *to}]
        return self._sent(row["thread"], to, others if reply_all else [], _prefixed("Re: ", row), body)

    @operation("Forward a mail, with a comment above it.", writes=True)
    def forward(self, mail_id: MailId, to: Emails, comment: str = "") -> Answer:
        row = self._mail(mail_id)
        quoted = f"---------- Forwarded ----------\nFrom: {row['sender']}\nDate: {row['sent_at']}\n\n{row['body']}"
        body = f"{comment}\n\n{quoted}" if comment else quoted
        return self._sent(row["thread"], to, [], _prefixed("Fwd: ", row), body)

    @operation("Move a mail to another folder; trash deletes it.", writes=True)
    def move(self, mail_id: MailId, folder: Literal["inbox", "archive", "trash"]) -> Answer:
        return _line(self.world.update("mails", self._mail(mail_id)["id"], folder=folder))

    def _newest(self) -> Rows:
        return sorted(self.world.all("mails"), key=lambda row: row["sent_at"])[::-1]

    def _mail(self, mail_id: str) -> Row:
        row = self.world.get("mails", mail_id)
        if row is None:
            raise ToolError(f"there is no mail {mail_id!r}; mail list and mail search give the ids")
        return row

    def _sent(self, thread: str | None, to: Emails, cc: Emails, subject: str, body: str) -> Answer:
        if not to:
            raise ToolError("a mail needs at least one recipient in `to`", "invalid_args")
        for email in [*to, *cc]:
            self._reachable(email)
        row = self.world.insert(
            "mails",
            sender=self.me,
            recipients=sorted(set(to)),
            cc=sorted(set(cc)),
            subject=subject,
            body=body,
            sent_at=self.world.stamp,
            folder="sent",
            read=1,
        )
        self.world.update("mails", row["id"], thread=thread or row["id"])
        return {"mail_id": row["id"], "to": row["recipients"], "cc": row["cc"], "subject": subject}

    def _reachable(self, email: str) -> None:
        """ToolError for what is no address, and for an address of this company that nobody has."""
        if not _ADDRESS.fullmatch(email):
            raise ToolError(f"{email!r} is no e-mail address; the directory has everyone's", "invalid_args")
        if email.endswith(self.me[self.me.index("@") :]):
            self._person(email)


def _prefixed(prefix: str, row: Row) -> str:
    subject: str = row["subject"]
    return subject if subject.startswith(prefix) else prefix + subject


def _line(row: Row) -> dict[str, Any]:
    return {
        "mail_id": row["id"],
        "from": row["sender"],
        "to": row["recipients"],
        "subject": row["subject"],
        "sent_at": row["sent_at"],
        "folder": row["folder"],
        "read": bool(row["read"]),
    }


def _whole(row: Row) -> dict[str, Any]:
    return _line(row) | {"cc": row["cc"], "body": row["body"]}
