"""A page of the browser under test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


class Tab:
    """A page in a fresh profile, and what it asked for and complained about."""

    def __init__(self, browser: Browser, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **options})
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page = self.open()

    def open(self) -> Page:
        """Another page of the same profile."""
        page = self.context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", self._told)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        return page

    def _told(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def away(self) -> list[str]:
        """Requests that left the machine's files."""
        return [url for url in self.requests if not url.startswith(("file://", "data:", "blob:"))]
