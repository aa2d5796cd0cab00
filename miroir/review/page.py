"""One HTML page: its code, style and data inlined, and a policy that lets nothing else run or load."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from .plain import plain

# In the order of their definitions: the page's code is one script.
SCRIPTS = (
    *("dom", "data", "state", "filter", "chips", "values", "notes", "align", "virtual", "charts"),
    *("noteform", "grade", "steps", "episode", "compare", "tasks", "failures", "reviews", "keys", "main"),
)
STYLES = ("base", "marks", "lists", "charts", "episode", "compare")


def page(index: dict[str, Any], blobs: Iterable[bytes], *, connect: bool = False) -> Iterator[bytes]:
    """The page in pieces: an index, and compressed records as base64 in elements that no browser runs.

    `connect` lets the page talk to the server that it came from.
    """
    frame = _resource("index.html")
    head, _, rest = frame.partition("{{body}}")
    head = head.replace("{{policy}}", policy(connect=connect)).replace("{{style}}", style())
    yield head.replace("{{title}}", html.escape(plain(index["title"]))).encode()
    yield f'<script type="application/json" id="index">{inert(index)}</script>\n'.encode()
    yield f"<script>{script()}</script>\n".encode()
    for number, blob in enumerate(blobs):
        yield b'<script type="text/plain" id="blob-%d">%b</script>\n' % (number, base64.b64encode(blob))
    yield rest.encode()


def policy(*, connect: bool = False) -> str:
    """The content security policy: only the inlined code and style, told by their hashes."""
    rules = [
        "default-src 'none'",
        f"script-src '{_digest(script())}'",
        f"style-src '{_digest(style())}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join([*rules, *(["connect-src 'self'"] if connect else [])])


def inert(value: Any) -> str:
    """JSON that ends no element and opens none: every < is written as an escape, as is all beyond ASCII."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


@cache
def script() -> str:
    """The page's code."""
    parts = "".join(_resource(f"{name}.js") for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}}})();'


@cache
def style() -> str:
    """The page's style sheet."""
    return "".join(_resource(f"{name}.css") for name in STYLES)


def _resource(name: str) -> str:
    return files(__package__).joinpath("page", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
