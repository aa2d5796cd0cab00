"""The office's tools: every operation on surfaces `api` and `mcp`, and what they answer to mistakes."""

from __future__ import annotations

from typing import Any

import pytest
from officeplay import playing

from miroir.envs.office import Office
from miroir.envs.office.scene import scenes
from miroir.envs.office.tools import by_tool
from miroir.envs.office.world import World
from miroir.serve.environment import ToolError

TASK = "correct-figure-1"
SCENE = scenes()[TASK]
ME = SCENE.me
SOMEONE = next(email for email in SCENE.start["people"] if email != ME)
MAIL = next(row["id"] for row in SCENE.start["mails"].values() if row["sender"] != ME)
TICKET = next(iter(SCENE.start["tickets"]))
FILE = "/Company/Handbook.md"
DAY = f"{SCENE.now:%Y-%m-%d}"
NINE, TEN = f"{DAY}T03:00:00Z", f"{DAY}T05:00:00+01:00"
MINE = {"title": "Focus", "attendees": [SOMEONE], "start": NINE, "end": TEN}

# Each tool with arguments, and a key of its answer. Event ids, #board and /Shared.md stand for what is made first.
CALLS: dict[str, tuple[dict[str, Any], str]] = {
    "directory_search": ({"query": "finance"}, "people"),
    "directory_get": ({"email": SOMEONE}, "working_hours"),
    "directory_team": ({"team": "finance"}, "leads"),
    "mail_list": ({"folder": "inbox", "page": 2}, "mails"),
    "mail_search": ({"query": "forecast"}, "mails"),
    "mail_read": ({"mail_id": MAIL}, "body"),
    "mail_thread": ({"mail_id": MAIL}, "mails"),
    "mail_send": ({"to": [SOMEONE], "subject": "Hello", "body": "Hi"}, "mail_id"),
    "mail_reply": ({"mail_id": MAIL, "body": "Thanks", "reply_all": True}, "mail_id"),
    "mail_forward": ({"mail_id": MAIL, "to": [SOMEONE], "comment": "See below"}, "mail_id"),
    "mail_move": ({"mail_id": MAIL, "folder": "archive"}, "folder"),
    "chat_channels": ({}, "channels"),
    "chat_read": ({"channel": "#general"}, "messages"),
    "chat_search": ({"query": "coffee"}, "messages"),
    "chat_post": ({"channel": "#random", "text": "Hello"}, "message_id"),
    "chat_invite": ({"channel": "#board", "person": SOMEONE}, "members"),
    "chat_direct_read": ({"person": SOMEONE}, "messages"),
    "chat_direct_send": ({"person": SOMEONE, "text": "Hello"}, "message_id"),
    "calendar_list": ({"first_day": DAY, "last_day": DAY, "person": SOMEONE}, "events"),
    "calendar_busy": ({"people": [ME, SOMEONE], "day": DAY}, "busy"),
    "calendar_rooms": ({"start": NINE, "end": TEN, "office": "Berlin"}, "rooms"),
    "calendar_get": ({"event_id": "mine"}, "responses"),
    "calendar_create": (MINE | {"room": "Berlin Alder"}, "event_id"),
    "calendar_update": ({"event_id": "mine", "title": "Deep focus"}, "event_id"),
    "calendar_respond": ({"event_id": "invited", "response": "declined"}, "response"),
    "calendar_cancel": ({"event_id": "mine"}, "cancelled"),
    "tickets_list": ({"queue": "hardware"}, "tickets"),
    "tickets_search": ({"query": "screen"}, "tickets"),
    "tickets_get": ({"ticket_id": TICKET}, "comments"),
    "tickets_create": ({"title": "Lamp", "body": "It flickers", "queue": "facilities"}, "ticket_id"),
    "tickets_update": ({"ticket_id": TICKET, "assignee": SOMEONE, "due_on": DAY}, "assignee"),
    "tickets_comment": ({"ticket_id": TICKET, "text": "On it"}, "comments"),
    "files_list": ({"folder": "/Company"}, "files"),
    "files_search": ({"query": "handbook"}, "files"),
    "files_read": ({"path": FILE, "version": 1}, "content"),
    "files_history": ({"path": FILE}, "versions"),
    "files_create": ({"path": "/Company/New.md", "content": "x"}, "version"),
    "files_edit": ({"path": FILE, "find": "10:00", "replace": "11:00"}, "version"),
    "files_append": ({"path": FILE, "text": "More."}, "version"),
    "files_write": ({"path": FILE, "content": "New."}, "version"),
    "files_restore": ({"path": FILE, "version": 1}, "version"),
    "files_move": ({"path": FILE, "new_path": "/Company/Old.md"}, "path"),
    "files_share": ({"path": FILE, "person": SOMEONE}, "path"),
    "files_unshare": ({"path": "/Shared.md", "person": SOMEONE}, "readers"),
    "files_transfer": ({"path": "/Shared.md", "person": SOMEONE}, "owner"),
    "files_delete": ({"path": FILE}, "deleted"),
}


