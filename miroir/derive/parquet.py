"""Rows as Parquet: JSON columns keep their objects whole, where plain columns would fill in nulls for missing keys.

The JSON columns are Arrow's `arrow.json`, which `datasets` decodes to objects when it loads the file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import MissingExtra, RecordError
from ..wire import encode
from .formats import Column, Format

_GROUP = 256  # rows, or _BYTES of JSON, that are held before they are written
_BYTES = 16 << 20


def require() -> Any:
    """pyarrow; MissingExtra where it is not installed."""
    try:
        import_module("pyarrow.parquet")
        return import_module("pyarrow")
    except ImportError as error:
        raise MissingExtra("Parquet needs pyarrow; install it with: pip install 'miroir[parquet]'") from error


class Parquet:
    """A Parquet file, written in groups of rows."""

    def __init__(self, path: Path, format_: Format) -> None:
        self._arrow = require()
        self._columns = format_.columns
        self._schema = self._arrow.schema([(name, self._type(column)) for name, column in self._columns.items()])
        self._writer = self._arrow.parquet.ParquetWriter(path, self._schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self._held = 0

    def write(self, name: str, rows: Sequence[bytes]) -> None:  # noqa: ARG002
        """Take the rows."""
        for row in rows:
            self._rows.append(json.loads(row))
            self._held += len(row)
            if len(self._rows) >= _GROUP or self._held >= _BYTES:
                self._flush()

    def close(self) -> None:
        """Write what is held, and the file's footer."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        columns = [self._fit(name) for name in self._columns]
        self._writer.write_table(self._arrow.table(columns, schema=self._schema))
        self._rows, self._held = [], 0

    def _fit(self, name: str) -> Any:
        try:
            return self._column(name)
        except (self._arrow.ArrowException, OverflowError, UnicodeEncodeError) as error:
            raise RecordError(f"a value of {name} does not fit into Parquet ({error}); write JSON lines") from error

    def _column(self, name: str) -> Any:
        column, type_ = self._columns[name], self._schema.field(name).type
        values = [row.get(name) for row in self._rows]
        if column is Column.OBJECT:
            texts = [None if value is None else encode(value) for value in values]
            return self._arrow.array(texts, self._arrow.string()).cast(type_)
        if column is Column.MESSAGES:
            lists = [None if value is None else [encode(item) for item in value] for value in values]
            return self._arrow.array(lists, self._arrow.list_(self._arrow.string())).cast(type_)
        return self._arrow.array(values, type_)

    def _type(self, column: Column) -> Any:
        arrow = self._arrow
        json_text = arrow.json_(arrow.string())
        return {
            Column.MESSAGES: arrow.list_(json_text),
            Column.OBJECT: json_text,
            Column.TEXT: arrow.string(),
            Column.BOOLEAN: arrow.bool_(),
            Column.INTEGER: arrow.int64(),
            Column.NUMBER: arrow.float64(),
        }[column]
