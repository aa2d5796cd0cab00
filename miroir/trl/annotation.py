"""Type hints from JSON schemas, for whoever makes schemas of hints again; and what a hint cannot hold. Pure.

What a hint becomes, `transformers.utils.get_json_schema` decides: basic types, Literal, Union, list[T], dict[str, T].
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union, cast

BASIC = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "null": type(None),
    "array": list,
    "object": dict,
}
NO_NEWS = frozenset({"title", "description", "$schema", "$defs", "definitions"})  # keywords that bind no value
_DEEPEST = 5  # how many references deep a schema is written out,
_LONGEST = 8000  # and in how many characters, from the second on
_HALF = re.compile("[\ud800-\udfff]")  # of a character, which no tokenizer takes

Schema = Mapping[str, Any]
Hint = Any  # a type, or what `typing` makes of types
Rest = dict[str, Any]


def hint_of(schema: object) -> tuple[Hint, Rest]:
    """The type hint of a schema, and those of its keywords that the hint does not say."""
    if not isinstance(schema, Mapping):
        return Any, {} if schema in (None, True) else {"not": {}}
    nullable = schema.get("nullable")
    if isinstance(nullable, bool):
        hint, rest = hint_of({key: value for key, value in schema.items() if key != "nullable"})
        return hint | None if nullable else hint, rest
    rest = {key: value for key, value in schema.items() if key not in NO_NEWS}
    for key, values in (("enum", schema.get("enum")), ("const", [schema.get("const")])):
        if key in schema and _scalars(values):
            kept = {name: value for name, value in rest.items() if name not in (key, "type")}
            return Literal[tuple(cast("list[Any]", values))], kept
    kind = schema.get("type")
    if isinstance(kind, str):
        return _typed(kind, schema, rest)
    if isinstance(kind, list) and kind:
        return _united([{**schema, "type": one} for one in kind], rest, "type")
    for key in ("anyOf", "oneOf"):
        if _options(schema.get(key)):
            return _united(schema[key], rest, key)
    return Any, rest


def inlined(schema: object, root: Schema) -> Any:
    """The schema with the definitions in the place of local references, as deep as there is room for.

    One that leads to itself stays.
    """
    written = _inlined(schema, root, (), 1)
    for levels in range(2, _DEEPEST + 1):
        deeper = _inlined(schema, root, (), levels)
        if len(compact(deeper)) > _LONGEST:
            break
        written = deeper
    return written


def compact(value: object) -> str:
    """The value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _inlined(schema: object, root: Schema, above: Sequence[str], levels: int) -> Any:
    if isinstance(schema, list):
        return [_inlined(one, root, above, levels) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference not in above and len(above) < levels:
        target = _pointed(root, reference)
        if target is not None:
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            return _inlined({**target, **beside}, root, (*above, reference), levels)
    return {key: _inlined(value, root, above, levels) for key, value in schema.items()}


def _typed(kind: str, schema: Schema, rest: Rest) -> tuple[Hint, Rest]:
    """The hint of a schema of one type."""
    if kind not in BASIC:
        return Any, rest
    rest.pop("type", None)
    inner = {"array": "items", "object": "additionalProperties"}.get(kind)
    if inner is None or not isinstance(schema.get(inner), Mapping) or "properties" in schema:
        return BASIC[kind], rest
    hint, deeper = hint_of(schema[inner])
    if not deeper and "description" not in schema[inner]:
        del rest[inner]
    return (list[hint] if kind == "array" else dict[str, hint]), rest  # type: ignore[valid-type]


def _united(options: Sequence[Schema], rest: Rest, key: str) -> tuple[Hint, Rest]:
    """The hint of one schema or another; `key` is the keyword that lists them."""
    hints, rests = zip(*map(hint_of, options), strict=True)
    listed = rest.pop(key)
    if key == "type":
        for name in set(rest) - set().union(*rests):
            del rest[name]  # what one of the types' hints has said
    elif any(rests) or any("description" in option for option in options):
        rest[key] = listed
    return Union[hints], rest  # noqa: UP007 - there is no operator for any number of them


def _scalars(values: object) -> bool:
    return (
        isinstance(values, list)
        and bool(values)
        and all(value is None or isinstance(value, str | int | float | bool) for value in values)
        and not _HALF.search(compact(values))
    )


def _options(listed: object) -> bool:
    return isinstance(listed, list) and bool(listed) and all(isinstance(one, Mapping) for one in listed)


def _pointed(root: Schema, reference: str) -> Schema | None:
    """What a local reference (RFC 6901) points to, where that is a schema."""
    if not reference.startswith("#/"):
        return None
    found: Any = root
    for part in reference[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else None
