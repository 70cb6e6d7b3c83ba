"""docs/recipes.md: every command block is run, in its order, by somebody who has the clients' files."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from command_line import PROGRAM, Person, Ran, somebody
from warm_python import PYTHON

PAGE = Path(__file__).resolve().parents[3] / "docs" / "recipes.md"
SERVERS = {"notes": {"command": PYTHON, "args": ["-m", "leafgate.demo.notes"], "env": {"API_TOKEN": "sesame"}}}
READY_SECONDS = 60


def recipes() -> dict[str, list[str]]:
    """The lines of the sh blocks under each heading that has any."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        lines = [line for block in re.findall(r"```sh\n(.*?)```", body, re.DOTALL) for line in block.splitlines()]
        if lines:
            found[title] = lines
    return found


@pytest.fixture
def ada(tmp_path: Path) -> Person:
    person = somebody(tmp_path)
    for file, key in (
        (person.home / ".config/Claude/claude_desktop_config.json", "mcpServers"),
        (person.home / ".claude.json", "mcpServers"),
        (person.home / ".cursor/mcp.json", "mcpServers"),
        (person.folder / ".vscode/mcp.json", "servers"),
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({key: SERVERS}, indent=2))
    package = {"registryType": "npm", "identifier": "weather", "version": "1.0.0"}
    (person.folder / "server.json").write_text(json.dumps({"name": "io.github.ann/weather", "packages": [package]}))
    return person


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def in_shell(person: Person, line: str) -> subprocess.Popen[str]:
    env = {**os.environ, "HOME": str(person.home), "PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"}
    env.pop("XDG_CONFIG_HOME", None)
    pipe = subprocess.PIPE
    return subprocess.Popen(["bash", "-c", line], cwd=person.folder, env=env, stdout=pipe, stderr=pipe, text=True)


def run(person: Person, line: str) -> str:
    """A plain command needs no shell and no new interpreter."""
    words = shlex.split(line, comments=True)
    if words[0] == "leafgate" and not re.search(r"[|&;<>$`~*]", " ".join(words)):
        ran = person.runs(*words[1:])
    else:
        with in_shell(person, line) as process:
            out, err = process.communicate(timeout=READY_SECONDS)
        ran = Ran(process.returncode, out, err)
    assert ran.code == 0, f"{line}\n{ran.said}"
    assert "sesame" not in ran.said
    return ran.out


@contextmanager
def serving(person: Person, line: str, url: str) -> Iterator[None]:
    with in_shell(person, f"exec {line}") as process:
        try:
            deadline = time.monotonic() + READY_SECONDS
            while time.monotonic() < deadline and process.poll() is None:
                try:
                    httpx2.get(f"{url}/ready", timeout=5).raise_for_status()
                    break
                except httpx2.HTTPError:
                    time.sleep(0.1)
            yield
        finally:
            process.terminate()
            process.communicate(timeout=READY_SECONDS)


def test_every_client_has_a_recipe() -> None:
    assert {"Claude Desktop", "Claude Code", "VS Code", "Cursor", "Any client over HTTP"} <= recipes().keys()


@pytest.mark.parametrize("title", [title for title in recipes() if "HTTP" not in title and "by hand" not in title])
def test_a_recipe_works(title: str, ada: Person) -> None:
    for line in recipes()[title]:
        run(ada, line)


def test_a_gateway_over_http_and_calls_by_hand(ada: Person) -> None:
    port = free_port()  # the page's own may be in use on this machine
    lines = [line.replace("8808", str(port)) for line in recipes()["Any client over HTTP"]]
    assert lines[0].startswith("leafgate serve ")
    (ada.folder / "leafgate.yaml").write_text(json.dumps({"mcpServers": SERVERS}))
    url = f"http://127.0.0.1:{port}"
    with serving(ada, lines[0], url):
        for line in lines[1:]:
            run(ada, line.replace("leafgate status", f"leafgate status --url {url}"))
        shown = [run(ada, f"{line} --url {url}") for line in recipes()["Trying a tool by hand"]]
    assert "notes:search_notes#" in shown[0]
    assert "rye" in shown[1]
    assert shown[2].startswith("5\t")
    assert json.loads(json.loads(shown[3])["text"])["dry_run"] is True
