"""The dashboard in a real Chromium, before a real gateway with real servers and real MCP clients."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from chromium import Watched, chromium_page, require_chromium
from gateways import SERVERS, HttpGateway, gateway_on_http, text_of
from hostile_server import ATTACK, TOOLS
from mcp import Client
from playwright.async_api import Page, expect
from warm_python import PYTHON

from leafgate.compose.servers import TIME_SERVER
from leafgate.server.auth.bearer_tokens import hash_secret, new_token

pytestmark = pytest.mark.anyio

NOTES = {"command": PYTHON, "args": ["-m", "leafgate.demo.notes"]}
TIME = {"command": "node", "args": [str(TIME_SERVER)]}
HOSTILE = {"command": PYTHON, "args": [str(Path(__file__).with_name("hostile_server.py"))]}
QUERIES = ["search my notes", "what time is it", "count", "convert 10:00 to Tokyo", "quantum chromodynamics"]
TOP_K = 20


@pytest.fixture(scope="module", autouse=True)
def chromium() -> str:
    return require_chromium()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    """A server with leaves, one without, one whose leaves are wrong, and one that does not start."""
    folder = tmp_path_factory.mktemp("dashboard")
    lying = {
        "command": PYTHON,
        "args": [str(SERVERS / "lying_time.py")],
        "env": {"CALL_LOG": str(folder / "calls.log")},
    }
    gone = {"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]}
    with gateway_on_http(
        "--config", config_file(folder, {"time": TIME, "notes": NOTES, "lying": lying, "gone": gone})
    ) as running:
        yield running


def config_file(folder: Path, servers: dict[str, Any], **settings: Any) -> str:
    file = folder / "leafgate.json"
    file.write_text(json.dumps({"mcpServers": servers, "map": "qwen/qwen2", **settings}))
    return str(file)


async def call(client: Client, server: str, tool: str, **args: Any) -> Any:
    page = text_of(await client.call_tool("tool_browse", {"path": f"/{server}"}))
    tool_id = next(line.split(" ")[0] for line in page.splitlines() if line.startswith(f"{server}:{tool}#"))
    return await client.call_tool("tool_execute", {"tool_id": tool_id, "args": args})


async def number(page: Page, name: str) -> int:
    return int((await page.locator(f"#{name}").inner_text()).replace(",", ""))


async def is_live(page: Page) -> None:
    await expect(page.locator("#connection")).to_have_text("Live")


async def search(page: Page, query: str) -> None:
    """Types a question and waits until its answer is shown: an earlier one may still stand there."""
    async with page.expect_response(lambda response: "/api/catalog" in response.url) as answer:
        await page.locator("#query").fill(query)
    cards = (await (await answer.value).json())["cards"]
    await expect(page.get_by_role("option")).to_have_count(len(cards))
    if cards:
        await expect(page.get_by_role("option").first).to_contain_text(cards[0]["name"])


# What it shows


NOTE_CHANGE = """id => {
  const polls = () => performance.getEntriesByType("resource").filter((entry) => entry.name.includes("/api/metrics"));
  const seen = () => polls().map((poll) => performance.timeOrigin + poll.startTime);
  window.pollsUntilChange = new Promise((done) => {
    const watcher = new MutationObserver(() => done(seen()));
    watcher.observe(document.getElementById(id), { childList: true, characterData: true, subtree: true });
  });
}"""


async def test_leaf_and_shim_change_with_the_first_answer_after_a_call(gateway: HttpGateway) -> None:
    """The page asks once a second: what the next answer shows is shown within two."""
    async with chromium_page(gateway.url) as (page, _), Client(f"{gateway.url}/mcp") as client:
        await is_live(page)
        for server, tool, args, shown in (
            ("time", "get_current_time", {}, "total-leaf"),
            ("notes", "search_notes", {"query": "garden"}, "total-shim"),
        ):
            before = await number(page, shown)
            await page.evaluate(NOTE_CHANGE, shown)
            await call(client, server, tool, **args)
            called = time.time() * 1000
            await expect(page.locator(f"#{shown}")).to_have_text(str(before + 1))
            polls = await page.evaluate("window.pollsUntilChange")
            assert sum(poll > called for poll in polls) <= 1


async def test_a_rejected_leaf_is_in_the_numbers_the_chart_and_the_table(gateway: HttpGateway) -> None:
    async with chromium_page(gateway.url) as (page, _), Client(f"{gateway.url}/mcp") as client:
        await is_live(page)
        before = await number(page, "total-rejected")
        await call(client, "lying", "get_current_time")
        await expect(page.locator("#total-rejected")).to_have_text(str(before + 1))
        await expect(page.locator("#recent-rejected")).to_contain_text("text-mismatch")
        for series in ("shim", "rejected"):
            assert await page.locator(f"#chart rect[data-series={series}]").count() >= 1
        await page.get_by_text("The same as a table").click()
        latest = page.locator("#chart-rows tr").first.locator("td")
        assert int(await latest.nth(2).inner_text()) >= 1
        for range_name in ("1 h", "24 h"):
            await page.get_by_role("radio", name=range_name).check()
            await expect(page.get_by_role("img", name="rejected lea")).to_be_visible()


async def test_servers_with_their_health_and_latency(gateway: HttpGateway) -> None:
    async with chromium_page(gateway.url) as (page, _), Client(f"{gateway.url}/mcp") as client:
        await call(client, "notes", "count_notes")
        row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="notes", exact=True)).first
        await expect(row).to_contain_text("up")
        await expect(row.locator("[data-title=p95]")).to_contain_text("s")
        gone = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="gone", exact=True))
        await expect(gone).to_contain_text("down")
        await expect(gone).to_contain_text("UPSTREAM_UNAVAILABLE")
        await expect(page.locator("#servers-summary")).to_contain_text("3 of 4 up")


async def test_tokens_saved_by_cards_and_by_digests_and_who_should_graduate(gateway: HttpGateway) -> None:
    async with chromium_page(gateway.url) as (page, _), Client(f"{gateway.url}/mcp") as client:
        await call(client, "notes", "export_notes")
        await call(client, "notes", "search_notes", query="garden")
        saved = await saved_by_both(client, gateway.url)
        for title, amount in (("Cards instead", saved["cards"]), ("Digests instead", saved["digests"])):
            await expect(page.locator(".saving").filter(has_text=title)).to_contain_text(f"{amount:,}")
        await expect_graduates(page, gateway.url)


async def expect_graduates(page: Page, url: str) -> None:
    """The panel lists what the status lists. That depends on what was measured: short texts are cheap to tokenize."""
    await anyio.sleep(2)  # the page polls
    tools = [each["tool"] for each in httpx2.get(f"{url}/status").json()["graduate_next"]]
    if not tools:
        await expect(page.locator("#graduates-empty")).to_be_visible()
    for tool in tools:
        await expect(page.locator("#graduates th", has_text=tool).first).to_be_visible()


async def saved_by_both(client: Client, url: str) -> dict[str, int]:
    """What was saved. Nothing is claimed before the definitions were counted, which happens on the side."""
    for _ in range(600):
        await client.call_tool("tool_browse", {"query": "garden"})
        saved: dict[str, int] = httpx2.get(f"{url}/api/metrics").json()["tokens_saved"]
        if all(saved.values()):
            return saved
        await anyio.sleep(0.1)
    raise AssertionError(f"not both saved something: {saved}")


async def test_errors_have_the_correlation_id_of_the_log(gateway: HttpGateway) -> None:
    async with chromium_page(gateway.url) as (page, _), Client(f"{gateway.url}/mcp") as client:
        assert (await call(client, "notes", "read_note", number=999_999)).is_error
        latest = httpx2.get(f"{gateway.url}/api/metrics").json()["recent_errors"][0]
        row = page.locator("#errors tr").filter(has_text=latest["correlation_id"])
        await expect(row).to_contain_text("ARGS_INVALID")
        await expect(row).to_contain_text("the caller's")
        await expect(row).to_contain_text("notes")


# The catalog


async def test_a_search_has_the_ranking_and_the_cards_of_tool_browse(gateway: HttpGateway) -> None:
    async with chromium_page(gateway.url) as (page, _), Client(f"{gateway.url}/mcp") as client:
        await is_live(page)
        for query in QUERIES:
            page_text = text_of(await client.call_tool("tool_browse", {"query": query, "top_k": TOP_K}))
            seen = [line for line in page_text.splitlines() if not line.startswith("args of ")]
            await search(page, query)
            lines = await lines_by_arrow_keys(page)
            assert lines == seen[-len(lines) :]
            assert len(seen) - len(lines) <= 2  # a notice about servers and a note may stand before the cards


async def lines_by_arrow_keys(page: Page) -> list[str]:
    """Every card's line, as the panel shows it while the arrow keys walk down the list."""
    options = page.get_by_role("option")
    field = page.get_by_role("combobox")
    lines = []
    for index in range(await options.count()):
        await expect(options.nth(index)).to_have_attribute("aria-selected", "true")
        await expect(field).to_have_attribute("aria-activedescendant", f"card-{index}")
        lines.append(await page.locator("#card-line").inner_text())
        await field.press("ArrowDown")
    return lines


