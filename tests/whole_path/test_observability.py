"""What operators see of a real gateway: metrics before and after calls, traces at a real receiver, logs, readiness."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from click.testing import CliRunner
from gateways import LEAFGATE, READY_SECONDS, ROOT, SERVERS, gateway_on_http, text_of
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from otlp_receiver import otlp_receiver
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from leafgate.cli.embedded import TIME_SERVER
from leafgate.cli.status import command as status_command

pytestmark = pytest.mark.anyio

SECRET = "sk-proj-" + "Ab3dE6gH9jK2mN5pQ8sT1vW4yZ7" * 2
ARGUMENT = "my-diary-entry-of-tuesday"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
DASHBOARD = ROOT / "docs" / "grafana" / "leafgate.json"


@pytest.fixture
def servers(tmp_path: Path) -> dict[str, Any]:
    """A server with leaves, one without, and one that fails and gives away what it should not."""
    return {
        "time": {"command": "node", "args": [str(TIME_SERVER)]},
        "notes": {"command": sys.executable, "args": ["-m", "leafgate.demo.notes"]},
        "faulty": {
            "command": sys.executable,
            "args": [str(SERVERS / "faulty.py")],
            "env": {"FAULTY_FOLDER": str(tmp_path), "FAULTY_LEAK": f"postgres://admin:{SECRET}@db"},
        },
    }


def config_file(folder: Path, servers: dict[str, Any], **keys: Any) -> str:
    file = folder / "leafgate.json"
    file.write_text(json.dumps({"mcpServers": servers, "map": "qwen/qwen2", **keys}))
    return str(file)


async def tool_id(client: Client, name: str) -> str:
    page = text_of(await client.call_tool("tool_browse", {"query": name, "top_k": 50}))
    return next(line.split(" ")[0] for line in page.splitlines() if f":{name}#" in line)


async def make_calls(url: str) -> dict[str, Any]:
    """One leaf, one shim, one digest, one failure of a server, one refusal. The failure's answer."""
    async with Client(f"{url}/mcp") as client:
        for name, args in (("get_current_time", {}), ("search_notes", {"query": "rye"}), ("export_notes", {})):
            assert not (await client.call_tool("tool_execute", await called(client, name, args))).is_error
        failed = await client.call_tool("tool_execute", await called(client, "fail", {"kind": "leak"}))
        refused = await client.call_tool("tool_execute", {"tool_id": "nothing", "args": {}})
        assert json.loads(text_of(refused))["error"] == "HYDRATE_FAILED"
    body = json.loads(text_of(failed))
    assert isinstance(body, dict)
    return body


async def called(client: Client, name: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"tool_id": await tool_id(client, name), "args": args}


def scraped(url: str) -> Counter[tuple[str, ...]]:
    """Every series of ours: its name and its labels' values, without the map's."""
    found: Counter[tuple[str, ...]] = Counter()
    for family in parse_text(httpx2.get(f"{url}/metrics").raise_for_status().text):
        for sample in family.samples:
            labels = [value for name, value in sorted(sample.labels.items()) if name != "map"]
            found[sample.name, *labels] += sample.value  # type: ignore[assignment]  # seconds are no whole numbers
    return found


