"""Whether a value keeps a JSON schema: the keywords that tools use, compiled once for each schema.

JSON Schema 2020-12, validation vocabulary, and OpenAPI 3.0's `nullable`, which transformers writes. What is not known
here allows everything, as the standard has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ..records.shape import mapping

Check = Callable[[Any], bool]


def compiled(schema: Any) -> Check:
    """A function that tells whether a JSON value keeps the schema."""
    check = _Compiler(schema).check(schema)

    def keeps(value: Any) -> bool:
        try:
            return check(value)
        except RecursionError:  # a reference that leads to itself says nothing
            return True

    return keeps


class _Compiler:
    """Makes checks of the parts of one schema; `root` is what its references start from."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._referred: dict[str, Check] = {}

    def check(self, schema: Any) -> Check:
        if schema is False:
            return lambda _: False
        if not isinstance(schema, Mapping):
            return _anything
        made = (make(self, schema) for make in _KEYWORDS)
        checks = [check for check in made if check is not None]
        if schema.get("nullable") is True:
            return lambda value: value is None or all(check(value) for check in checks)
        if len(checks) == 1:
            return checks[0]
        return lambda value: all(check(value) for check in checks)

    def reference(self, schema: Mapping[str, Any]) -> Check | None:
        reference = schema.get("$ref")
        return (lambda value: self._target(reference)(value)) if isinstance(reference, str) else None

    def _target(self, reference: str) -> Check:
        """The check of what a reference points at, made when it is first needed, since a schema may hold itself."""
        if reference not in self._referred:
            self._referred[reference] = self.check(self._found(reference))
        return self._referred[reference]

    def _found(self, reference: str) -> Any:
        if not reference.startswith("#"):
            return True
        found = self._root
        for part in reference.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key, True) if isinstance(found, Mapping) else True
        return found

    def type(self, schema: Mapping[str, Any]) -> Check | None:
        named = schema.get("type")
        names = [named] if isinstance(named, str) else _list(named)
        if not names:
            return None
        kinds = [_TYPES.get(name, _anything) if isinstance(name, str) else _anything for name in names]
        return kinds[0] if len(kinds) == 1 else lambda value: any(kind(value) for kind in kinds)

    def enum(self, schema: Mapping[str, Any]) -> Check | None:
        allowed = [schema["const"]] if "const" in schema else schema.get("enum")
        if not isinstance(allowed, list):
            return None
        return lambda value: any(_same(value, one) for one in allowed)

    def object(self, schema: Mapping[str, Any]) -> Check | None:
        properties = {name: self.check(part) for name, part in mapping(schema.get("properties")).items()}
        required = frozenset(name for name in _list(schema.get("required")) if isinstance(name, str))
        others = self.check(schema.get("additionalProperties", True))
        if not (properties or required or "additionalProperties" in schema):
            return None

        def check(value: Any) -> bool:
            if not isinstance(value, dict):
                return True
            return required <= value.keys() and all(properties.get(name, others)(part) for name, part in value.items())

        return check

    def items(self, schema: Mapping[str, Any]) -> Check | None:
        first = [self.check(part) for part in _list(schema.get("prefixItems"))]
        rest = self.check(schema.get("items", True))
        if not first and "items" not in schema:
            return None

        def check(value: Any) -> bool:
            if not isinstance(value, list):
                return True
            return all(part(item) for part, item in zip(first, value, strict=False)) and all(
                rest(item) for item in value[len(first) :]
            )

        return check

    def combined(self, schema: Mapping[str, Any]) -> Check | None:
        checks: list[Check] = []
        for name, holds in _GROUPS.items():
            if isinstance(schema.get(name), list):
                checks.append(_group([self.check(part) for part in schema[name]], holds))
        if "not" in schema:
            refused = self.check(schema["not"])
            checks.append(lambda value: not refused(value))
        return (lambda value: all(check(value) for check in checks)) if checks else None

    def bounds(self, schema: Mapping[str, Any]) -> Check | None:
        bounds = [(*_BOUNDS[name], limit) for name, limit in schema.items() if name in _BOUNDS and _is_number(limit)]
        if not bounds:
            return None
        return lambda value: all(not kind(value) or holds(value, limit) for kind, holds, limit in bounds)

    def pattern(self, schema: Mapping[str, Any]) -> Check | None:
        text = schema.get("pattern")
        if not isinstance(text, str):
            return None
        try:
            pattern = re.compile(text)
        except re.error:  # JSON Schema's patterns are ECMAScript's, a few of which Python does not know
            return None
        return lambda value: not isinstance(value, str) or pattern.search(value) is not None


_KEYWORDS = (
    _Compiler.type,
    _Compiler.enum,
    _Compiler.object,
    _Compiler.items,
    _Compiler.combined,
    _Compiler.bounds,
    _Compiler.pattern,
    _Compiler.reference,
)


def _group(checks: list[Check], holds: Callable[[int, int], bool]) -> Check:
    return lambda value: holds(sum(check(value) for check in checks), len(checks))


def _list(value: Any) -> list[Any]:
    """The list that a keyword holds; an empty one where it holds nonsense, which says nothing."""
    return value if isinstance(value, list) else []


def _anything(_: Any) -> bool:
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _same(one: Any, other: Any) -> bool:
    """Equality as JSON has it: true is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


_TYPES: Mapping[str, Check] = {
    "string": _is_text,
    "integer": lambda value: _is_number(value) and value == int(value),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": _is_list,
    "null": lambda value: value is None,
}

_GROUPS: Mapping[str, Callable[[int, int], bool]] = {
    "allOf": lambda met, count: met == count,
    "anyOf": lambda met, _: met > 0,
    "oneOf": lambda met, _: met == 1,
}

_BOUNDS: Mapping[str, tuple[Check, Callable[[Any, Any], bool]]] = {
    "minimum": (_is_number, lambda value, limit: value >= limit),
    "maximum": (_is_number, lambda value, limit: value <= limit),
    "exclusiveMinimum": (_is_number, lambda value, limit: value > limit),
    "exclusiveMaximum": (_is_number, lambda value, limit: value < limit),
    "minLength": (_is_text, lambda value, limit: len(value) >= limit),
    "maxLength": (_is_text, lambda value, limit: len(value) <= limit),
    "minItems": (_is_list, lambda value, limit: len(value) >= limit),
    "maxItems": (_is_list, lambda value, limit: len(value) <= limit),
}
