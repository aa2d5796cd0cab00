"""Chat: channels and direct messages."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from ...serve.environment import ToolError
from . import listing
from .operation import Answer, App, Email, Page, Query, operation
from .world import Row, Rows

Channel = Annotated[str, "name of a channel, like #general"]


class Chat(App):
    """Read and write chat messages. A direct conversation with X is stored as the channel `@X`."""

    name: ClassVar[str] = "chat"
    summary: ClassVar[str] = "team chat: channels and direct messages"

    @operation("List the channels that you can read; a private one has members, the others are everybody's.")
    def channels(self) -> Answer:
        return {"channels": [_card(row) for row in self.world.all("channels") if self._readable(row)]}

    @operation("Read a channel, newest message first.")
    def read(self, channel: Channel, page: Page = 1) -> Answer:
        return self._history(self._channel(channel)["id"], page)

    @operation("Search the messages of all channels and direct conversations, newest first.")
    def search(self, query: Query, page: Page = 1) -> Answer:
        hidden = {row["id"] for row in self.world.all("channels") if not self._readable(row)}
        rows = [
            row
            for row in self._newest(None)
            if row["channel"] not in hidden and listing.holds(query, row["author"], row["text"])
        ]
        return listing.paged("messages", [_line(row) for row in rows], page)

    @operation("Post a message to a channel.", writes=True)
    def post(self, channel: Channel, text: str) -> Answer:
        return self._write(self._channel(channel)["id"], text)

    @operation("Add a person to a private channel of which you are a member.", writes=True)
    def invite(self, channel: Channel, person: Email) -> Answer:
        row = self._channel(channel)
        if not row["private"]:
            raise ToolError(f"{channel} is not private: everyone is in it already")
        members = sorted({*row["members"], self._person(person)["id"]})
        return _card(self.world.update("channels", channel, members=members))

    @operation("Read your direct messages with one person, newest first.")
    def direct_read(self, person: Email, page: Page = 1) -> Answer:
        return self._history("@" + self._person(person)["id"], page)

    @operation("Send one person a direct message.", writes=True)
    def direct_send(self, person: Email, text: str) -> Answer:
        if person == self.me:
            raise ToolError("you cannot send a direct message to yourself")
        return self._write("@" + self._person(person)["id"], text)

    def _readable(self, channel: Row) -> bool:
        return not channel["private"] or self.me in channel["members"]

    def _channel(self, name: str) -> Row:
        known = {row["id"]: row for row in self.world.all("channels") if self._readable(row)}
        if name not in known:
            raise ToolError(f"there is no channel {name!r}; channels: {', '.join(known)}")
        return known[name]

    def _newest(self, channel: str | None) -> Rows:
        rows = self.world.all("messages", channel=channel)
        return sorted(rows, key=lambda row: row["sent_at"])[::-1]

    def _history(self, channel: str, page: int) -> Answer:
        return listing.paged("messages", [_line(row) for row in self._newest(channel)], page)

    def _write(self, channel: str, text: str) -> Answer:
        return _line(
            self.world.insert("messages", channel=channel, author=self.me, text=text, sent_at=self.world.stamp)
        )


def _card(row: Row) -> dict[str, Any]:
    members = {"members": row["members"]} if row["private"] else {}
    return {"channel": row["id"], "topic": row["topic"], "private": bool(row["private"])} | members


def _line(row: Row) -> dict[str, Any]:
    return {
        "message_id": row["id"],
        "channel": row["channel"],
        "from": row["author"],
        "text": row["text"],
        "sent_at": row["sent_at"],
    }
