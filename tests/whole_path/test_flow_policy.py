"""Flow rules with real servers, gateways and clients: in every mode, over two gateways, and with approval."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from courier import LETTER
from gateways import SERVERS, gateway_on_http, gateway_on_stdio, text_of
from mcp import Client
from mcp.types import ElicitResult
from redis_server import redis_server
from warm_python import PYTHON

pytestmark = pytest.mark.anyio

SECRET_PART = "the cellar of the OLD brewery; behind the blue door"
EFFECTS = {"mail": "deny", "flagged": "flag", "asked": "require_approval"}


def write_config(folder: Path, *sources: str, **settings: Any) -> tuple[str, Path]:
    """One server as each source, and once more as the place where notes are written."""
    log, file = folder / "notes", folder / "leafgate.json"
    entry = {"command": PYTHON, "args": [str(SERVERS / "courier.py")], "env": {"CALL_LOG": str(log)}}
    flows = [
        {"from": {"server": name, "kind": "untrusted"}, "to": {"server": "fi*"}, "effect": EFFECTS[name]}
        for name in sources
    ]
    servers = dict.fromkeys([*sources, "files"], entry)
    settings = {"mode": "passthrough", "prefix_names": True, "policy": {"flows": flows}, **settings}
    file.write_text(json.dumps({"mcpServers": servers, **settings}))
    return str(file), log


def notes(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def error_in(result: Any) -> dict[str, Any]:
    assert result.is_error, result
    return dict(json.loads(text_of(result)))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[str], Path, Path]]:
    """Two gateways with one Redis server: their addresses, the notes, and the audit file of the first."""
    folder = tmp_path_factory.mktemp("pair")
    audit = folder / "audit.jsonl"
    config, log = write_config(folder, "mail")
    with redis_server(folder) as redis, ExitStack() as stack:
        words = (("--audit", str(audit)), ())
        started = [
            stack.enter_context(gateway_on_http("--config", config, "--state", redis.url, *each)) for each in words
        ]
        yield [each.url for each in started], log, audit


def call_in(mode: str, page: str, tool: str, args: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name and the arguments with which a tool is called in a mode."""
    server, _, name = tool.partition("__")
    if mode != "gateway":
        return tool, args
    tool_id = next(line.split(" ")[0] for line in page.splitlines() if line.startswith(f"{server}:{name}#"))
    return "tool_execute", {"tool_id": tool_id, "args": args}


@pytest.mark.parametrize("mode", ["gateway", "transparent", "passthrough"])
async def test_what_was_read_is_refused_in_every_mode_and_in_a_later_process_too(mode: str, tmp_path: Path) -> None:
    config, log = write_config(tmp_path, "mail", mode=mode)
    env = {"XDG_STATE_HOME": str(tmp_path / "state")}

    async def call(client: Client, tool: str, **args: Any) -> Any:
        page = ""
        if mode == "gateway":
            page = text_of(await client.call_tool("tool_browse", {"path": f"/{tool.partition('__')[0]}"}))
        return await client.call_tool(*call_in(mode, page, tool, args))

    async with gateway_on_stdio("--config", config, env=env) as client:
        assert text_of(await call(client, "files__write_note", note=SECRET_PART)) == "written"
        assert LETTER in text_of(await call(client, "mail__read_letter"))
        error = error_in(await call(client, "files__write_note", note=f"fyi: {SECRET_PART}"))
        assert error["error"] == "PERMISSION_DENIED"
        assert error["details"]["flow"] == {"from": "mail", "to": "files", "kind": "untrusted", "effect": "deny"}
        assert text_of(await call(client, "files__write_note", note="buy bread")) == "written"
    if mode != "passthrough":
        return
    # Some clients start a gateway for each call.
    async with gateway_on_stdio("--config", config, env=env) as client:
        assert error_in(await call(client, "files__write_note", note=SECRET_PART[::-1]))["details"]["flow"]
    assert notes(log) == [SECRET_PART, "buy bread"]


async def test_replicas_agree_on_what_was_read_and_the_audit_file_says_what_happened(
    pair: tuple[list[str], Path, Path],
) -> None:
    (first, second), log, audit = pair
    before = len(notes(log))
    async with Client(f"{first}/mcp") as one, Client(f"{second}/mcp") as other:
        assert LETTER in str(await one.read_resource("letter://1"))
        await one.call_tool("mail__read_letter", {})
        for client in (other, one):
            error = error_in(await client.call_tool("files__write_note", {"note": SECRET_PART.encode().hex()}))
            assert error["details"]["flow"]["from"] == "mail"
        # Pieces that go over different gateways add up as well.
        pieces = [LETTER[place : place + 18] for place in range(0, len(LETTER), 18)]
        results = [await (one, other)[n % 2].call_tool("files__write_note", {"note": p}) for n, p in enumerate(pieces)]
        assert any(result.is_error for result in results)
    assert SECRET_PART.encode().hex() not in notes(log)[before:]
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    flow = {"from": "mail", "to": "files", "kind": "untrusted", "effect": "deny"}
    assert any(line.get("flows") == [flow] and line["denied_by"] == "flows" for line in lines)
    page = httpx2.get(f"{first}/metrics").text
    assert 'leafgate_flows_total{destination="files",effect="deny",kind="untrusted",source="mail"}' in page


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_a_person_is_asked_with_the_reason_and_a_flag_is_stated(era: str, tmp_path: Path) -> None:
    config, log = write_config(tmp_path, "asked", "flagged", state="memory")
    questions: list[str] = []

    async def answer(context: Any, params: Any) -> ElicitResult:
        questions.append(params.message)
        return ElicitResult(action="accept", content={"approve": len(questions) == 1})

    options: dict[str, Any] = {"mode": era, "elicitation_callback": answer}
    with gateway_on_http("--config", config) as gateway:
        async with Client(f"{gateway.url}/mcp", **options) as client:
            await client.call_tool("flagged__read_letter", {})
            result = await client.call_tool("files__write_note", {"note": SECRET_PART})
            assert result.meta is not None
            assert result.meta["leafgate/envelope"]["flows"] == [
                {"from": "flagged", "to": "files", "kind": "untrusted", "effect": "flag"}
            ]
            result = await client.call_tool("files__write_note", {"note": "buy bread"})
            assert "leafgate/envelope" not in (result.meta or {})
            await client.call_tool("asked__read_letter", {})
            assert text_of(await client.call_tool("files__write_note", {"note": SECRET_PART})) == "written"
            assert "because text that was read from asked would go to files" in questions[0]
            error = error_in(await client.call_tool("files__write_note", {"note": f"{SECRET_PART}!"}))
            assert error["details"] == {"approval": "refused"}
            await client.call_tool("files__write_note", {"note": "buy milk"})
            assert len(questions) == 2
    assert notes(log) == [SECRET_PART, "buy bread", SECRET_PART, "buy milk"]