async def test_to_search_here_is_not_counted_as_a_models_work(gateway: HttpGateway) -> None:
    async with chromium_page(gateway.url) as (page, _):
        await is_live(page)
        before = httpx2.get(f"{gateway.url}/api/metrics").json()
        await search(page, "garden notes")
        after = httpx2.get(f"{gateway.url}/api/metrics").json()
        assert (after["calls"], after["tokens_saved"]) == (before["calls"], before["tokens_saved"])


async def test_paths_are_walked_with_enter_and_a_wrong_one_is_explained(gateway: HttpGateway) -> None:
    async with chromium_page(gateway.url, may_complain=True) as (page, _):
        await is_live(page)
        await expect(page.get_by_role("option")).to_have_count(3)
        await page.locator("#query").focus()
        await page.keyboard.press("Enter")
        entered = await page.locator("#query").input_value()
        assert entered in ("/time", "/notes", "/lying")
        await expect(page.locator("#card-line")).to_contain_text(f"{entered[1:]}:")
        await page.locator("#query").fill("/nowhere")
        await expect(page.locator("#catalog-words")).to_contain_text("nearest")
        await expect(page.get_by_role("option")).to_have_count(0)


async def test_hostile_words_are_shown_as_words(tmp_path: Path) -> None:
    with gateway_on_http("--config", config_file(tmp_path, {"hostile": HOSTILE})) as gateway:
        async with chromium_page(gateway.url) as (page, _), Client(f"{gateway.url}/mcp") as client:
            await is_live(page)
            await page.locator("#query").fill("/hostile")
            await expect(page.get_by_role("option")).to_have_count(len(TOOLS))
            await call(client, "hostile", "weigh_parcel")
            await expect_graduates(page, gateway.url)
            lines = await lines_by_arrow_keys(page)
            seen = text_of(await client.call_tool("tool_browse", {"path": "/hostile"}))
            assert lines == seen.splitlines()
            shown = await page.locator("#cards").inner_text()
            assert "<img src=x onerror=" in shown
            assert "<b>stamp</b>" in shown
            made = await page.evaluate("document.querySelectorAll('main :is(img, script, iframe, b, i)').length")
            assert made == 0
            assert await page.title() == "leafgate"