def prepared(world: World, arguments: dict[str, Any]) -> dict[str, Any]:
    """Make #board and /Shared.md; the arguments with a new event's id for `mine` or one that I am `invited` to."""
    world.insert("channels", "#board", topic="Numbers", members=[ME], private=1)
    world.insert("files", path="/Shared.md", owner=ME, readers=[SOMEONE], content="x", version=1)
    mark = arguments.get("event_id")
    if mark is None:
        return arguments
    organizer, guest = (ME, SOMEONE) if mark == "mine" else (SOMEONE, ME)
    times = {"starts_at": NINE, "ends_at": f"{DAY}T04:00:00Z"}
    people = {"organizer": organizer, "attendees": [guest], "responses": {guest: "needs_action"}}
    return arguments | {"event_id": world.insert("events", title="Sync", **people, **times)["id"]}


def test_every_operation_is_a_tool_of_surface_api() -> None:
    """Surface `api` has at least 24 tools, each described, its schema closed; the table below calls each of them."""
    tools = Office().tools("api")
    assert len(tools) >= 24
    assert {tool["name"] for tool in tools} == set(CALLS)
    for tool in tools:
        assert tool["description"].endswith(".")
        assert tool["inputSchema"]["additionalProperties"] is False
        assert set(tool["inputSchema"]["required"]) <= set(tool["inputSchema"]["properties"])


@pytest.mark.parametrize("tool", CALLS)
def test_api_and_mcp_answer_alike(tool: str) -> None:
    """An operation's own tool and its app's tool with `action` answer the same, and writing changes the world."""
    arguments, key = CALLS[tool]
    app, action = tool.split("_", 1)
    with playing(TASK) as office:
        world = office._playing().world
        given = prepared(world, arguments)
        before = world.snapshot()
        answer = office.call(tool, given)
        assert key in answer
        assert not by_tool()[tool].writes or world.snapshot() != before
    with playing(TASK, "mcp") as office:
        given = prepared(office._playing().world, arguments)
        assert office.call(app, {"action": action} | given) == answer


def test_mcp_groups_the_operations_by_app() -> None:
    """Surface `mcp` has at most 10 tools, whose actions are all operations; a parameter means one thing in an app."""
    tools = Office().tools("mcp")
    assert len(tools) <= 10
    actions = {
        f"{tool['name']}_{action}" for tool in tools for action in tool["inputSchema"]["properties"]["action"]["enum"]
    }
    assert actions == set(CALLS)
    kinds = {tool["name"]: tool["inputSchema"]["properties"] for tool in tools}
    for operation in by_tool().values():
        for name, schema in operation.parameters.items():
            assert kinds[operation.app][name]["type"] == schema["type"]