async def test_a_scrape_shows_what_calls_changed(tmp_path: Path, servers: dict[str, Any]) -> None:
    with gateway_on_http("--config", config_file(tmp_path, servers)) as gateway:
        before = scraped(gateway.url)
        await make_calls(gateway.url)
        after = scraped(gateway.url)
    changed = after - before
    assert before["leafgate_catalog_tools",] == after["leafgate_catalog_tools",] > 6
    assert before["leafgate_upstream_up", "faulty"] == 1
    assert changed["leafgate_requests_total", "tool_execute", "ok"] == 3
    assert changed["leafgate_requests_total", "tool_execute", "UPSTREAM_ERROR"] == 1
    assert changed["leafgate_requests_total", "tool_execute", "HYDRATE_FAILED"] == 1
    assert changed["leafgate_request_duration_seconds_count", "tool_execute"] == 5
    assert changed["leafgate_upstream_calls_total", "ok", "notes"] == 2
    assert changed["leafgate_upstream_calls_total", "UPSTREAM_ERROR", "faulty"] == 1
    assert changed["leafgate_upstream_call_duration_seconds_count", "time"] == 1
    assert changed["leafgate_leaf_blocks_total", "leaf", "time", "get_current_time"] == 1
    assert changed["leafgate_leaf_blocks_total", "shim", "notes", "search_notes"] == 1
    assert changed["leafgate_codec_seconds_total", "verify"] > 0
    assert changed["leafgate_codec_seconds_total", "tokenize"] > 0
    assert changed["leafgate_tokens_saved_total", "digests"] > 10_000


async def test_what_cards_save_is_told_once_the_definitions_were_counted(
    tmp_path: Path, servers: dict[str, Any]
) -> None:
    with gateway_on_http("--config", config_file(tmp_path, {"notes": servers["notes"]})) as gateway:
        async with Client(f"{gateway.url}/mcp") as client:
            with anyio.fail_after(READY_SECONDS):
                while not scraped(gateway.url)["leafgate_tokens_whole_total", "cards"]:
                    await client.call_tool("tool_browse", {"query": "search notes", "top_k": 1})
                    await anyio.sleep(0.1)
        found = scraped(gateway.url)
    saved = found["leafgate_tokens_whole_total", "cards"] - found["leafgate_tokens_shown_total", "cards"]
    assert found["leafgate_tokens_saved_total", "cards"] == saved > 0


async def test_what_the_page_of_an_operator_reads(tmp_path: Path, servers: dict[str, Any]) -> None:
    with gateway_on_http("--config", config_file(tmp_path, servers)) as gateway:
        failed = await make_calls(gateway.url)
        recent = httpx2.get(f"{gateway.url}/api/metrics").raise_for_status()
        later = httpx2.get(f"{gateway.url}/api/metrics?since={recent.json()['now'] + 60}").json()
        shown = CliRunner(env={"COLUMNS": "200"}).invoke(status_command, ["--url", gateway.url]).output
        openmetrics = httpx2.get(f"{gateway.url}/metrics", headers={"accept": "application/openmetrics-text"})
    found = recent.json()
    for ring in ("seconds", "minutes"):
        assert sum(sample["leaf"] for sample in found[ring]) == 1
        assert sum(sample["shim"] for sample in found[ring]) == 1
        assert sum(sample["errors"] for sample in found[ring]) == 2
        assert sum(sample["upstreams"].get("notes", {"calls": 0})["calls"] for sample in found[ring]) == 2
    assert later["seconds"] == []
    errors = {error["code"]: error for error in found["recent_errors"]}
    assert errors["UPSTREAM_ERROR"]["correlation_id"] == failed["details"]["correlation_id"]
    assert errors["UPSTREAM_ERROR"]["server"] == "faulty"
    # A digest is the gateway's own text: a leaf of the tool's would not spare it.
    assert [(tool["server"], tool["tool"]) for tool in found["graduate_next"]] == [("notes", "search_notes")]
    assert SECRET not in recent.text
    assert "graduate next" in shown
    assert "search_notes" in shown
    assert failed["details"]["correlation_id"] in shown
    assert sum(1 for _ in parse_openmetrics(openmetrics.text)) > 20


