"""The state of a company: tables in SQLite, in memory, one database per episode."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from . import clock
from .draw import Draw

Row = dict[str, Any]
Rows = list[Row]
Snapshot = dict[str, dict[str, Row]]

# Each table has a text `id` besides: an e-mail address for people, a name for rooms and channels, else PREFIX-number.
TABLES: Mapping[str, tuple[str, ...]] = {
    "people": (
        *("name", "title", "team", "manager", "office", "utc_offset", "work_start", "work_end"),
        *("out_from", "out_until", "out_note"),
    ),
    "rooms": ("office", "capacity", "equipment"),
    "mails": ("thread", "sender", "recipients", "cc", "subject", "body", "sent_at", "folder", "read"),
    "channels": ("topic", "members", "private"),
    "messages": ("channel", "author", "text", "sent_at"),
    "events": ("title", "organizer", "attendees", "responses", "starts_at", "ends_at", "room", "description"),
    "tickets": (
        *("title", "body", "requester", "queue", "assignee", "priority", "status"),
        *("created_at", "due_on", "updated_at"),
    ),
    "comments": ("ticket", "author", "text", "written_at"),
    "files": ("path", "owner", "readers", "content", "version", "updated_at", "updated_by"),
    "versions": ("file", "version", "content", "author", "saved_at"),
}
PREFIXES = {
    "mails": "mail",
    "messages": "msg",
    "events": "event",
    "tickets": "T",
    "comments": "note",
    "files": "file",
    "versions": "version",
}
_JSON_COLUMNS = ("recipients", "cc", "members", "attendees", "responses", "readers")
_SCHEMA = "\n".join(f"CREATE TABLE {name} (id TEXT PRIMARY KEY, {', '.join(TABLES[name])});" for name in TABLES)

_INSERTS = {table: f"INSERT INTO {table} VALUES (?{', ?' * len(TABLES[table])})" for table in TABLES}  # noqa: S608


class World:
    """Rows as dicts, in order of insertion; `now` stands still for the whole episode."""

    def __init__(self, now: datetime, ids: Draw) -> None:
        self.now = now
        self._ids = ids
        self._used: set[str] = set()  # ids of deleted rows too: none is given twice
        # One thread works on a world at a time, but the one that closes it may be another.
        self._database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._database.row_factory = sqlite3.Row
        self._database.executescript(_SCHEMA)

    @property
    def stamp(self) -> str:
        """Now, as ISO-8601 text in UTC."""
        return clock.stamp(self.now)

    def insert(self, table: str, row_id: str | None = None, **columns: Any) -> Row:
        """Add a row and return it; without `row_id` it gets an unused PREFIX-number."""
        row = {"id": row_id or self._new_id(table)} | {name: columns.get(name) for name in TABLES[table]}
        self._insert(table, [row])
        return row

    def load(self, snapshot: Snapshot) -> None:
        """Add every row of a snapshot."""
        for table, rows in snapshot.items():
            self._insert(table, list(rows.values()))

    def update(self, table: str, row_id: str, **columns: Any) -> Row:
        """Set columns of a row and return it."""
        names = ", ".join(f"{name} = ?" for name in columns)
        values = [_stored(value) for value in columns.values()]
        self._database.execute(f"UPDATE {table} SET {names} WHERE id = ?", [*values, row_id])  # noqa: S608
        row = self.get(table, row_id)
        assert row is not None, f"{table} has no row {row_id}"
        return row

    def delete(self, table: str, row_id: str) -> None:
        """Remove a row."""
        self._database.execute(f"DELETE FROM {table} WHERE id = ?", [row_id])  # noqa: S608

    def get(self, table: str, row_id: str) -> Row | None:
        """The row with this id."""
        rows = self.all(table, id=row_id)
        return rows[0] if rows else None

    def all(self, table: str, **equal: Any) -> Rows:
        """The rows whose columns equal the given values; a value of None sets no condition."""
        wanted = {name: value for name, value in equal.items() if value is not None}
        where = " AND ".join(f"{name} = ?" for name in wanted) or "1"
        query = f"SELECT * FROM {table} WHERE {where} ORDER BY rowid"  # noqa: S608
        return [_loaded(row) for row in self._database.execute(query, list(wanted.values()))]

    def snapshot(self) -> Snapshot:
        """Every row of every table, by table and id."""
        return {table: {row["id"]: row for row in self.all(table)} for table in TABLES}

    def close(self) -> None:
        """Drop the database."""
        self._database.close()

    def _insert(self, table: str, rows: Rows) -> None:
        self._used.update(row["id"] for row in rows)
        values = [[_stored(value) for value in row.values()] for row in rows]
        self._database.executemany(_INSERTS[table], values)

    def _new_id(self, table: str) -> str:
        while (row_id := f"{PREFIXES[table]}-{self._ids.between(1000, 9999)}") in self._used:
            pass
        return row_id


def _stored(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value


def _loaded(row: sqlite3.Row) -> Row:
    return {name: json.loads(row[name]) if name in _JSON_COLUMNS else row[name] for name in row.keys()}  # noqa: SIM118