async def test_markup_cannot_be_made_even_by_mistake(gateway: HttpGateway) -> None:
    async with chromium_page(gateway.url, may_complain=True) as (page, _):
        outcome = "text => { try { document.body.innerHTML = text; return 'made' } catch (e) { return e.name } }"
        assert await page.evaluate(outcome, ATTACK) == "TypeError"
        assert await page.title() == "leafgate"


# By keyboard, in the dark, on a small screen


async def test_the_page_is_used_by_keyboard_alone(gateway: HttpGateway) -> None:
    async with chromium_page(gateway.url) as (page, _):
        await is_live(page)
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("link", name="Skip to the numbers")).to_be_focused()
        await expect(page.get_by_role("link", name="Skip to the numbers")).to_be_in_viewport()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("main")).to_be_focused()
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("radio", name="5 min")).to_be_focused()
        await page.keyboard.press("ArrowRight")
        await expect(page.get_by_role("radio", name="1 h")).to_be_checked()
        await expect(page.locator("#chart-words")).to_contain_text("the last hour")
        await page.keyboard.press("/")
        await expect(page.get_by_role("combobox")).to_be_focused()
        await page.keyboard.type("search notes/")
        await expect(page.get_by_role("option").first).to_contain_text("search_notes")
        await page.keyboard.press("ArrowUp")
        await expect(page.get_by_role("option").first).to_have_attribute("aria-selected", "true")
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("combobox")).to_have_value("")
        await expect(page.get_by_role("option")).to_have_count(3)


async def test_everything_that_takes_the_focus_shows_it_and_has_a_name(gateway: HttpGateway) -> None:
    async with chromium_page(gateway.url) as (page, _):
        await is_live(page)
        seen: list[str] = []
        while len(seen) < 60:
            await page.keyboard.press("Tab")
            found = await page.evaluate(FOCUSED)
            if found is None:
                break
            assert found["name"], found
            assert found["outline"] not in ("none", ""), found
            seen.append(found["name"])
        names = " | ".join(seen)
        places = [names.index(word) for word in ("Skip", "Theme", "5 min", "Servers", "What should be done", "Recent")]
        assert places == sorted(places)


