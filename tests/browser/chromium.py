"""A page in a real Chromium, watched. In: an address. Out: a page; afterwards, that nothing went wrong or went abroad.

Starts a browser for each page, and ends it. Where no Chromium is installed the test is skipped; with CI=true it fails.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import ConsoleMessage, Page, async_playwright, expect

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
INSTALL = "Chromium is not installed: `apt-get install chromium`, or name the program in the variable CHROMIUM"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS = 30_000

expect.set_options(timeout=PATIENCE_MS)


def require_chromium() -> str:
    """The program, or the end of this test."""
    if CHROMIUM is not None:
        return CHROMIUM
    if os.environ.get("CI") == "true":
        pytest.fail(INSTALL, pytrace=False)
    pytest.skip(INSTALL)


class Watched:
    """What a page complained about, and which hosts it asked."""

    def __init__(self, page: Page) -> None:
        self.complaints: list[str] = []
        self.origins: set[str] = set()
        self.paths: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self._asked(request.url))

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _asked(self, url: str) -> None:
        parts = urlsplit(url)
        self.origins.add(f"{parts.scheme}://{parts.netloc}")
        self.paths.append(parts.path)


@asynccontextmanager
async def chromium_page(
    url: str, *, may_complain: bool = False, **settings: Any
) -> AsyncIterator[tuple[Page, Watched]]:
    """The page at an address. `may_complain`: the browser reports refused and failed requests by itself."""
    program = require_chromium()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=[*FLAGS])
        try:
            context = await browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
            context.set_default_timeout(PATIENCE_MS)
            page = await context.new_page()
            watched = Watched(page)
            await page.goto(f"{url}/")
            yield page, watched
        finally:
            await browser.close()
    assert watched.origins == {url}
    assert may_complain or watched.complaints == []
