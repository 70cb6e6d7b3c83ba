"""The wheel, in an empty environment: what is in it, and its quick start."""

from __future__ import annotations

import json
import re
import tarfile
import urllib.request
import zipfile
from pathlib import Path

from building import ROOT, run

from leafgate import load_encoder

WHEEL_BYTES = 13_000_000  # as docs/install.md says
INSTALLED_BYTES = 150_000_000  # with what it needs
PACKAGE = ROOT / "python" / "src" / "leafgate"
LISTED = json.loads((ROOT / "maps" / "index.json").read_text(encoding="utf-8"))["maps"]
MAP_FILES = {row["file"]: row["id"] for row in LISTED if not row["id"].startswith("toy")}
TEXT = "It is currently 14:30 UTC. Cafe\u0301 \u7684"


def test_what_is_in_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = {f"leafgate/{path.relative_to(PACKAGE)}" for path in PACKAGE.rglob("*.py")}
    tables = {f"leafgate/data/{path.name}" for path in (PACKAGE / "data").glob("*.toml")}
    shown = {f"leafgate/server/dashboard/{path.name}" for path in (PACKAGE / "server" / "dashboard").iterdir()}
    assert len(tables) >= 3
    assert sources | tables | shown <= names
    assert {
        *(f"leafgate/maps/{file}" for file in MAP_FILES),
        "leafgate/maps/LICENCES.md",
        "leafgate/maps/LICENCE-Apache-2.0.txt",
        "leafgate/maps/index.json",
        "leafgate/data/meaning/model.npz",
        "leafgate/demo/mcp_session.jsonl",
        "leafgate/py.typed",
    } <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_what_is_not_in_it(wheel: Path, sdist: Path) -> None:
    with zipfile.ZipFile(wheel) as archive, tarfile.open(sdist) as source:
        names = [*archive.namelist(), *source.getnames()]
    assert [name for name in names if re.search(r"(^|/)(tests?|research|__pycache__)(/|$)|test_", name)] == []


def test_its_extras_are_told(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA")]
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    table = page.partition("| extra | for | adds |")[2].partition("\n\n")[0]
    told = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sorted(told) == re.findall(r"^Provides-Extra: (.+)$", metadata, re.MULTILINE)


def test_its_size_is_as_stated(wheel: Path, sdist: Path) -> None:
    assert wheel.stat().st_size < WHEEL_BYTES
    assert sdist.stat().st_size < WHEEL_BYTES
    assert f"below {WHEEL_BYTES // 1_000_000} MB;" in (ROOT / "docs" / "install.md").read_text(encoding="utf-8")


def test_the_core_needs_no_extra(programs: Path, env: dict[str, str], tmp_path: Path) -> None:
    code = "import importlib.metadata as m; print(*(each.name for each in m.distributions()))"
    installed = {name.lower() for name in run([str(programs / "python"), "-c", code], tmp_path, env).split()}
    assert {"leafgate", "mcp", "tiktoken"} <= installed
    assert not installed & {"gigatoken", "uvloop", "tokenizers", "opentelemetry-sdk", "redis", "pytest"}


def test_its_size_with_what_it_needs(programs: Path) -> None:
    """Without the bytecode that runs of it leave behind."""
    files = [path for path in programs.parent.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert sum(path.lstat().st_size for path in files) < INSTALLED_BYTES
    stated = f"below {INSTALLED_BYTES // 1_000_000} MB with what it needs"
    assert stated in (ROOT / "docs" / "install.md").read_text(encoding="utf-8")


def test_version_and_maps(env: dict[str, str], tmp_path: Path) -> None:
    version = re.search(r'"(.+)"', (PACKAGE / "version.py").read_text())
    assert version is not None
    assert run(["leafgate", "--version"], tmp_path, env).split()[-1] == version[1]
    listed = json.loads(run(["leafgate", "maps", "list", "--json"], tmp_path, env))
    # The map with several patterns needs an extra, which this environment does not have.
    ok = {entry["id"]: entry["ok"] for entry in listed}
    assert ok == {id: None if id == "deepseek/deepseek-v3" else True for id in MAP_FILES.values()}


def test_a_map_of_the_wheel_gives_the_ids_of_this_checkout(env: dict[str, str], tmp_path: Path) -> None:
    """A packed one, by the name of a model."""
    code = f"import leafgate; print(*leafgate.load_encoder('model:qwen3:8b').encode({TEXT!r}))"
    printed = run(["python", "-c", code], tmp_path, env)
    assert [int(id) for id in printed.split()] == load_encoder("qwen/qwen3").encode(TEXT)


def test_the_demo(env: dict[str, str], tmp_path: Path) -> None:
    """Without Node's time server, which is not in the wheel."""
    walked = json.loads(run(["leafgate", "demo", "--json"], tmp_path, env))
    assert walked["codec"]["tokenizeCalls"] == 1
    assert walked["tokens"]["with_leafgate"]["results"] < walked["tokens"]["without"]["results"] / 10


def test_serve_browse_and_the_dashboard(url: str, env: dict[str, str], tmp_path: Path) -> None:
    cards = run(["leafgate", "call", "tool_browse", "query=search notes", "--url", url], tmp_path, env)
    assert cards.startswith("notes:search_notes#")
    result = run(["leafgate", "call", "search_notes", "query=rye", "limit=1", "--url", url], tmp_path, env)
    assert "rye" in result
    page = _get(f"{url}/")
    assert "<title>" in page
    files = re.findall(r'(?:src|href)="(/[^"]+\.(?:js|css|svg))"', page)
    assert files
    assert all(_get(f"{url}{file}") for file in files)


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


def test_a_tool_author(programs: Path, env: dict[str, str], tmp_path: Path) -> None:
    code = (
        "from leafgate import load_encoder, wrap_tool_call\n"
        "meta = load_encoder('openai/cl100k_base')\n"
        "result = wrap_tool_call({'content': [{'type': 'text', 'text': 'hello world'}]}, meta)\n"
        "print(result['content'][0]['_meta']['ai.codec/leaf-tokenization']['ids'])\n"
    )
    assert run([str(programs / "python"), "-c", code], tmp_path, env) == "[15339, 1917]\n"
