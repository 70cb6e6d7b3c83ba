"""The page's own modules, each by itself, in the browser that runs them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from chromium import chromium_page, require_chromium
from gateways import HttpGateway, gateway_on_http, text_of
from mcp import Client
from playwright.async_api import Page, expect
from warm_python import PYTHON

pytestmark = pytest.mark.anyio

NOTES = {"command": PYTHON, "args": ["-m", "leafgate.demo.notes"]}
NOW = 1_800_000_003  # three seconds into a bin of five
EMPTY = {"leaf": 0, "shim": 0, "rejected": 0, "upstreams": {}}


@pytest.fixture(scope="module", autouse=True)
def chromium() -> str:
    return require_chromium()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    file = tmp_path_factory.mktemp("modules") / "leafgate.json"
    file.write_text(json.dumps({"mcpServers": {"notes": NOTES}}))
    with gateway_on_http("--config", str(file)) as running:
        yield running


@pytest.fixture
async def page(gateway: HttpGateway) -> AsyncIterator[Page]:
    async with chromium_page(gateway.url) as (opened, _):
        yield opened


async def of_module(page: Page, module: str, expression: str, given: Any = None) -> Any:
    """The value of an expression over a module `m` and a value `given`."""
    script = f"async given => {{ const m = await import('/dashboard/{module}'); return {expression}; }}"
    return await page.evaluate(script, given)


async def test_a_gateway_without_a_map_says_why_there_are_no_ids(gateway: HttpGateway, page: Page) -> None:
    await expect(page.locator("#no-ids")).to_be_hidden()
    async with Client(f"{gateway.url}/mcp") as client:
        page_of_cards = text_of(await client.call_tool("tool_browse", {"path": "/notes"}))
        count_notes = next(line.split(" ")[0] for line in page_of_cards.splitlines() if "count_notes" in line)
        await client.call_tool("tool_execute", {"tool_id": count_notes, "args": {}})
    await expect(page.locator("#no-ids")).to_be_visible()


async def test_numbers_in_words(page: Page) -> None:
    said = {
        "m.count(1234567)": "1,234,567",
        "m.count(null)": "–",
        "m.brief(9999)": "9,999",
        "m.brief(12345)": "12.3K",
        "m.percent(0, 0)": "–",
        "m.percent(1, 3)": "33 %",
        "m.percent(1, 100000)": "<1 %",
        "m.percent(99999, 100000)": ">99 %",
        "m.percent(5, 5)": "100 %",
        "m.duration(null)": "–",
        "m.duration(0.00042)": "0.4 ms",
        "m.duration(0.0123)": "12 ms",
        "m.duration(0.9996)": "1.0 s",
        "m.duration(1.25)": "1.3 s",
        "m.duration(61)": "61 s",
        "m.plural(1, 'tool')": "1 tool",
        "m.plural(0, 'leaf', 'leaves')": "0 leaves",
    }
    found = {expression: await of_module(page, "words.js", expression) for expression in said}
    assert found == said


def answer(*seconds: dict[str, Any], minutes: tuple[dict[str, Any], ...] = (), run: str = "one") -> dict[str, Any]:
    return {"now": NOW, "codec": {"since": run}, "seconds": [*seconds], "minutes": [*minutes]}


def sample(t: int, **counts: Any) -> dict[str, Any]:
    return {**EMPTY, "t": t, **counts}


TAKEN = "((h) => { for (const each of given) h.take(each); return h; })(new m.History())"


async def test_samples_fall_into_bins_that_end_now(page: Page) -> None:
    seconds = [sample(NOW - 4, leaf=1), sample(NOW - 1, leaf=2, shim=1), sample(NOW, rejected=3), sample(NOW - 400)]
    bins = await of_module(page, "history.js", f"{TAKEN}.bins('minutes')", [answer(*seconds)])
    assert len(bins) == 60
    assert bins[-1] == {"t": NOW - 3, "leaf": 2, "shim": 1, "rejected": 3}
    assert bins[-2] == {"t": NOW - 8, "leaf": 1, "shim": 0, "rejected": 0}
    assert all(bin["leaf"] == 0 for bin in bins[:-2])


async def test_a_sample_that_comes_again_is_not_counted_twice(page: Page) -> None:
    again = [answer(sample(NOW, leaf=1)), answer(sample(NOW, leaf=4))]
    assert await of_module(page, "history.js", f"{TAKEN}.lastMinute().leaf", again) == 4
    assert await of_module(page, "history.js", f"{TAKEN}.since", again) == NOW


async def test_a_gateway_that_was_started_anew_is_asked_for_its_whole_story(page: Page) -> None:
    after = [answer(sample(NOW - 9, leaf=5)), answer(sample(NOW, leaf=1), run="two")]
    assert await of_module(page, "history.js", f"{TAKEN}.since", after) == 0
    assert await of_module(page, "history.js", f"{TAKEN}.lastMinute().leaf", after) == 0


async def test_latencies_are_of_the_last_hour_and_of_servers_with_any_name(page: Page) -> None:
    called = {"upstreams": {"constructor": {"p95": 0.5}}}
    minutes = (sample(NOW - 7200, **called), sample(NOW - 120, **called), sample(NOW - 60))
    for server, found in (("constructor", [{"t": NOW - 120, "p95": 0.5}]), ("toString", [])):
        taken = await of_module(page, "history.js", f"{TAKEN}.latencies('{server}')", [answer(minutes=minutes)])
        assert taken == found


async def test_rows_that_did_not_change_stay_the_same_nodes(page: Page) -> None:
    kept = """(() => {
      const list = document.createElement("ul");
      const show = m.keptRows(list, ({ text }) => {
        const made = document.createElement("li");
        made.textContent = text;
        return made;
      });
      show([{ key: 1, text: "a" }, { key: 2, text: "b" }, { key: 3, text: "c" }]);
      const [a, b, c] = list.children;
      show([{ key: 3, text: "c" }, { key: 1, text: "a" }, { key: 2, text: "B" }]);
      const now = [...list.children];
      return [now.map((node) => node.textContent), now[0] === c, now[1] === a, now[2] === b];
    })()"""
    assert await of_module(page, "rows.js", kept) == [["c", "a", "B"], True, True, False]


async def test_attributes_and_children_are_never_markup(page: Page) -> None:
    made = "m.element('p', { title: given, hidden: false, open: true }, given)"
    told = "[e.childElementCount, e.textContent, e.title, e.hidden, e.getAttribute('open')]"
    hostile = '"><script>1</script>'
    found = await of_module(page, "element.js", f"((e) => {told})({made})", hostile)
    assert found == [0, hostile, hostile, False, ""]
