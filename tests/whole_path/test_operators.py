"""What operators see of calls, of servers that die, and of a stop: real gateways, logs, metrics and audit files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import anyio
import httpx2
import pytest
from command_line import BackgroundProcess
from gateways import LEAFGATE, READY_SECONDS, SERVERS, gateway_on_http, text_of
from guarded_gateway import Guarded, guarded_gateway, handed
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from prometheus_client.parser import text_string_to_metric_families as parse_text

from leafgate.model.request import Served
from leafgate.telemetry.audit import auditing, read_records, rotated, verify

pytestmark = pytest.mark.anyio

ANN, OPS = handed("ann"), handed("ops", "operate")
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
OWN_SECRET = "plain-words-of-the-operator"  # no pattern finds it; the configuration says that it is one
ARGUMENT = "my-diary-entry-of-tuesday"
DYING = f"import sys; print('\\x1b[31mbad key', {OWN_SECRET!r}, {SECRET!r}, file=sys.stderr); sys.exit(3)"
POLICY = {"rules": [{"tool": "pid", "effect": "require_approval"}, {"effect": "allow", "tool": "*"}]}


def faulty(folder: Path, **env: str) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    return {
        "command": sys.executable,
        "args": [str(SERVERS / "faulty.py")],
        "env": {"FAULTY_FOLDER": str(folder), **env},
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("operators")


@pytest.fixture(scope="module")
def watched(folder: Path) -> Iterator[Guarded]:
    """A gateway with tokens, an audit file and a JSON log, that has answered a few calls."""
    servers = {
        "web": faulty(folder / "web"),
        "dying": {"command": sys.executable, "args": ["-c", DYING], "env": {"DB_PASSWORD": OWN_SECRET}},
        "slow": {**faulty(folder / "slow", FAULTY_DEAF="1"), "start_timeout": 120},
    }
    settings = {
        "mcpServers": servers,
        "auth": {"tokens": [ANN.entry(), OPS.entry()]},
        "audit": str(folder / "audit.jsonl"),
        "log": {"format": "json"},
        "policy": POLICY,
        "approvals": {"by": "client"},
        "map": "qwen/qwen2",
        "startup_wait_seconds": 2,
    }
    with guarded_gateway(folder, **settings) as gateway:
        anyio.run(make_calls, gateway)
        yield gateway


async def tool_ids(client: Client) -> dict[str, str]:
    page = text_of(await client.call_tool("tool_browse", {"path": "/web", "top_k": 50}))
    return {found[1]: found[0] for found in re.findall(r"(web:([a-z]+)#\S+)", page)}


async def make_calls(gateway: Guarded) -> None:
    async with gateway.client(ANN.secret) as client:
        ids = await tool_ids(client)
        for name, args in (
            ("echo", {"text": f"{ARGUMENT} {SECRET}"}),
            ("shape", {"kind": "tool-error"}),
            ("large", {"megabytes": 0.1}),
            ("pid", {}),
        ):
            await client.call_tool("tool_execute", {"tool_id": ids[name], "args": args})
    assert gateway.get("/status").status_code == 401
    assert gateway.get("/status", ANN.secret).status_code == 200
    assert gateway.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, OPS.secret).status_code == 403


def series(gateway: Guarded, name: str) -> dict[tuple[str, ...], float]:
    page = gateway.get("/metrics", ANN.secret).raise_for_status().text
    samples = (sample for family in parse_text(page) for sample in family.samples if sample.name == name)
    return {tuple(value for _, value in sorted(sample.labels.items())): sample.value for sample in samples}


def test_calls_are_counted_by_tool_principal_and_outcome(watched: Guarded) -> None:
    calls = series(watched, "leafgate_tool_calls_total")  # labels: outcome, principal, server, tool
    assert calls["ok", "ann", "web", "echo"] == 1
    assert calls["tool_error", "ann", "web", "shape"] == 1
    assert calls["PERMISSION_DENIED", "ann", "web", "pid"] == 1
    assert series(watched, "leafgate_tool_call_duration_seconds_count")["web", "large"] == 1
    assert series(watched, "leafgate_requests_total")["tool_execute", "tool_error"] == 1
    assert series(watched, "leafgate_upstream_calls_total")["tool_error", "web"] == 1


def test_the_status_tells_a_tools_error_from_the_gateways(watched: Guarded) -> None:
    status = watched.get("/status", ANN.secret).json()
    assert status["errors"] == {"tool_error": 1, "PERMISSION_DENIED": 1}
    assert status["faults"] == {"tool": 1, "refusal": 1}
    errors = {error["code"]: error for error in status["recent_errors"]}
    assert (errors["tool_error"]["server"], errors["tool_error"]["tool"]) == ("web", "shape")
    (row,) = [row for row in status["tool_calls"] if row["tool"] == "shape"]
    assert (row["principal"], row["calls"], row["errors"]) == ("ann", 1, 1)


def test_each_call_has_one_line_in_the_log(watched: Guarded) -> None:
    lines = [json.loads(line) for line in watched.log.read_text().splitlines()]
    calls = [line for line in lines if line["logger"] == "leafgate.calls"]
    by_tool = {line["tool"]: line for line in calls if "tool" in line}
    assert [line["tool"] for line in calls if line["operation"] == "tool_execute"] == ["echo", "shape", "large", "pid"]
    echo = by_tool["echo"]
    assert (echo["level"], echo["principal"], echo["server"], echo["outcome"]) == ("info", "ann", "web", "ok")
    assert echo["ms"] > 0
    assert echo["tokens_out"] > 5
    assert len(echo["correlation_id"]) == 8
    assert (by_tool["shape"]["outcome"], by_tool["pid"]["outcome"]) == ("tool_error", "PERMISSION_DENIED")
    assert ARGUMENT not in watched.log.read_text()


def test_each_call_and_each_refusal_has_one_line_in_the_audit_file(watched: Guarded, folder: Path) -> None:
    file = folder / "audit.jsonl"
    wait_until(lambda: "this needs the capability" in file.read_text())
    result = verify(file)
    assert result.problems == []
    records = [*read_records(file)]
    calls = {record["tool"]: record for record in records if record.get("operation") == "tool_execute"}
    assert {record["principal"] for record in calls.values()} == {"ann"}
    assert {record["client"] for record in calls.values()} == {"mcp"}
    assert calls["echo"]["outcome"] == "ok"
    assert sum(calls["echo"]["redacted"].values()) == 1
    assert calls["shape"]["outcome"] == "tool_error"
    assert (calls["large"]["cut"]["parts"], calls["large"]["cut"]["bytes"]) == (1, 100_000)
    assert (calls["pid"]["outcome"], calls["pid"]["denied_by"]) == ("PERMISSION_DENIED", "approval")
    assert calls["pid"]["approval"] == "not possible"  # this client cannot be asked
    refusals = [(record.get("principal"), record["where"]) for record in records if record["event"] == "refused"]
    assert refusals == [(None, "/status"), ("ops", "/mcp")]
    assert ARGUMENT not in file.read_text()
    assert SECRET not in file.read_text()


def test_a_second_gateway_cannot_have_the_file(watched: Guarded, folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "leafgate.json"
    config.write_text(json.dumps({"mcpServers": {"web": faulty(tmp_path / "web")}}))
    words = [str(LEAFGATE), "serve", "--transport", "http", "--port", "0", "--config", str(config)]
    words += ["--audit", str(folder / "audit.jsonl")]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=READY_SECONDS, check=False)
    assert ran.returncode == 2
    assert re.search(r"audit: another gateway \(process \d+\) writes ", ran.stderr)
    assert "Traceback" not in ran.stderr
    assert not (tmp_path / "web" / "starts").exists()


async def test_a_server_that_died_says_why_to_the_operator_and_to_nobody_else(watched: Guarded) -> None:
    why = "its process ended with exit code 3; its last line on stderr: bad key"
    status = watched.get("/status", ANN.secret)
    page = watched.get("/api/metrics", ANN.secret)
    for answer in (status, page):
        (dying,) = [each for each in answer.json()["upstreams"] if each["name"] == "dying"]
        assert (dying["state"], dying["exit_code"]) == ("down", 3)
        assert why in dying["last_failure"]
    for text in (watched.announced, watched.log.read_text(), status.text, page.text):
        assert why in text
        assert OWN_SECRET not in text
        assert SECRET not in text
        assert "\x1b[31m" not in text


def test_a_server_that_is_starting_is_not_called_down(watched: Guarded) -> None:
    (line,) = [line for line in watched.announced.splitlines() if line.startswith("  slow ")]
    assert "starting" in line
    assert "down" not in line
    (slow,) = [each for each in watched.get("/status", ANN.secret).json()["upstreams"] if each["name"] == "slow"]
    assert (slow["state"], slow["last_failure"]) == ("starting", None)
    ran = subprocess.run(
        [str(LEAFGATE), "doctor", "--url", watched.url, "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, "LEAFGATE_TOKEN": ANN.secret},
        timeout=READY_SECONDS,
        check=False,
    )
    findings = {each["name"]: each for each in json.loads(ran.stdout)["findings"]}
    assert (findings["its server slow"]["state"], findings["its server slow"]["said"]) == (
        "warn",
        "is still starting",
    )
    assert "bad key" in findings["its server dying"]["said"]


async def test_the_model_is_told_that_a_process_ended_and_not_what_it_wrote(tmp_path: Path) -> None:
    """A server that comes up, lists its tools, and then dies for good."""
    config = tmp_path / "leafgate.json"
    config.write_text(json.dumps({"mcpServers": {"web": faulty(tmp_path / "web", FAULTY_LEAK=SECRET)}}))
    with gateway_on_http("--config", str(config)) as gateway:
        async with Client(f"{gateway.url}/mcp") as client:
            ids = await tool_ids(client)
            os.kill(int((tmp_path / "web" / "pid").read_text()), signal.SIGKILL)
            await anyio.to_thread.run_sync(wait_until, lambda: state_of(gateway.url, "web") == "down")
            answer = await client.call_tool("tool_execute", {"tool_id": ids["echo"], "args": {}})
    body = json.loads(text_of(answer))
    assert body["error"] == "UPSTREAM_UNAVAILABLE"
    assert body["message"] == "the server's process has ended; it is started again"
    assert body["details"]["exit_code"] == -9


def state_of(url: str, name: str) -> str:
    upstreams = httpx2.get(f"{url}/status").json()["upstreams"]
    return next(str(each["state"]) for each in upstreams if each["name"] == name)


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it does not come to that"
        time.sleep(0.02)


# Audit files over several lives of a gateway


@contextmanager
def audited(folder: Path, **keys: Any) -> Iterator[tuple[str, BackgroundProcess, Path]]:
    file = folder / "audit.jsonl"
    config = folder / "leafgate.json"
    config.write_text(json.dumps({"mcpServers": {"web": faulty(folder / "web")}, **keys}))
    with gateway_on_http("--config", str(config), "--audit", str(file)) as gateway:
        yield gateway.url, gateway.process, file


async def call_often(url: str, times: int) -> None:
    async with Client(f"{url}/mcp") as client:
        for _ in range(times):
            await client.call_tool("tool_browse", {"query": "echo", "top_k": 1})


def call_until_gone(url: str) -> None:
    with suppress(Exception):  # of many kinds: the gateway is killed meanwhile
        anyio.run(call_often, url, 100_000)


def test_a_chain_goes_on_after_a_stop_and_after_kill_9(tmp_path: Path) -> None:
    with audited(tmp_path) as (url, process, file):
        anyio.run(call_often, url, 3)
    assert [record["event"] for record in read_records(file)] == ["opened", *["call"] * 3, "closed"]
    assert verify(file).notes == []
    with audited(tmp_path) as (url, process, file):
        calling = threading.Thread(target=call_until_gone, args=(url,))
        calling.start()
        wait_until(lambda: verify(file).lines > 20)
        process.kill()
        calling.join(READY_SECONDS)
        process.wait(READY_SECONDS)
    whole = verify(file)
    assert whole.problems == []
    assert whole.notes == ["the last line does not close the file: a gateway writes it, or was killed"]
    file.write_bytes(file.read_bytes()[:-30])  # as a machine leaves it that lost its power
    with audited(tmp_path) as (url, process, file):
        anyio.run(call_often, url, 1)
    after = verify(file)
    assert after.problems == []
    assert any("a partial line" in note for note in after.notes)
    assert after.lines == whole.lines - 1 + 3


def test_a_file_that_is_full_is_rotated(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    with auditing(file, max_bytes=10**9, keep=1) as audit:
        for _ in range(4_000):
            audit.call(Served("00000000", "tool_execute", "web", "x" * 100, "p" * 100), None, 0.1)
    assert file.stat().st_size > 1024 * 1024
    with audited(tmp_path, audit_max_mb=1, audit_keep=2) as (url, _, file):
        anyio.run(call_often, url, 3)
    assert rotated(file, 1).exists()
    assert next(read_records(file))["event"] == "opened"
    assert file.stat().st_size < 10_000
    assert verify(file).problems == []
    changed = rotated(file, 1).read_bytes().replace(b'"ms":100.0', b'"ms":100.1', 1)
    rotated(file, 1).write_bytes(changed)
    ran = subprocess.run([str(LEAFGATE), "audit", "verify", str(file)], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert f"{rotated(file, 1)}:2: its hash is wrong" in ran.stdout


# The end of a gateway with a call under way


def start_on_http(serve: str, stderr: TextIO) -> subprocess.Popen[str]:
    words = ["sh", "-c", f"{serve} --transport http --port 0"]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=stderr, text=True)


def endpoint_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return next(line for line in process.stdout if "MCP endpoint" in line).split()[-1]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_a_call_that_outlasts_the_drain_is_answered_and_no_stack_is_logged(
    tmp_path: Path, transport: str, mode: Any
) -> None:
    config = tmp_path / "leafgate.json"
    settings = {"mcpServers": {"web": faulty(tmp_path / "web")}, "mode": "passthrough", "drain_seconds": 1}
    config.write_text(json.dumps(settings))
    log, pid = tmp_path / "log", tmp_path / "pid"
    serve = f"echo $$ > {pid}; exec {LEAFGATE} serve --config {config} --log-level info"
    seen = tmp_path / "web" / "seen.jsonl"
    with log.open("w") as stderr:
        process = None if transport == "stdio" else start_on_http(serve, stderr)
        stdio = stdio_client(StdioServerParameters(command="sh", args=["-c", serve]), errlog=stderr)
        client = Client(stdio if process is None else endpoint_of(process), mode=mode)
        async with client, anyio.create_task_group() as group:

            async def stop() -> None:
                await anyio.to_thread.run_sync(wait_until, lambda: seen.exists() and "tools/call" in seen.read_text())
                os.kill(int(pid.read_text()), signal.SIGTERM)

            group.start_soon(stop)
            with pytest.raises(MCPError, match="the gateway stops before the answer"):
                await client.call_tool("hang", {})
    if process is not None:
        assert process.wait(READY_SECONDS) == 0
        process.communicate()
    shown = log.read_text()
    assert "outcome=cancelled" in shown
    assert re.search(r"^2\d{3}-\d\d-\d\dT\S+ INFO leafgate\.calls \[", shown, re.MULTILINE)
    assert "Traceback" not in shown
    assert "CancelledError" not in shown
    assert not re.search(r"^  \S+\.py:\d+ in ", shown, re.MULTILINE)


async def test_a_call_that_ends_within_the_drain_is_answered_on_stdio(tmp_path: Path) -> None:
    config = tmp_path / "leafgate.json"
    settings = {"mcpServers": {"web": faulty(tmp_path / "web")}, "mode": "passthrough", "drain_seconds": 20}
    config.write_text(json.dumps(settings))
    pid = tmp_path / "pid"
    command = StdioServerParameters(
        command="sh", args=["-c", f"echo $$ > {pid}; exec {LEAFGATE} serve --config {config}"]
    )
    seen = tmp_path / "web" / "seen.jsonl"
    async with Client(command) as client, anyio.create_task_group() as group:

        async def stop() -> None:
            await anyio.to_thread.run_sync(wait_until, lambda: seen.exists() and "tools/call" in seen.read_text())
            os.kill(int(pid.read_text()), signal.SIGTERM)
            await anyio.sleep(0.3)
            (tmp_path / "web" / "go").touch()

        await client.list_tools()  # the client would list them after the call
        group.start_soon(stop)
        assert text_of(await client.call_tool("hang", {"until": "go"})) == "woke up"


async def test_a_server_that_floods_stderr_answers_and_is_logged_in_part(tmp_path: Path) -> None:
    flood = f"""
