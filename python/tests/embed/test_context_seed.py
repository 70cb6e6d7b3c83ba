"""The reference document's snippets about sessions, word for word but for their import lines."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from test_seed_snippets import run_ours

import leafgate
from leafgate import ContextItem, ContextPack, ItemKind

EXAMPLE = Path(leafgate.__file__).parent / "demo" / "mcp_session.jsonl"

LINES = """
{"id": "u1", "type": "user_turn", "text": "Search for open invoices"}
{"id": "tc1", "type": "tool_call", "text": "invoices.search(status='open')", "parent_id": "u1"}
{"id": "tr1", "type": "tool_result", "content": "...", "parent_id": "tc1"}
"""

LOAD = """
from contextweaver.adapters.mcp import load_mcp_session_jsonl
items = load_mcp_session_jsonl("examples/data/mcp_session.jsonl")
for item in items:
    print(f"{item.kind.value}: {item.text[:60]}...")
"""

BUILD = """
from contextweaver.adapters.mcp import (
    load_mcp_session_jsonl,
    mcp_tool_to_selectable,
)
from contextweaver.context.manager import ContextManager
from contextweaver.types import ItemKind, Phase
# Load session events
items = load_mcp_session_jsonl("examples/data/mcp_session.jsonl")
# Build context with firewall
mgr = ContextManager()
for item in items:
    if item.kind == ItemKind.tool_result and len(item.text) > 2000:
        mgr.ingest_tool_result(
            tool_call_id=item.parent_id or item.id,
            raw_output=item.text,
            tool_name="mcp_tool",
        )
    else:
        mgr.ingest(item)
pack = mgr.build_sync(phase=Phase.answer, query="invoice status")
print(pack.prompt)
"""


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file where the document has it."""
    file = tmp_path / "examples" / "data" / "mcp_session.jsonl"
    file.parent.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return file


def test_the_documents_own_lines_are_items(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session.write_text(LINES.strip())
    found = run_ours(LOAD)
    assert list(found.items) == [
        ContextItem("u1", ItemKind.user_turn, "Search for open invoices"),
        ContextItem("tc1", ItemKind.tool_call, "invoices.search(status='open')", "u1"),
        ContextItem("tr1", ItemKind.tool_result, "...", "tc1"),
    ]
    assert capsys.readouterr().out.splitlines()[0] == "user_turn: Search for open invoices..."


def test_the_snippet_builds_a_prompt(
    session: Path, capsys: pytest.CaptureFixture[str], count: Callable[[str], int]
) -> None:
    shutil.copy(EXAMPLE, session)
    pack = run_ours(BUILD).pack
    assert isinstance(pack, ContextPack)
    assert capsys.readouterr().out == pack.prompt + "\n"
    assert "INV-104 (1,250.00" in pack.prompt
    assert pack.tokens == count(pack.prompt) <= pack.budget


@pytest.mark.parametrize("parent", [{"parent_id": "tc1"}, {}])
def test_the_snippet_puts_a_long_result_behind_the_firewall(session: Path, parent: dict[str, str]) -> None:
    rows = "\n".join(f"INV-{n},open,{n}.50" for n in range(1000))
    long = {"id": "tr1", "type": "tool_result", "content": f"id,status,amount\n{rows}", **parent}
    session.write_text("\n".join([*LINES.strip().splitlines()[:2], json.dumps(long)]))
    found = run_ours(BUILD)
    (ref,) = found.pack.artifacts
    assert len(found.pack.prompt) < 4000
    assert ref.handle in found.pack.prompt
    assert "INV-777,open,777.50" in found.mgr.view(ref.handle, {"type": "search", "pattern": "INV-777"})
