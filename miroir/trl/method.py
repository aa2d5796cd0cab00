"""Tools as methods: a tool's JSON schema becomes a signature and a docstring that a trainer reads back."""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Callable, Mapping
from typing import Any

from ..wire import Tool
from .annotation import NO_NEWS, Hint, compact, hint_of, inlined
from .messages import encodable

Call = Callable[[Any, str, dict[str, Any]], str]

# What a reader of Google docstrings takes for the head of a section, or for a list of choices.
_MARKERS = re.compile(r"(Args|Returns|Raises|\((?i:choices)):")
_SIGNED = frozenset({"type", "properties", "required"})  # what a signature says of the whole


def method_of(tool: Tool, call: Call) -> Callable[..., str]:
    """A function for a class: called with the tool's arguments, it returns `call(self, tool's name, arguments)`.

    An argument whose name no signature can hold is shown under another one, and sent under its own.
    """
    name = tool["name"]
    root = tool["inputSchema"]
    required = _required(root)
    properties = _properties(root, required)
    aliases = _aliases(properties)

    def method(self: Any, /, **arguments: Any) -> str:
        return call(self, name, {aliases.get(key, key): value for key, value in arguments.items()})

    shown = {own: alias for alias, own in aliases.items()}
    hints: dict[str, Hint] = {}
    lines = []
    for own, schema in properties.items():
        hints[shown[own]], about = _argument(own, shown[own], inlined(schema, root))
        lines.append(f"    {shown[own]}: {about}")
    method.__name__ = method.__qualname__ = name
    method.__doc__ = _docstring(_about(tool), lines)
    method.__annotations__ = hints
    method.__signature__ = _signature(hints, {shown[own] for own in required})  # type: ignore[attr-defined]
    return method


def renames(tool: Tool) -> bool:
    """Whether an argument of the tool is shown under another name than its own."""
    root = tool["inputSchema"]
    return any(alias != own for alias, own in _aliases(_properties(root, _required(root))).items())


def _required(root: Mapping[str, Any]) -> list[str]:
    listed = root.get("required")
    return [own for own in listed if isinstance(own, str)] if isinstance(listed, list) else []


def _properties(root: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    """The schemas of the arguments, those included that are required and not described."""
    listed = root.get("properties")
    described = dict(listed) if isinstance(listed, Mapping) else {}
    return described | {own: {} for own in required if own not in described}


def _aliases(names: Mapping[str, Any]) -> dict[str, str]:
    """Under which name each argument is shown: its own wherever Python and a docstring allow."""
    taken = {name for name in names if _sayable(name)}
    aliases = {name: name for name in taken}
    for name in names:
        if name in taken:
            continue
        alias = re.sub(r"\W", "_", name)
        alias = alias if alias.isidentifier() else f"arg_{alias}"
        while alias in aliases or not _sayable(alias):
            alias += "_"
        aliases[alias] = name
    return aliases


def _sayable(name: str) -> bool:
    reserved = name == "self" or name.endswith(("Args", "Returns", "Raises"))
    word = name.isidentifier() and re.fullmatch(r"\w+", name)  # a docstring's reader knows no combining marks
    return bool(word) and not keyword.iskeyword(name) and not reserved


def _argument(own: str, shown: str, schema: Any) -> tuple[Hint, str]:
    """An argument's type hint, and what is said of it on one line."""
    hint, rest = hint_of(schema)
    said = schema.get("description") or schema.get("title") if isinstance(schema, Mapping) else None
    about = [" ".join(_plain(said).split()) or shown.replace("_", " ").strip() or shown]
    if own != shown:
        about.append(f"(sent as {compact(own)})")
    if rest:
        about.append(f"(JSON schema: {compact(rest)})")
    return hint, _harmless(" ".join(about))


def _about(tool: Tool) -> str:
    """The tool's description, and what its signature cannot hold."""
    root = tool["inputSchema"]
    rest = {key: value for key, value in root.items() if key not in _SIGNED | NO_NEWS}
    if rest.get("additionalProperties") is False:
        del rest["additionalProperties"]  # a signature says so
    about = _plain(tool.get("description")).strip() or tool["name"]
    return f"{about}\n\n(JSON schema: {compact(inlined(rest, root))})" if rest else about


def _plain(text: object) -> str:
    return text if isinstance(text, str) else ""


def _harmless(text: str) -> str:
    """The text without what would be read as a part of the docstring around it, or by no tokenizer."""
    return encodable(_MARKERS.sub(r"\1 :", text))


def _docstring(about: str, lines: list[str]) -> str:
    """A Google docstring; its last section keeps the description's own indentation from being taken off."""
    arguments = ["Args:", *lines, ""] if lines else []
    return "\n".join([_harmless(about), "", *arguments, "Returns:", "    what the tool answered"])


def _signature(hints: Mapping[str, Hint], required: set[str]) -> inspect.Signature:
    """`self`, then the arguments, those first that must be given."""
    kinds = inspect.Parameter
    parameters = [kinds("self", kinds.POSITIONAL_ONLY)]
    for name in sorted(hints, key=lambda name: name not in required):
        default = kinds.empty if name in required else None
        parameters.append(kinds(name, kinds.KEYWORD_ONLY, annotation=hints[name], default=default))
    return inspect.Signature(parameters)
