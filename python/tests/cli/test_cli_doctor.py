"""`leafgate doctor`, as a person runs it: with what works, and with everything that people trip over."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import SERVERS, Person, Ran, gateway, somebody
from warm_python import PYTHON

NOTES = {"command": PYTHON, "args": ["-m", "leafgate.demo.notes"]}
SECRET = "sesame-open-1234"


@pytest.fixture
def ada(tmp_path: Path) -> Person:
    return somebody(tmp_path)


def written(person: Person, document: dict[str, Any], mode: int = 0o600) -> Path:
    file = person.folder / "leafgate.yaml"
    file.write_text(yaml.safe_dump(document))
    file.chmod(mode)
    return file


def findings(ran: Ran) -> dict[str, dict[str, str]]:
    assert "Traceback" not in ran.err, ran.err
    told = json.loads(ran.out)
    assert told["ok"] is (ran.code == 0)
    return {found["name"]: found for found in told["findings"]}


@contextmanager
def answering(status: int, body: bytes = b"") -> Iterator[str]:
    """A web server that is no MCP server: it answers everything with this status."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = answer

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_demo_is_in_order(ada: Person) -> None:
    ran = ada.runs("doctor")
    assert ran.code == 0, ran.said
    assert "0 failed" in ran.out
    for name in ("Python", "Node.js", "demo time server", "extra metaspace", "cache folder", "default map"):
        assert name in ran.out


def test_a_file_in_order(ada: Person) -> None:
    pins = ada.folder / "tools.lock.json"
    (ada.folder / "catalog.json").write_text(json.dumps([{"server": "notes", "tool": {"name": "x"}}]))
    assert ada.runs("catalog", "pin", "--catalog", "catalog.json", "--lock", str(pins)).code == 0
    written(ada, {"mcpServers": {"notes": NOTES}, "map": "toy", "port": free_port(), "pins": "tools.lock.json"})
    found = findings(ada.runs("doctor", "--json"))
    assert {name: each["state"] for name, each in found.items() if each["state"] != "ok"} == {}
    assert found["notes"]["said"].endswith("4 tools")
    assert found["pins"]["said"].endswith("1 tools")
    assert found["default map"]["said"] == "toy"


def test_servers_that_do_not_come_up(ada: Person) -> None:
    faulty = {"command": sys.executable, "args": [str(SERVERS / "faulty.py")]}
    odd = ada.folder / "odd.json"
    odd.write_text(json.dumps({"tools": [{"name": "add", "inputSchema": {}, "title": 5}], "prompts": [{"name": 5}]}))
    complaint = f"import sys; print('cannot read {SECRET} at line 5', file=sys.stderr); sys.exit(3)"
    with answering(401) as closed, answering(403) as forbidden, answering(404) as lost, answering(200, b"hi") as site:
        servers = {
            "fine": NOTES,
            "odd": {
                "command": sys.executable,
                "args": [str(SERVERS / "listing.py")],
                "env": {"LISTING_FILE": str(odd)},
            },
            "deaf": {**faulty, "env": {"FAULTY_FOLDER": str(ada.folder), "FAULTY_DEAF": "1"}},
            "ends": {"command": sys.executable, "args": ["-c", complaint], "env": {"API_TOKEN": SECRET}},
            "nowhere": {"command": "no-such-program-here"},
            "away": {**NOTES, "cwd": str(ada.folder / "nothing")},
            "refused": {"url": f"http://127.0.0.1:{free_port()}/mcp"},
            "closed": {"url": f"{closed}/mcp", "headers": {"Authorization": f"Bearer {SECRET}"}},
            "open": {"url": f"{closed}/mcp"},
            "forbidden": {"url": f"{forbidden}/mcp"},
            "lost": {"url": f"{lost}/wrong"},
            "site": {"url": site},
        }
        written(ada, {"mcpServers": servers, "port": free_port()})
        ran = ada.runs("doctor", "--json", "--timeout", "5")
    found = findings(ran)
    assert ran.code == 1
    assert SECRET not in ran.said
    assert found["fine"]["state"] == "ok"
    assert found["odd"]["state"] == "warn"
    assert found["odd"]["said"].endswith("definitions that break MCP's types: 2")
    assert "add /title" in found["odd"]["fix"]
    assert "does not answer within 5 s" in found["deaf"]["said"]
    assert "  | cannot read (hidden) at line 5" in found["ends"]["said"]
    assert "not on PATH" in found["command of nowhere"]["said"]
    assert "is not a folder" in found["command of away"]["said"]
    assert "nothing listens at 127.0.0.1" in found["refused"]["said"]
    assert found["closed"]["said"] == "refuses the credentials (401)"
    assert "renew the credential" in found["closed"]["fix"]
    assert "give it headers" in found["open"]["fix"]
    assert "(403)" in found["forbidden"]["said"]
    assert "(404)" in found["lost"]["said"]
    assert "not MCP" in found["site"]["said"]
    assert all(each["fix"] for each in found.values() if each["state"] != "ok")


