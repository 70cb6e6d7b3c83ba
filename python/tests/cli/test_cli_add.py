"""`leafgate add`: the server.json of a registry becomes an entry of leafgate.yaml, or is refused with the reason."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import Person, gateway, somebody

SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
NPM = {
    "registryType": "npm",
    "identifier": "@ann/weather",
    "version": "1.2.3",
    "transport": {"type": "stdio"},
    "packageArguments": [
        {"type": "positional", "value": "serve"},
        {"type": "named", "name": "--units", "default": "metric"},
        {"type": "named", "name": "--city", "isRequired": True, "description": "Where you are"},
        {"type": "named", "name": "--verbose", "format": "boolean"},
        {"type": "named", "name": "--fast", "format": "boolean", "value": "true"},
        {"type": "positional", "valueHint": "extra"},
    ],
    "environmentVariables": [
        {"name": "WEATHER_KEY", "isRequired": True, "isSecret": True, "description": "From your account"},
        {"name": "LOG", "default": "info"},
        {"name": "OPTIONAL"},
        {"name": "TRICK", "value": "${HOME} ${file:/etc/passwd}"},
    ],
}
PYPI = {"registryType": "pypi", "identifier": "weather-mcp", "version": "2.0", "runtimeHint": "uvx"}
OCI = {
    "registryType": "oci",
    "identifier": "ghcr.example/ann/weather:1.0",
    "runtimeArguments": [
        {"type": "named", "name": "-v", "value": "{folder}:/data", "variables": {"folder": {"format": "filepath"}}}
    ],
    "environmentVariables": [{"name": "KEY", "isSecret": True}],
}
REMOTE = {
    "type": "streamable-http",
    "url": "https://{region}.weather.example/mcp",
    "variables": {"region": {"default": "eu"}},
    "headers": [
        {"name": "Authorization", "value": "Bearer {token}", "variables": {"token": {"isSecret": True}}},
        {"name": "X-Optional"},
    ],
}


@pytest.fixture
def ada(tmp_path: Path) -> Person:
    return somebody(tmp_path)


def document(*packages: dict[str, Any], remotes: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    about = {"$schema": SCHEMA, "name": "io.github.ann/weather", "description": "The weather", "version": "1.2.3"}
    return about | {"packages": [*packages], "remotes": [*remotes]}


def write(person: Person, content: object) -> str:
    file = person.folder / "server.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(file)


@pytest.mark.parametrize(
    ("content", "words", "entry", "variables"),
    [
        (
            document(NPM, remotes=(REMOTE,)),
            (),
            {
                "command": "npx",
                "args": ["-y", "@ann/weather@1.2.3", "serve", "--units", "metric", "--city", "${CITY}", "--fast"],
                "env": {
                    "WEATHER_KEY": "${WEATHER_KEY}",
                    "LOG": "info",
                    "TRICK": "$${HOME} $${file:/etc/passwd}",
                },
            },
            {"CITY": False, "WEATHER_KEY": True},
        ),
        (document(PYPI), (), {"command": "uvx", "args": ["weather-mcp==2.0"]}, {}),
        (
            document(OCI),
            (),
            {
                "command": "docker",
                "args": ["run", "-i", "--rm", "-v", "${FOLDER}:/data", "-e", "KEY", "ghcr.example/ann/weather:1.0"],
                "env": {"KEY": "${KEY}"},
            },
            {"KEY": True, "FOLDER": False},
        ),
        (
            {"server": document(NPM, remotes=(REMOTE,)), "_meta": {}},
            ("--remote",),
            {"url": "https://eu.weather.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
            {"TOKEN": True},
        ),
        (
            document({**NPM, "registryType": "mcpb"}, remotes=({"type": "sse", "url": "https://w.example/sse"},)),
            (),
            {"url": "https://w.example/sse", "type": "sse"},
            {},
        ),
    ],
)
def test_a_server_becomes_an_entry_and_its_variables_are_listed(
    ada: Person, content: object, words: tuple[str, ...], entry: dict[str, Any], variables: dict[str, bool]
) -> None:
    ran = ada.runs("add", write(ada, content), *words, "--yes", "--json")
    assert ran.code == 0, ran.said
    report = json.loads(ran.out)
    assert (report["name"], report["entry"]) == ("weather", entry)
    assert {name: about["secret"] for name, about in report["variables"].items()} == variables
    written = ada.folder / "leafgate.yaml"
    assert yaml.safe_load(written.read_text()) == {"mcpServers": {"weather": entry}}
    checked = ada.runs("config", "check", "leafgate.yaml", env=dict.fromkeys(variables, "x"))
    assert checked.code == 0, checked.said


def test_a_configuration_keeps_what_it_has(ada: Person) -> None:
    text = "# mine\ntransport: http\nmcpServers:\n  notes:  # the first\n    command: x\nbudget: 900\n"
    (ada.folder / "leafgate.yaml").write_text(text)
    source = write(ada, document(PYPI))
    dry = ada.runs("add", source, "--dry-run")
    assert (dry.code, "+    command: uvx" in dry.out) == (0, True)
    assert (ada.folder / "leafgate.yaml").read_text() == text
    ran = ada.runs("add", source, "--yes")
    assert ran.code == 0, ran.said
    changed = (ada.folder / "leafgate.yaml").read_text()
    assert [line for line in text.splitlines() if line not in changed.splitlines()] == []
    assert [*yaml.safe_load(changed)["mcpServers"]] == ["notes", "weather"]
    again = ada.runs("add", source, "--yes")
    assert (again.code, "--force replaces it" in again.err) == (2, True)
    assert ada.runs("add", source, "--yes", "--name", "other").code == 0
    assert ada.runs("add", source, "--yes", "--force").code == 0


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (document(), "it has neither packages nor remotes"),
        (document({**NPM, "registryType": "mcpb"}), "a package of type mcpb cannot be run"),
        (document({**NPM, "runtimeHint": "bash"}), "bash does not run packages of type npm"),
        (document({**NPM, "identifier": "--eval=1"}), "it has no identifier"),
        (document({**NPM, "transport": {"type": "streamable-http", "url": "http://x"}}), "it serves streamable-http"),
        (document(remotes=({"type": "carrier-pigeon", "url": "https://x"},)), "carrier-pigeon is not"),
        (document(remotes=({"type": "sse", "url": "file:///x"},)), "it has no http URL"),
        (
            {"server": document(PYPI), "_meta": {"io.modelcontextprotocol.registry/official": {"status": "deleted"}}},
            "its publisher deleted",
        ),
        ("{", "not JSON"),
        ("[]", "not a server.json"),
        ('{"packages": 5, "remotes": {"a": 1}}', "neither packages nor remotes"),
    ],
)
def test_what_cannot_be_run_is_refused_with_the_reason(ada: Person, content: object, reason: str) -> None:
    ran = ada.runs("add", write(ada, content), "--yes")
    assert (ran.code, reason in ran.err) == (2, True), ran.said
    assert not (ada.folder / "leafgate.yaml").exists()


@contextmanager
def registry(answers: dict[str, tuple[int, bytes]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, body = answers.get(self.path, (404, b""))
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()


def test_a_registrys_answer_leads_to_a_server_that_answers(ada: Person) -> None:
    with gateway("--demo") as url:
        body = document(remotes=({"type": "streamable-http", "url": f"{url}/mcp"},))
        with registry({"/v0/servers/weather": (200, json.dumps({"server": body}).encode())}) as root:
            ran = ada.runs("add", f"{root}/v0/servers/weather", "--yes")
            assert ran.code == 0, ran.said
        doctor = json.loads(ada.runs("doctor", "--json").out)
    (finding,) = [each for each in doctor["findings"] if each["group"] == "servers"]
    assert (finding["name"], finding["state"]) == ("weather", "ok")


def test_what_a_url_answers_is_bounded_and_checked(ada: Person) -> None:
    big = b'{"a": "' + b"x" * 2_000_000 + b'"}'
    with registry({"/big": (200, big), "/moved": (302, b""), "/latin": (200, b"\xff")}) as root:
        for path, reason in (("big", "larger than"), ("moved", "HTTP 302"), ("latin", "not UTF-8"), ("no", "HTTP 404")):
            ran = ada.runs("add", f"{root}/{path}", "--yes")
            assert (ran.code, reason in ran.err) == (2, True), ran.said
    assert "cannot be fetched" in ada.runs("add", f"{root}/gone", "--yes").err
    assert "https://" in ada.runs("add", "http://registry.example/x", "--yes").err