FOCUSED = """() => {
  const at = document.activeElement;
  if (at === document.body || at === document.documentElement) return null;
  const labelled = (at.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id));
  const name = at.getAttribute("aria-label") ?? (labelled[0] ?? at.labels?.[0] ?? at).textContent.trim();
  const shown = at.type === "radio" ? at.nextElementSibling : at;
  return { name, tag: at.tagName, outline: getComputedStyle(shown).outlineStyle };
}"""
GROUND = "getComputedStyle(document.body).backgroundColor"


async def test_dark_and_light_follow_the_system_until_a_person_chooses(gateway: HttpGateway) -> None:
    async with chromium_page(gateway.url, color_scheme="dark") as (page, _):
        dark = await page.evaluate(GROUND)
        await page.emulate_media(color_scheme="light")
        light = await page.evaluate(GROUND)
        assert dark != light
        button = page.get_by_role("button", name="Theme")
        await button.click()
        await expect(button).to_contain_text("light")
        await button.press("Enter")
        await expect(button).to_contain_text("dark")
        assert await page.evaluate(GROUND) == dark
        await page.reload()
        await expect(button).to_contain_text("dark")
        assert await page.evaluate(GROUND) == dark


@pytest.mark.parametrize("width", [360, 768, 1920])
async def test_nothing_sticks_out_at_any_width(gateway: HttpGateway, width: int) -> None:
    async with (
        chromium_page(gateway.url, viewport={"width": width, "height": 800}) as (page, _),
        Client(f"{gateway.url}/mcp") as client,
    ):
        await call(client, "notes", "count_notes")
        await expect(page.get_by_role("option").first).to_be_visible()
        await expect_graduates(page, gateway.url)
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        sticking = (
            "[...document.querySelectorAll('main > section, main .scroll')]"
            ".filter(s => s.scrollWidth > s.clientWidth + 2).length"
        )
        assert await page.evaluate(sticking) == 0


# When things go wrong


async def test_a_gateway_that_stops_is_told_and_one_that_comes_back_is_found(tmp_path: Path) -> None:
    port = free_port()
    flags = ("--config", config_file(tmp_path, {"notes": NOTES}), "--port", str(port))
    with gateway_on_http(*flags) as first:
        url = first.url
        async with Client(f"{url}/mcp") as client:
            await call(client, "notes", "count_notes")
        opened = chromium_page(url, may_complain=True)
        page, _ = await opened.__aenter__()
        await is_live(page)
        await expect(page.locator("#total-shim")).not_to_have_text("0")
    await expect(page.locator("#connection")).to_contain_text("Not reachable")
    with gateway_on_http(*flags):
        await is_live(page)
        await expect(page.locator("#total-shim")).to_have_text("0")
        await opened.__aexit__(None, None, None)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    with gateway_on_http("--config", config_file(tmp_path, {"notes": NOTES}, dashboard=False)) as gateway:
        assert httpx2.get(f"{gateway.url}/").status_code == 404
        assert httpx2.get(f"{gateway.url}/dashboard/page.js").status_code == 404
        assert httpx2.get(f"{gateway.url}/status").status_code == 200