@pytest.mark.parametrize(
    ("tool", "arguments", "kind", "message"),
    [
        ("mail_burn", {}, "tool_not_found", "there is no tool 'mail_burn'; nearest: mail_"),
        ("mail_read", {}, "invalid_args", "mail_read needs the argument 'mail_id'; it takes mail_id"),
        ("mail_read", {"id": "x"}, "invalid_args", "mail_read has no argument 'id'; it takes mail_id"),
        ("mail_list", {"page": "2"}, "invalid_args", "mail_list: page must be of type integer, not str"),
        ("mail_list", {"page": True}, "invalid_args", "mail_list: page must be of type integer, not bool"),
        ("mail_list", {"folder": "spam"}, "invalid_args", "must be one of inbox, sent, archive, trash, not 'spam'"),
        ("mail_send", {"to": [1], "subject": "", "body": ""}, "invalid_args", "to: each item must be of type string"),
        ("mail_send", {"to": [], "subject": "", "body": ""}, "invalid_args", "needs at least one recipient"),
        ("mail_send", {"to": ["Bob"], "subject": "", "body": ""}, "invalid_args", "'Bob' is no e-mail address"),
        ("mail_read", {"mail_id": "mail-1"}, "execution_error", "there is no mail 'mail-1'"),
        (
            "directory_get",
            {"email": "nobody@x.example"},
            "execution_error",
            "has the address 'nobody@x.example'; nearest: ",
        ),
        (
            "directory_team",
            {"team": "Law"},
            "execution_error",
            "there is no team 'Law'; teams: Engineering, Finance, IT",
        ),
        ("chat_read", {"channel": "#law"}, "execution_error", "there is no channel '#law'; channels: #general, "),
        ("chat_direct_send", {"person": ME, "text": "x"}, "execution_error", "to yourself"),
        ("calendar_get", {"event_id": "event-1"}, "execution_error", "there is no event 'event-1'"),
        ("calendar_list", {"first_day": "soon", "last_day": DAY}, "invalid_args", "'soon' is no day; write it like"),
        ("calendar_list", {"first_day": DAY, "last_day": "2031-01-01"}, "invalid_args", "0 to 13 days after first_day"),
        ("calendar_rooms", {"start": f"{DAY}T09:00", "end": TEN}, "invalid_args", "has no UTC offset; add Z"),
        ("calendar_rooms", {"start": "nine", "end": TEN}, "invalid_args", "'nine' is no ISO-8601 time"),
        ("calendar_rooms", {"start": TEN, "end": NINE}, "invalid_args", "must be after the start"),
        (
            "calendar_rooms",
            {"start": NINE, "end": TEN, "office": "Rome"},
            "execution_error",
            "offices: Berlin, London, New",
        ),
        (
            "calendar_create",
            MINE | {"room": "Attic"},
            "execution_error",
            "there is no room 'Attic'; rooms: Berlin Alder",
        ),
        ("tickets_get", {"ticket_id": "T-1"}, "execution_error", "there is no ticket 'T-1'; nearest: T-"),
        ("tickets_update", {"ticket_id": TICKET}, "invalid_args", "nothing to change: give queue, assignee"),
        ("files_read", {"path": "/Company/Handbok.md"}, "execution_error", "nearest: /Company/Handbook.md"),
        ("files_read", {"path": FILE, "version": 9}, "execution_error", "has no version 9; its versions are 1 to 1"),
        ("files_edit", {"path": FILE, "find": "zzz", "replace": ""}, "execution_error", "occurs 0 times"),
        (
            "files_create",
            {"path": FILE, "content": ""},
            "execution_error",
            "there is a file '/Company/Handbook.md' already",
        ),
        ("files_create", {"path": "New.md", "content": ""}, "invalid_args", "is no path of a file"),
        ("files_list", {"folder": "/Law"}, "execution_error", "there is no folder '/Law'; folders: /Company"),
    ],
)
def test_a_mistake_is_told_with_what_there_is(tool: str, arguments: dict[str, Any], kind: str, message: str) -> None:
    """A refused call names what was wrong and what would do, and changes nothing."""
    with playing(TASK) as office:
        with pytest.raises(ToolError) as refused:
            office.call(tool, arguments)
        assert message in refused.value.message
        assert refused.value.error_type == kind
        assert office.grade().diagnostics["changes"] == 0


def test_mcp_names_the_tools_and_actions_that_there_are() -> None:
    """An unknown tool or action of surface `mcp` is refused with the known ones."""
    with playing(TASK, "mcp") as office:
        with pytest.raises(ToolError, match="there is no tool 'mail_list'; tools: directory, mail, chat"):
            office.call("mail_list", {})
        with pytest.raises(ToolError, match=r"mail needs an action, one of list, search, read, .*; not 'burn'"):
            office.call("mail", {"action": "burn"})