async def test_spans_arrive_with_their_parents_and_without_secrets(tmp_path: Path, servers: dict[str, Any]) -> None:
    with otlp_receiver() as receiver:
        tracing = {"endpoint": receiver.url, "headers": {"x-tenant": "blue"}, "service_name": "edge"}
        with gateway_on_http("--config", config_file(tmp_path, servers, tracing=tracing)) as gateway:
            async with Client(f"{gateway.url}/mcp") as client:
                echo = await called(client, "echo", {"text": ARGUMENT})
                await client.call_tool("tool_execute", echo, meta={"traceparent": PARENT})
                failing = await called(client, "fail", {"kind": "leak"})
                await client.call_tool("tool_execute", failing)
    executed = next(span for span in receiver.named("leafgate.tool_execute") if span.parent == PARENT[36:52])
    assert executed.trace == PARENT[3:35]
    assert executed.facts["leafgate.server"] == "faulty"
    assert sorted(receiver.children_of(executed)) == [
        f"leafgate.{stage}" for stage in ("admission", "ids", "screen", "store", "upstream")
    ]
    (asked,) = [span for span in receiver.named("leafgate.upstream") if span.parent == executed.id]
    assert asked.facts == {"leafgate.server": "faulty", "leafgate.method": "tools/call", "leafgate.target": "echo"}
    # The server was told which span it works for.
    calls = [json.loads(line) for line in (tmp_path / "seen.jsonl").read_text().splitlines() if "tools/call" in line]
    assert calls[0]["params"]["_meta"]["traceparent"] == f"00-{executed.trace}-{asked.id}-01"
    (failed,) = [span for span in receiver.named("leafgate.tool_execute") if span.is_error]
    assert failed.facts["error.type"] == "UPSTREAM_ERROR"
    assert len(str(failed.facts["leafgate.correlation_id"])) == 8
    assert {"leafgate.rank", "leafgate.tool_browse"} <= {span.name for span in receiver.spans}
    sent = b"".join(receiver.bodies)
    assert SECRET.encode() not in sent
    assert ARGUMENT.encode() not in sent
    assert b"edge" in sent
    assert receiver.headers[0]["x-tenant"] == "blue"


async def test_a_header_names_the_parent_too(tmp_path: Path, servers: dict[str, Any]) -> None:
    with (
        otlp_receiver() as receiver,
        gateway_on_http("--config", config_file(tmp_path, servers, tracing={"endpoint": receiver.url})) as gateway,
    ):
        async with (
            httpx2.AsyncClient(headers={"traceparent": PARENT}) as http,
            _client_over(http, gateway.url) as client,
        ):
            await client.call_tool("tool_browse", {"query": "time"})
        gateway.process.terminate()
        gateway.process.wait(READY_SECONDS)
    assert [span.parent for span in receiver.named("leafgate.tool_browse")] == [PARENT[36:52]]


async def test_a_receiver_that_is_not_there_costs_no_call(tmp_path: Path, servers: dict[str, Any]) -> None:
    tracing = {"endpoint": f"http://127.0.0.1:{free_port()}/v1/traces"}
    with gateway_on_http("--config", config_file(tmp_path, servers, tracing=tracing)) as gateway:
        assert (await make_calls(gateway.url))["error"] == "UPSTREAM_ERROR"


async def test_log_lines_are_json_and_lead_from_an_answer_to_its_cause(tmp_path: Path, servers: dict[str, Any]) -> None:
    file = config_file(tmp_path, servers, log={"level": "info", "format": "json"})
    with gateway_process(file, tmp_path / "log") as url:
        _answer(f"{url}/health")
        failed = await make_calls(url)
        async with Client(f"{url}/mcp") as client:
            await client.call_tool("tool_execute", await called(client, "echo", {"text": ARGUMENT}))
            noisy = await called(client, "fail", {"kind": "lines"})
            await client.call_tool("tool_execute", noisy)
    written = (tmp_path / "log").read_text()
    lines = [json.loads(line) for line in written.splitlines()]
    assert all({"time", "level", "logger", "message"} <= set(line) for line in lines)
    correlation = failed["details"]["correlation_id"]
    (cause,) = [line for line in lines if line.get("correlation_id") == correlation]
    assert (cause["operation"], cause["server"], cause["level"]) == ("tool_execute", "faulty", "warning")
    assert "cannot reach" in cause["message"]
    assert any("[Codec][leaf]" in line["message"] for line in lines)
    assert SECRET not in written
    assert SECRET[10:40] not in written
    assert ARGUMENT not in written
    assert "\x1b" not in written