def test_what_is_wrong_with_a_file_is_told_by_line_with_the_variable_to_set(ada: Person) -> None:
    file = ada.folder / "leafgate.yaml"
    file.write_text("prot: 5\nmcpServers:\n  a:\n    url: http://h/\n    headers: {X: '${env:NOT_SET_HERE}'}\n")
    ran = ada.runs("doctor", "--json")
    assert ran.code == 1
    found = findings(ran)
    assert "did you mean port?" in found["leafgate.yaml, line 1"]["said"]
    assert found["leafgate.yaml, line 5"]["fix"] == "export NOT_SET_HERE=…"
    table = ada.runs("doctor")
    assert table.code == 1
    assert "→ export NOT_SET_HERE=…" in table.out


@pytest.mark.parametrize("text", ["", "[]", "{", "mcpServers: 5", "a: b: c", "\x00"])
def test_a_file_that_is_none_is_a_finding_and_no_crash(ada: Person, text: str) -> None:
    (ada.folder / "leafgate.yaml").write_text(text)
    ran = ada.runs("doctor", "--json")
    assert ran.code == 1
    assert any(found["group"] == "configuration" for found in findings(ran).values())


def test_a_file_that_is_not_there(ada: Person) -> None:
    ran = ada.runs("doctor", "--config", "nothing.yaml", "--json")
    assert ran.code == 1
    assert "No such file" in findings(ran)["nothing.yaml"]["said"]


def test_what_to_look_at_is_no_failure(ada: Person) -> None:
    server = {**NOTES, "env": {"API_TOKEN": SECRET, "OTHER": "${env:EMPTY_ONE}"}}
    file = written(ada, {"mcpServers": {"notes": server}, "port": free_port()}, mode=0o644)
    ran = ada.runs("doctor", "--json", "--no-start", env={"EMPTY_ONE": "", "XDG_CACHE_HOME": str(file)})
    assert ran.code == 0, ran.said
    found = findings(ran)
    assert found["permissions"]["state"] == "warn"
    assert "API_TOKEN" in found["permissions"]["said"]
    assert f"chmod 600 {file.name}" in found["permissions"]["fix"]
    assert found["variable EMPTY_ONE"]["state"] == "warn"
    assert found["cache folder"]["state"] == "warn"
    assert "notes" not in found, "no server is started"
    assert SECRET not in ran.said


def test_settings_maps_pins_and_the_port(ada: Person) -> None:
    (ada.folder / "broken.lock.json").write_text("{")
    with answering(200, b"some other program") as other:
        port = int(other.rpartition(":")[2])
        written(
            ada,
            {
                "mcpServers": {"notes": NOTES},
                "transport": "http",
                "port": port,
                "map": "no/such-map",
                "pins": "broken.lock.json",
            },
        )
        ran = ada.runs("doctor", "--json", "--no-start")
    found = findings(ran)
    assert ran.code == 1
    assert found["pins"]["state"] == "fail"
    assert found["default map"]["state"] == "fail"
    assert "another program" in found[f"127.0.0.1:{port}"]["said"]