def test_lists_come_in_pages() -> None:
    """A list holds ten rows a page and says how many there are; a page beyond the last is empty."""
    with playing(TASK) as office:
        first = office.call("mail_list", {})
        last = office.call("mail_list", {"page": first["pages"]})
        beyond = office.call("mail_list", {"page": first["pages"] + 1})
    assert len(first["mails"]) == 10
    assert first["total"] == 10 * (first["pages"] - 1) + len(last["mails"])
    assert beyond["mails"] == []


def test_a_room_is_booked_once() -> None:
    """A second meeting in a room at the same time is refused and names the first."""
    with playing(TASK) as office:
        booked = office.call("calendar_create", MINE | {"room": "Berlin Birch"})
        with pytest.raises(ToolError, match=f"Berlin Birch is taken from .* by {booked['event_id']}"):
            office.call("calendar_create", MINE | {"room": "Berlin Birch"})


def test_only_the_organizer_changes_an_event() -> None:
    """Somebody else's event can be answered, not changed or cancelled."""
    event = next(row for row in SCENE.start["events"].values() if ME not in (row["organizer"], *row["attendees"]))
    with playing(TASK) as office:
        with pytest.raises(ToolError, match=r"only the organizer, .* can change"):
            office.call("calendar_cancel", {"event_id": event["id"]})
        with pytest.raises(ToolError, match="you are not invited to"):
            office.call("calendar_respond", {"event_id": event["id"], "response": "accepted"})


def test_a_file_of_others_can_be_hidden() -> None:
    """A file that was not shared with the person is neither listed nor read."""
    with playing(TASK) as office:
        office._playing().world.insert(
            "files", path="/Company/Salaries.csv", owner=SOMEONE, readers=[], content="x", version=1
        )
        assert office.call("files_search", {"query": "salaries"})["total"] == 0
        with pytest.raises(ToolError, match=f"you may not read /Company/Salaries.csv; its owner is {SOMEONE}"):
            office.call("files_read", {"path": "/Company/Salaries.csv"})


def test_a_shared_file_is_taken_back_or_given_away() -> None:
    """A reader who is none any more cannot be removed again; only the owner gives a file away, and still reads it."""
    with playing(TASK) as office:
        given = prepared(office._playing().world, {"path": "/Shared.md", "person": SOMEONE})
        assert office.call("files_unshare", given)["readers"] == []
        with pytest.raises(ToolError, match=f"/Shared.md is not shared with '{SOMEONE}'"):
            office.call("files_unshare", given)
        assert office.call("files_transfer", given)["owner"] == SOMEONE
        assert office.call("files_read", {"path": "/Shared.md"})["readers"] == [ME]
        with pytest.raises(ToolError, match=f"only the owner, {SOMEONE}, can give /Shared.md to somebody else"):
            office.call("files_transfer", given)


def test_a_private_channel_is_seen_by_its_members() -> None:
    """A private channel is listed for its members alone, who may add others; nobody has to be added to a public one."""
    with playing(TASK) as office:
        world = office._playing().world
        given = prepared(world, {"channel": "#board", "person": SOMEONE})
        world.insert("channels", "#secret", topic="", members=[SOMEONE], private=1)
        assert office.call("chat_invite", given)["members"] == sorted([ME, SOMEONE])
        listed = {row["channel"]: row for row in office.call("chat_channels", {})["channels"]}
        assert listed["#board"]["members"] == sorted([ME, SOMEONE])
        assert "members" not in listed["#general"]
        with pytest.raises(ToolError, match="there is no channel '#secret'"):
            office.call("chat_invite", given | {"channel": "#secret"})
        with pytest.raises(ToolError, match="#general is not private: everyone is in it already"):
            office.call("chat_invite", given | {"channel": "#general"})


def test_null_stands_for_an_argument_left_out() -> None:
    """Models send null for optional arguments; it is as if they were not there."""
    with playing(TASK) as office:
        assert office.call("tickets_list", {"queue": None, "page": None}) == office.call("tickets_list", {})