def test_ready_is_told_apart_from_healthy(tmp_path: Path) -> None:
    deaf = {
        "command": sys.executable,
        "args": [str(SERVERS / "faulty.py")],
        "env": {"FAULTY_FOLDER": str(tmp_path), "FAULTY_DEAF": "1"},
        "start_timeout": 60,
    }
    with gateway_process(config_file(tmp_path, {"deaf": deaf}), tmp_path / "log") as url:
        assert _answer(f"{url}/health").json() == {"status": "ok"}
        ready = httpx2.get(f"{url}/ready")
        assert ready.status_code == 503
        assert ready.json()["missing"] == ["the server deaf has neither come up nor failed yet"]


def test_a_gateway_that_is_up_is_ready(tmp_path: Path, servers: dict[str, Any]) -> None:
    gone = {"command": str(tmp_path / "no-such-program")}
    with gateway_on_http("--config", config_file(tmp_path, {**servers, "gone": gone})) as gateway:
        ready = httpx2.get(f"{gateway.url}/ready")
        assert (ready.status_code, ready.json()) == (200, {"status": "ready", "missing": []})
        assert scraped(gateway.url)["leafgate_upstream_up", "gone"] == 0


def test_metrics_can_be_switched_off(tmp_path: Path, servers: dict[str, Any]) -> None:
    with gateway_on_http("--config", config_file(tmp_path, {"notes": servers["notes"]}, metrics=False)) as gateway:
        assert httpx2.get(f"{gateway.url}/metrics").status_code == 404
        assert httpx2.get(f"{gateway.url}/status").status_code == 200


def test_every_metric_of_the_grafana_dashboard_is_served(tmp_path: Path, servers: dict[str, Any]) -> None:
    with gateway_on_http("--config", config_file(tmp_path, {"notes": servers["notes"]})) as gateway:
        served = _series_names(httpx2.get(f"{gateway.url}/metrics").text)
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [*_queries(dashboard)]
    used = {name for query in queries for name in re.findall(r"\b(?:leafgate|process|python)_[a-z_]+", query)}
    assert len(queries) >= 12
    assert used <= served
    # And nothing that matters to an operator is left out.
    assert {"leafgate_leaf_blocks_total", "leafgate_upstream_up", "leafgate_tokens_saved_total"} <= used


def _series_names(text: str) -> set[str]:
    names: set[str] = set()
    for family in parse_text(text):
        suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(family.type, [""])
        names |= {family.name + suffix for suffix in suffixes}
    return names


def _queries(value: Any) -> Iterator[str]:
    """Every PromQL expression of a dashboard: those of panels and those of variables."""
    if isinstance(value, dict):
        yield from (found for key, found in value.items() if key in ("expr", "query") and isinstance(found, str))
        for inner in value.values():
            yield from _queries(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _queries(inner)


def _answer(url: str) -> httpx2.Response:
    """The first answer of a process that is starting."""
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until:
        try:
            return httpx2.get(url)
        except httpx2.ConnectError:
            time.sleep(0.05)
    raise AssertionError(f"nobody answers at {url}")


def _client_over(http: httpx2.AsyncClient, url: str) -> Client:
    return Client(streamable_http_client(f"{url}/mcp", http_client=http))


@contextmanager
def gateway_process(config: str, log: Path) -> Iterator[str]:
    """The URL of a gateway that may still be starting, and whose log goes to a file, as JSON."""
    port = free_port()
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [str(LEAFGATE), "serve", "--transport", "http", "--port", str(port), "--config", config],
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(READY_SECONDS)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
