"""The page's frame: its policy, its inlined code, and data that cannot leave its element."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from miroir.review.page import SCRIPTS, STYLES, inert, page, policy, script, style


class Elements(HTMLParser):
    """The text of each script and style, by what they are."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self._name = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self._name = str(named.get("id") or tag) if tag in ("script", "style", "title") else ""
        for name in ("src", "href"):
            if named.get(name):
                self.found[name] = str(named[name])
        if named.get("http-equiv"):
            self.found["policy"] = str(named["content"])

    def handle_endtag(self, tag: str) -> None:
        self._name = ""

    def handle_data(self, data: str) -> None:
        if self._name:
            self.found[self._name] = self.found.get(self._name, "") + data


def digest(text: str) -> str:
    """As a policy writes it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_only_the_inlined_code_and_style_may_apply() -> None:
    """The policy names their hashes, allows nothing by default, and no connection unless it is asked for."""
    found = Elements(b"".join(page({"title": "a"}, [])).decode()).found

    assert f"script-src {digest(found['script'])};" in found["policy"]
    assert f"style-src {digest(found['style'])};" in found["policy"]
    assert found["policy"].startswith("default-src 'none';")
    assert "unsafe" not in found["policy"]
    assert "connect-src" not in found["policy"]
    assert "connect-src 'self'" in policy(connect=True)


def test_nothing_is_loaded_from_elsewhere() -> None:
    """The only link is an empty picture."""
    found = Elements(b"".join(page({"title": "a"}, [])).decode()).found

    assert "src" not in found
    assert found["href"] == "data:,"
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", script() + style())


@pytest.mark.parametrize("text", ["</script>", "<!--<script", "<", "\u2028", "\ud800", "{{body}}", "{{style}}", "é"])
def test_data_stays_in_its_element(text: str) -> None:
    """Whatever the index holds, a browser reads it back as data, and the code after it is whole."""
    index = {"title": text, "rows": [text]}
    found = Elements(b"".join(page(index, [zlib.compress(b"x")])).decode()).found

    assert json.loads(found["index"]) == index
    assert "<" not in found["index"]
    assert found["script"] == script()
    assert zlib.decompress(base64.b64decode(found["blob-0"])) == b"x"


def test_inert_json_is_ascii() -> None:
    """So that no encoding can make it something else."""
    assert inert({"é": "<\u2028"}) == '{"\\u00e9":"\\u003c\\u2028"}'


def test_every_file_of_the_page_is_used() -> None:
    """The parts that are joined are the files that are shipped."""
    names = {file.name for file in files("miroir.review").joinpath("page").iterdir()}

    assert names == {*(f"{name}.js" for name in SCRIPTS), *(f"{name}.css" for name in STYLES), "index.html"}


def test_the_code_builds_no_markup_from_text() -> None:
    """No way from a text to markup or code is ever taken."""
    code = script()

    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser", code
    )
    assert "</script" not in code
    assert "<!--" not in code
