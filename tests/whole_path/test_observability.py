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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from click.testing import CliRunner
from gateways import LEAFGATE, READY_SECONDS, ROOT, SERVERS, gateway_on_http, text_of
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from otlp_receiver import Receiver, otlp_receiver
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from warm_python import PYTHON

from leafgate.cli.status import command as status_command
from leafgate.compose.servers import TIME_SERVER

pytestmark = pytest.mark.anyio

SECRET = "sk-proj-" + "Ab3dE6gH9jK2mN5pQ8sT1vW4yZ7" * 2
ARGUMENT = "my-diary-entry-of-tuesday"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PARENT_IN_HEADER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
DASHBOARD = ROOT / "docs" / "grafana" / "leafgate.json"


def servers_in(folder: Path) -> dict[str, Any]:
    """A server with leaves, one without, and one that fails and gives away what it should not."""
    return {
        "time": {"command": "node", "args": [str(TIME_SERVER)]},
        "notes": {"command": PYTHON, "args": ["-m", "leafgate.demo.notes"]},
        "faulty": {
            "command": sys.executable,
            "args": [str(SERVERS / "faulty.py")],
            "env": {"FAULTY_FOLDER": str(folder), "FAULTY_LEAK": f"postgres://admin:{SECRET}@db"},
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


@dataclass(frozen=True)
class Watched:
    """A gateway that runs, and what its pages said around five calls."""

    url: str
    log: Path
    ready: httpx2.Response
    before: Counter[tuple[str, ...]]
    after: Counter[tuple[str, ...]]
    recent: httpx2.Response
    failed: dict[str, Any]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("watched")
    servers = servers_in(folder) | {"gone": {"command": str(folder / "no-such-program")}}
    file = config_file(folder, servers, log={"level": "info", "format": "json"})
    with gateway_process(file, folder / "log") as url:
        ready = _answer(f"{url}/ready")
        until = time.monotonic() + READY_SECONDS
        while ready.status_code == 503 and time.monotonic() < until:
            time.sleep(0.1)
            ready = httpx2.get(f"{url}/ready")
        before = scraped(url)
        failed = anyio.run(make_calls, url)
        after = scraped(url)
        recent = httpx2.get(f"{url}/api/metrics").raise_for_status()
        yield Watched(url, folder / "log", ready, before, after, recent, failed)


def test_a_gateway_that_is_up_is_ready(watched: Watched) -> None:
    assert (watched.ready.status_code, watched.ready.json()) == (200, {"status": "ready", "missing": []})
    assert watched.before["leafgate_upstream_up", "gone"] == 0
    assert watched.before["leafgate_upstream_up", "faulty"] == 1


def test_a_scrape_shows_what_calls_changed(watched: Watched) -> None:
    changed = watched.after - watched.before
    assert watched.before["leafgate_catalog_tools",] == watched.after["leafgate_catalog_tools",] > 6
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


async def test_what_cards_save_is_told_once_the_definitions_were_counted(watched: Watched) -> None:
    async with Client(f"{watched.url}/mcp") as client:
        with anyio.fail_after(READY_SECONDS):
            while not scraped(watched.url)["leafgate_tokens_whole_total", "cards"]:
                await client.call_tool("tool_browse", {"query": "search notes", "top_k": 1})
                await anyio.sleep(0.1)
    found = scraped(watched.url)
    saved = found["leafgate_tokens_whole_total", "cards"] - found["leafgate_tokens_shown_total", "cards"]
    assert found["leafgate_tokens_saved_total", "cards"] == saved > 0


def test_what_the_page_of_an_operator_reads(watched: Watched) -> None:
    found, correlation = watched.recent.json(), watched.failed["details"]["correlation_id"]
    for ring in ("seconds", "minutes"):
        assert sum(sample["leaf"] for sample in found[ring]) == 1
        assert sum(sample["shim"] for sample in found[ring]) == 1
        assert sum(sample["errors"] for sample in found[ring]) == 2
        assert sum(sample["upstreams"].get("notes", {"calls": 0})["calls"] for sample in found[ring]) == 2
    later = httpx2.get(f"{watched.url}/api/metrics?since={found['now'] + 3600}").json()
    assert later["seconds"] == []
    errors = {error["code"]: error for error in found["recent_errors"]}
    assert errors["UPSTREAM_ERROR"]["correlation_id"] == correlation
    assert errors["UPSTREAM_ERROR"]["server"] == "faulty"
    # A digest is the gateway's own text: a leaf of the tool's would not spare it.
    assert [(tool["server"], tool["tool"]) for tool in found["graduate_next"]] == [("notes", "search_notes")]
    assert SECRET not in watched.recent.text
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(status_command, ["--url", watched.url]).output
    assert "graduate next" in shown
    assert "search_notes" in shown
    assert correlation in shown
    openmetrics = httpx2.get(f"{watched.url}/metrics", headers={"accept": "application/openmetrics-text"})
    assert sum(1 for _ in parse_openmetrics(openmetrics.text)) > 20


def test_every_metric_of_the_grafana_dashboard_is_served(watched: Watched) -> None:
    served = _series_names(httpx2.get(f"{watched.url}/metrics").text)
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [*_queries(dashboard)]
    used = {name for query in queries for name in re.findall(r"\b(?:leafgate|process|python)_[a-z_]+", query)}
    assert len(queries) >= 12
    assert used <= served
    # And nothing that matters to an operator is left out.
    assert {"leafgate_leaf_blocks_total", "leafgate_upstream_up", "leafgate_tokens_saved_total"} <= used


async def test_log_lines_are_json_and_lead_from_an_answer_to_its_cause(watched: Watched) -> None:
    async with Client(f"{watched.url}/mcp") as client:
        await client.call_tool("tool_execute", await called(client, "echo", {"text": ARGUMENT}))
        await client.call_tool("tool_execute", await called(client, "fail", {"kind": "lines"}))
    written = watched.log.read_text()
    lines = [json.loads(line) for line in written.splitlines()]
    assert all({"time", "level", "logger", "message"} <= set(line) for line in lines)
    correlation = watched.failed["details"]["correlation_id"]
    cause, call = [line for line in lines if line.get("correlation_id") == correlation]
    assert (call["logger"], call["outcome"], call["tool"]) == ("leafgate.calls", "UPSTREAM_ERROR", "fail")
    assert (cause["operation"], cause["server"], cause["level"]) == ("tool_execute", "faulty", "warning")
    assert "UPSTREAM_ERROR" in cause["message"]
    assert "cannot reach" not in written  # the server's words are logged at debug only
    assert any("[Codec][leaf]" in line["message"] for line in lines)
    assert SECRET not in written
    assert SECRET[10:40] not in written
    assert ARGUMENT not in written
    assert "\x1b" not in written


@dataclass(frozen=True)
class Traced:
    """What a gateway has sent to a receiver of spans, and what its server was sent."""

    receiver: Receiver
    requests: list[dict[str, Any]]


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    folder = tmp_path_factory.mktemp("traced")
    with otlp_receiver() as receiver:
        tracing = {"endpoint": receiver.url, "headers": {"x-tenant": "blue"}, "service_name": "edge"}
        file = config_file(folder, servers_in(folder), tracing=tracing)
        with gateway_on_http("--config", file) as gateway:
            anyio.run(make_traced_calls, gateway.url)
        # Spans are sent at the latest when the gateway ends.
        seen = (folder / "seen.jsonl").read_text().splitlines()
        yield Traced(receiver, [json.loads(line) for line in seen if "tools/call" in line])


async def make_traced_calls(url: str) -> None:
    """A call and a browse that have parents, a call that fails, and one whose tool fails."""
    async with Client(f"{url}/mcp") as client:
        echo = await called(client, "echo", {"text": ARGUMENT})
        await client.call_tool("tool_execute", echo, meta={"traceparent": PARENT})
        await client.call_tool("tool_execute", await called(client, "fail", {"kind": "leak"}))
        await client.call_tool("tool_execute", await called(client, "shape", {"kind": "tool-error"}))
    async with httpx2.AsyncClient(headers={"traceparent": PARENT_IN_HEADER}) as http, _client_over(http, url) as client:
        await client.call_tool("tool_browse", {"query": "time"})


def test_spans_arrive_with_their_parents_and_without_secrets(traced: Traced) -> None:
    receiver = traced.receiver
    executed = next(span for span in receiver.named("leafgate.tool_execute") if span.parent == PARENT[36:52])
    assert executed.trace == PARENT[3:35]
    assert executed.facts["leafgate.server"] == "faulty"
    assert sorted(receiver.children_of(executed)) == [
        f"leafgate.{stage}" for stage in ("admission", "ids", "screen", "store", "upstream")
    ]
    (asked,) = [span for span in receiver.named("leafgate.upstream") if span.parent == executed.id]
    assert asked.facts == {"leafgate.server": "faulty", "leafgate.method": "tools/call", "leafgate.target": "echo"}
    # The server was told which span it works for.
    assert traced.requests[0]["params"]["_meta"]["traceparent"] == f"00-{executed.trace}-{asked.id}-01"
    failed, tool_failed = (span for span in receiver.named("leafgate.tool_execute") if span.is_error)
    assert failed.facts["error.type"] == "UPSTREAM_ERROR"
    assert (tool_failed.facts["error.type"], tool_failed.facts["leafgate.tool"]) == ("tool_error", "shape")
    (tool_answer,) = [span for span in receiver.named("leafgate.upstream") if span.parent == tool_failed.id]
    assert (tool_answer.is_error, tool_answer.facts["error.type"]) == (True, "tool_error")
    assert len(str(failed.facts["leafgate.correlation_id"])) == 8
    assert {"leafgate.rank", "leafgate.tool_browse"} <= {span.name for span in receiver.spans}
    sent = b"".join(receiver.bodies)
    assert SECRET.encode() not in sent
    assert ARGUMENT.encode() not in sent
    assert b"edge" in sent
    assert receiver.headers[0]["x-tenant"] == "blue"


def test_a_header_names_the_parent_too(traced: Traced) -> None:
    (browsed,) = [
        span for span in traced.receiver.named("leafgate.tool_browse") if span.trace == PARENT_IN_HEADER[3:35]
    ]
    assert browsed.parent == PARENT_IN_HEADER[36:52]


def test_no_call_waits_for_a_receiver_that_is_not_there_and_metrics_can_be_switched_off(tmp_path: Path) -> None:
    tracing = {"endpoint": f"http://127.0.0.1:{free_port()}/v1/traces"}
    file = config_file(tmp_path, servers_in(tmp_path), tracing=tracing, metrics=False)
    with gateway_on_http("--config", file) as gateway:
        assert anyio.run(make_calls, gateway.url)["error"] == "UPSTREAM_ERROR"
        assert httpx2.get(f"{gateway.url}/metrics").status_code == 404
        assert httpx2.get(f"{gateway.url}/status").status_code == 200


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
    """The first answer of a process that is starting: nobody listens yet, then it listens and cannot answer yet."""
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until:
        try:
            return httpx2.get(url, timeout=READY_SECONDS)
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
