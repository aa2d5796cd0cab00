"""Operations of an app: a method becomes a named action with a JSON schema, and its arguments are checked by it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ...serve.environment import ToolError
from . import listing
from .world import Row, World

Answer = dict[str, Any]
Method = TypeVar("Method", bound=Callable[..., Answer])

Page = Annotated[int, "page number, from 1"]
Query = Annotated[str, "words that must all occur"]
Email = Annotated[str, "e-mail address"]
Emails = Annotated[list[str], "e-mail addresses"]
Time = Annotated[str, "ISO-8601 time with UTC offset, like 2025-02-04T09:00:00Z"]
Day = Annotated[str, "day, YYYY-MM-DD"]

_JSON_TYPES: Mapping[Any, str] = {str: "string", int: "integer", bool: "boolean"}
_PYTHON_TYPES: Mapping[str, type] = {"string": str, "integer": int, "boolean": bool, "array": list}


def operation(description: str, *, writes: bool = False) -> Callable[[Method], Method]:
    """Mark a method of an app as an operation that agents may call; `writes`: it changes the world."""

    def mark(method: Method) -> Method:
        method.__dict__["operation"] = (description, writes)
        return method

    return mark


@dataclass(frozen=True)
class Operation:
    """One action of an app, with the JSON schema of its parameters by name."""

    app: str
    action: str
    description: str
    writes: bool
    parameters: Mapping[str, dict[str, Any]]
    required: tuple[str, ...]

    @property
    def tool(self) -> str:
        """The operation's name as a tool of its own."""
        return f"{self.app}_{self.action}"

    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        return {
            "type": "object",
            "properties": dict(self.parameters),
            "required": list(self.required),
            "additionalProperties": False,
        }

    def checked(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments, without those that are null; ToolError (`invalid_args`) when they break the schema."""
        given = {name: value for name, value in arguments.items() if value is not None}
        takes = ", ".join(self.parameters) or "nothing"
        for name in given:
            if name not in self.parameters:
                raise ToolError(f"{self.tool} has no argument {name!r}; it takes {takes}", "invalid_args")
        for name in self.required:
            if name not in given:
                raise ToolError(f"{self.tool} needs the argument {name!r}; it takes {takes}", "invalid_args")
        for name, value in given.items():
            _check(f"{self.tool}: {name}", value, self.parameters[name])
        return given


class App:
    """One application of the company, as the person `me` (an e-mail address) sees it."""

    name: ClassVar[str]
    summary: ClassVar[str]
    operations: ClassVar[Mapping[str, Operation]]  # by action, in the order in which they are written

    def __init_subclass__(cls) -> None:
        marked = {name: method for name, method in vars(cls).items() if hasattr(method, "operation")}
        cls.operations = {name: _operation(cls.name, name, method) for name, method in marked.items()}

    def __init__(self, world: World, me: str) -> None:
        self.world = world
        self.me = me

    def _person(self, email: str) -> Row:
        """The employee with this address; ToolError that names the nearest ones."""
        person = self.world.get("people", email)
        if person is None:
            known = [row["id"] for row in self.world.all("people")]
            raise ToolError(f"nobody here has the address {email!r}; nearest: {listing.nearest(email, known)}")
        return person


def _operation(app: str, action: str, method: Callable[..., Answer]) -> Operation:
    description, writes = method.__dict__["operation"]
    hints = get_type_hints(method, include_extras=True)
    signature = inspect.signature(method).parameters
    names = [name for name in signature if name != "self"]
    required = tuple(name for name in names if signature[name].default is inspect.Parameter.empty)
    return Operation(app, action, description, writes, {name: _schema(hints[name]) for name in names}, required)


def _schema(hint: Any) -> dict[str, Any]:
    """The JSON schema of a type hint: str, int, bool, a list, a Literal of strings, any of them or None."""
    origin = get_origin(hint)
    if origin is Annotated:
        inner, description = get_args(hint)
        return _schema(inner) | {"description": description}
    if origin in (Union, UnionType):
        (inner,) = (part for part in get_args(hint) if part is not NoneType)
        return _schema(inner)
    if origin is Literal:
        return {"type": "string", "enum": list(get_args(hint))}
    if origin is list:
        return {"type": "array", "items": _schema(get_args(hint)[0])}
    return {"type": _JSON_TYPES[hint]}


def _check(where: str, value: Any, schema: Mapping[str, Any]) -> None:
    kind = schema["type"]
    if not isinstance(value, _PYTHON_TYPES[kind]) or (kind == "integer" and isinstance(value, bool)):
        raise ToolError(f"{where} must be of type {kind}, not {type(value).__name__}", "invalid_args")
    if "enum" in schema and value not in schema["enum"]:
        raise ToolError(f"{where} must be one of {', '.join(schema['enum'])}, not {value!r}", "invalid_args")
    if isinstance(value, list):
        for item in value:
            _check(f"{where}: each item", item, schema["items"])
