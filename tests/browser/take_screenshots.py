"""Makes the pictures of docs/dashboard.md: a gateway at work for a minute and a half, seen by a real Chromium.

Run as `python tests/browser/take_screenshots.py` from the checkout. Writes docs/images/dashboard-*.png.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "python" / "tests")]

from chromium import chromium_page  # noqa: E402  needs the path above
from gateways import SERVERS, gateway_on_http, text_of  # noqa: E402
from mcp import Client  # noqa: E402
from playwright.async_api import Page, expect  # noqa: E402

from leafgate.compose.servers import TIME_SERVER  # noqa: E402

IMAGES = ROOT / "docs" / "images"
WIDTH = 1180
ROUNDS = 18
ROUND_SECONDS = 5
CALLS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("time:get_current_time", {}),
    ("time:convert_time", {"source_timezone": "UTC", "time": "14:30", "target_timezone": "Asia/Tokyo"}),
    ("notes:search_notes", {"query": "garden", "limit": 12}),
    ("notes:export_notes", {}),
    ("notes:read_note", {"number": 7}),
    ("time:get_current_time", {"timezone": "Europe/Paris"}),
    ("old_clock:get_current_time", {}),
    ("notes:count_notes", {}),
    ("time:get_current_time", {"timezone": "America/Lima"}),
)


def configuration(folder: Path) -> str:
    servers = {
        "time": {"command": "node", "args": [str(TIME_SERVER)]},
        "notes": {"command": sys.executable, "args": ["-m", "leafgate.demo.notes"]},
        "old_clock": {
            "command": sys.executable,
            "args": [str(SERVERS / "lying_time.py")],
            "env": {"CALL_LOG": str(folder / "calls.log")},
        },
        "archive": {"command": "no-such-program"},
    }
    file = folder / "leafgate.json"
    file.write_text(json.dumps({"mcpServers": servers, "map": "qwen/qwen2"}))
    return str(file)


async def work(client: Client) -> None:
    """Calls that come in waves, some of which fail."""
    ids: dict[str, str] = {}
    for server in ("time", "notes", "old_clock"):
        page = text_of(await client.call_tool("tool_browse", {"path": f"/{server}"}))
        ids |= {line.split("#")[0]: line.split(" ")[0] for line in page.splitlines()}
    for number in range(ROUNDS):
        await client.call_tool("tool_browse", {"query": "the time in another city"})
        for place in range(4 + number * 7 % 11):
            tool, args = CALLS[(place + number) % len(CALLS)]
            if tool in ids:
                await client.call_tool("tool_execute", {"tool_id": ids[tool], "args": args})
        if number % 5 == 1:
            await client.call_tool("tool_execute", {"tool_id": ids["notes:read_note"], "args": {"number": "seven"}})
        await asyncio.sleep(ROUND_SECONDS)
    await client.call_tool("tool_browse", {"path": "/nowhere"})


async def take(page: Page) -> None:
    """The upper part in both themes, and the catalog after a search."""
    end = await page.get_by_role("region", name="Graduate next").bounding_box()
    assert end is not None
    above = {"x": 0, "y": 0, "width": WIDTH, "height": end["y"] + end["height"] + 8}
    for theme in ("light", "dark"):
        await page.emulate_media(color_scheme=theme)
        await page.screenshot(path=IMAGES / f"dashboard-{theme}.png", full_page=True, clip=above)
    await page.emulate_media(color_scheme="light")
    await page.locator("#query").fill("search my notes")
    await expect(page.locator(".card-name").first).to_have_text("search_notes")
    await page.get_by_role("region", name="Catalog").screenshot(path=IMAGES / "dashboard-catalog.png")


async def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, gateway_on_http("--config", configuration(Path(folder))) as gateway:
        async with (
            chromium_page(gateway.url, viewport={"width": WIDTH, "height": 1000}) as (page, _),
            Client(f"{gateway.url}/mcp") as client,
        ):
            await work(client)
            await expect(page.locator("#errors")).to_contain_text("PATH_NOT_FOUND")
            await take(page)


if __name__ == "__main__":
    asyncio.run(main())