import os, runpy, threading, time
def write():
    for _ in range(400):
        os.write(2, b"noise\\n" * 20_000)
        os.write(2, b"x" * 1_000_000)
    time.sleep(1.5)  # what was left out in a second is reported with the first line of another
    os.write(2, b"\\nthe last words\\n")
    time.sleep(0.5)
    open({str(tmp_path / "done")!r}, "w").close()
threading.Thread(target=write, daemon=True).start()
runpy.run_path({str(SERVERS / "faulty.py")!r}, run_name="__main__")
"""
    server = faulty(tmp_path / "web") | {"args": ["-c", flood]}
    config = tmp_path / "leafgate.json"
    config.write_text(json.dumps({"mcpServers": {"web": server}, "mode": "passthrough"}))
    with (tmp_path / "log").open("w") as stderr:
        command = StdioServerParameters(
            command=str(LEAFGATE), args=["serve", "--config", str(config), "--log-level", "info"]
        )
        async with Client(stdio_client(command, errlog=stderr)) as client:
            with anyio.fail_after(READY_SECONDS):
                while not (tmp_path / "done").exists():
                    assert text_of(await client.call_tool("echo", {"text": "hi"})) == "hi"
            await client.call_tool("echo", {"text": "hi"})
    assert (tmp_path / "log").stat().st_size < 3_000_000  # of 450 MB
    assert "more lines" in (tmp_path / "log").read_text()