HIDE = """hidden => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


async def test_nothing_is_asked_while_nobody_looks(gateway: HttpGateway) -> None:
    async with chromium_page(gateway.url) as (page, watched):
        await is_live(page)
        await page.evaluate(HIDE, True)
        await expect(page.locator("#connection")).to_have_text("Paused")
        asked = watched.paths.count("/api/metrics")
        await page.wait_for_timeout(2_500)
        assert watched.paths.count("/api/metrics") <= asked + 1  # one may have been under way
        await page.evaluate(HIDE, False)
        await is_live(page)


# Behind the same auth


@pytest.fixture(scope="module")
def tokens() -> dict[str, str]:
    return {"operator": new_token(), "client": new_token()}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, tokens: dict[str, str]) -> Iterator[HttpGateway]:
    auth = {
        "tokens": [
            {"name": "operator", "hash": hash_secret(tokens["operator"])},
            {"name": "client", "hash": hash_secret(tokens["client"]), "scopes": ["browse", "execute"]},
        ]
    }
    folder = tmp_path_factory.mktemp("guarded")
    with gateway_on_http("--config", config_file(folder, {"notes": NOTES}, auth=auth)) as running:
        yield running


@pytest.mark.parametrize("path", ["/api/metrics", "/api/catalog?path=/", "/status", "/metrics"])
def test_no_number_is_told_without_a_token(guarded: HttpGateway, tokens: dict[str, str], path: str) -> None:
    assert httpx2.get(f"{guarded.url}{path}").status_code == 401
    for name, status in (("client", 403), ("operator", 200)):
        given = {"authorization": f"Bearer {tokens[name]}"}
        assert httpx2.get(f"{guarded.url}{path}", headers=given).status_code == status


async def test_the_page_asks_for_a_token_and_keeps_it_in_this_tab(guarded: HttpGateway, tokens: dict[str, str]) -> None:
    async with chromium_page(guarded.url, may_complain=True) as (page, watched):
        gate = page.get_by_role("dialog", name="Who asks?")
        await expect(gate).to_be_visible()
        await expect(page.get_by_label("Token", exact=True)).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(gate).to_be_visible()
        await enter(page, "not a token")
        await expect(page.get_by_role("alert")).to_contain_text("one word")
        await enter(page, new_token())
        await expect(page.get_by_role("alert")).to_contain_text("does not know")
        await enter(page, tokens["client"])
        await expect(page.get_by_role("alert")).to_contain_text("may not operate")
        assert await page.locator("#total-leaf").inner_text() == "–"
        await enter(page, tokens["operator"])
        await expect(gate).to_be_hidden()
        await shows_numbers(page, watched, tokens["operator"])
        await page.get_by_role("button", name="Sign out").click()
        await expect(gate).to_be_visible()
        assert await page.evaluate("sessionStorage.length") == 0


async def enter(page: Page, token: str) -> None:
    await page.get_by_label("Token", exact=True).fill(token)
    await page.keyboard.press("Enter")


async def shows_numbers(page: Page, watched: Watched, token: str) -> None:
    await is_live(page)
    await expect(page.get_by_role("option").first).to_be_visible()
    await page.reload()
    await is_live(page)
    assert await page.evaluate("[document.cookie, JSON.stringify(localStorage), location.href]") == [
        "",
        "{}",
        page.url,
    ]
    assert token not in page.url
    assert token not in await page.content()
    assert not any(token in path for path in watched.paths)


# Approvals


@pytest.fixture(scope="module")
def approving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    """A gateway whose calls wait for an operator."""
    folder = tmp_path_factory.mktemp("approving")
    policy = {"rules": [{"effect": "require_approval"}]}
    settings = {"policy": policy, "approvals": {"by": "operator", "wait_seconds": 60}, "mode": "passthrough"}
    with gateway_on_http("--config", config_file(folder, {"notes": NOTES}, **settings)) as running:
        yield running


@pytest.mark.parametrize("decision", ["Approve", "Deny"])
async def test_a_call_that_waits_is_approved_or_denied_by_a_button(approving: HttpGateway, decision: str) -> None:
    results: list[Any] = []

    async def call_and_wait() -> None:
        async with Client(f"{approving.url}/mcp") as client:
            results.append(await client.call_tool("search_notes", {"query": ATTACK}))

    async with chromium_page(approving.url) as (page, _), anyio.create_task_group() as group:
        await is_live(page)
        panel = page.get_by_role("region", name="Waiting for approval")
        await expect(panel).to_be_hidden()
        group.start_soon(call_and_wait)
        row = panel.get_by_role("row").filter(has=page.get_by_role("rowheader", name="search_notes"))
        await expect(row).to_contain_text("notes")
        await expect(row.get_by_label("The arguments")).to_contain_text("query")
        button = row.get_by_role("button", name=decision)
        await button.focus()
        async with page.expect_response(lambda response: "/api/metrics" in response.url):
            pass
        await expect(row).to_contain_text(" s)")
        await expect(button).to_be_focused()  # the row stays the same while its age changes
        await page.keyboard.press("Enter")
        await expect(panel).to_be_hidden()
        assert await page.title() == "leafgate"
    assert results[0].is_error == (decision == "Deny")


async def test_an_answer_that_comes_too_late_is_explained(approving: HttpGateway) -> None:
    async with chromium_page(approving.url, may_complain=True) as (page, _), anyio.create_task_group() as group:
        await is_live(page)

        async def call_and_wait() -> None:
            async with Client(f"{approving.url}/mcp") as client:
                await client.call_tool("count_notes", {})

        group.start_soon(call_and_wait)
        row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="count_notes"))
        await expect(row).to_be_visible()
        await page.route("**/api/metrics*", lambda route: route.abort())  # the page no longer learns what changed
        (pending,) = httpx2.get(f"{approving.url}/api/approvals").json()["approvals"]
        httpx2.post(f"{approving.url}/api/approvals/{pending['id']}", json={"approve": True})
        await row.get_by_role("button", name="Deny").click()
        await expect(page.locator("#approvals-words")).to_contain_text("no call waits for this approval")