def test_a_gateway_that_runs(ada: Person) -> None:
    with gateway() as url:
        ran = ada.runs("doctor", "--url", f"{url}/mcp", "--json")
        found = findings(ran)
        assert ran.code == 0
        assert found["its server notes"]["said"] == "up, 4 tools"
        port = int(url.rpartition(":")[2])
        written(ada, {"mcpServers": {"notes": NOTES}, "transport": "http", "port": port})
        here = findings(ada.runs("doctor", "--json", "--no-start"))
        assert "already runs there" in here[f"127.0.0.1:{port}"]["said"]


def test_urls_where_no_gateway_answers(ada: Person) -> None:
    port = free_port()
    refused = ada.runs("doctor", "--url", f"http://127.0.0.1:{port}", "--json")
    assert refused.code == 1
    assert "nothing listens" in findings(refused)[f"http://127.0.0.1:{port}"]["said"]
    with answering(401) as closed, answering(200, b"{}") as other:
        assert "LEAFGATE_TOKEN" in findings(ada.runs("doctor", "--url", closed, "--json"))[closed]["fix"]
        assert "is not leafgate" in findings(ada.runs("doctor", "--url", other, "--json"))[other]["said"]
    assert ada.runs("doctor", "--url", "nonsense", "--json").code == 1
    assert ada.runs("doctor", "--url", "http://x", "--config", "y").code == 2


JWT = {"issuer": "https://issuer.test", "audience": "gateway"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("{", "not JSON"),
        ('{"keys": []}', "no public key"),
        ('{"keys": [{"kty": "oct"}]}', "no"),
    ],
)
def test_keys_that_no_token_could_be_checked_with(ada: Person, content: str | None, said: str) -> None:
    if content is not None:
        (ada.folder / "jwks.json").write_text(content)
    written(ada, {"mcpServers": {"notes": NOTES}, "auth": {"jwt": {**JWT, "jwks": "jwks.json"}}})
    found = findings(ada.runs("doctor", "--no-start", "--json"))["signing keys"]
    assert found["state"] == "fail"
    assert said in found["said"]
    assert "auth.jwt.jwks" in found["fix"]


def test_keys_at_a_url_are_asked_for_unless_nothing_is_to_be_reached(ada: Person) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/jwks"
        (ada.folder / "tools.json").write_text('{"tools": []}')
        written(ada, {"catalog": "tools.json", "auth": {"jwt": {**JWT, "jwks": url}}})
        assert "signing keys" not in findings(ada.runs("doctor", "--no-start", "--json"))
        found = findings(ada.runs("doctor", "--json"))["signing keys"]
    assert found["state"] == "fail"


@pytest.mark.parametrize(
    ("settings", "state"),
    [
        ({}, "fail"),
        ({"auth": {"tokens": [{"name": "ann", "hash": "sha256:" + "0f" * 32}], "required": False}}, "fail"),
        ({"auth": {"tokens": [{"name": "ann", "hash": "sha256:" + "0f" * 32}]}}, "ok"),
        ({"insecure_bind": True}, "ok"),
    ],
)
def test_an_open_address_is_told_before_the_start_refuses_it(ada: Person, settings: dict[str, Any], state: str) -> None:
    written(ada, {"mcpServers": {"notes": NOTES}, "transport": "sse", "host": "0.0.0.0", **settings})
    assert findings(ada.runs("doctor", "--no-start", "--json"))["0.0.0.0"]["state"] == state


@pytest.mark.parametrize(
    ("where", "state"),
    [("sqlite:state.db", "ok"), ("sqlite:a-file/state.db", "fail"), ("redis://:hunter2hunter2@127.0.0.1:1/0", "fail")],
)
def test_the_store_is_opened_as_a_gateway_would(ada: Person, where: str, state: str) -> None:
    (ada.folder / "a-file").write_text("not a folder")
    (ada.folder / "tools.json").write_text('{"tools": []}')
    written(ada, {"catalog": "tools.json", "state": where})
    ran = ada.runs("doctor", "--json")
    assert findings(ran)["store"]["state"] == state
    assert "hunter2" not in ran.said
    assert "store" not in findings(ada.runs("doctor", "--no-start", "--json"))
