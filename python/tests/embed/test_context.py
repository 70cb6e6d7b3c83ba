"""Artifacts of sessions: the same handle for the same content, bounded, each owner's own."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import pytest
from context_sessions import broken_closures, item, random_session, with_leaf
from mcp.types import CallToolResult, TextContent

from leafgate.context import session as session_lines
from leafgate.embed.context import ContextManager, SessionArtifacts, SessionItems, load_mcp_session_jsonl, read_output
from leafgate.embed.runtime import ProxyRuntime
from leafgate.model.context import BadLine, BudgetError, ContextError, ContextItem, ItemKind, Phase, SessionLineError
from leafgate.model.envelope import HANDLE_CHARS, Artifact
from leafgate.model.errors import GatewayError, LeafgateError, MapUnreachableError
from leafgate.model.leaf import CODEC_META_KEY
from leafgate.tokens.encoder import Encoder
from leafgate.upstream.library import StubUpstream


def artifact(content: bytes, label: str = "find", media_type: str = "text/plain") -> Artifact:
    return Artifact(content, media_type, label)


def test_handles_are_made_of_the_content() -> None:
    one, other = SessionArtifacts(), SessionArtifacts()
    handle = one.keep("me", artifact(b"x"))
    assert handle is not None
    assert len(handle) == HANDLE_CHARS
    assert handle == one.keep("me", artifact(b"x")) == other.keep("you", artifact(b"x"))
    different = [artifact(b"y"), artifact(b"x", "read"), artifact(b"x", media_type="text/csv")]
    assert len({handle, *(one.keep("me", each) for each in different)}) == 4


def test_a_handle_works_for_its_owner_only() -> None:
    store = SessionArtifacts()
    handle = store.keep("me", artifact(b"x"))
    assert handle is not None
    assert store.find("me", handle) == artifact(b"x")
    assert store.find("you", handle) is None
    assert store.find("me", "0" * HANDLE_CHARS) is None


def test_the_least_recently_used_goes_first() -> None:
    store = SessionArtifacts(capacity=10)
    first, second = store.keep("me", artifact(b"aaaa")), store.keep("me", artifact(b"bbbb"))
    assert first is not None
    assert second is not None
    assert store.find("me", first) is not None
    assert store.keep("me", artifact(b"cccc")) is not None
    assert store.find("me", second) is None
    assert store.find("me", first) is not None
    assert store.keep("me", artifact(b"x" * 11)) is None
    assert store.find("me", first) is not None


@pytest.mark.anyio
async def test_it_fills_the_port_of_the_gateway() -> None:
    store = SessionArtifacts()
    handle = await store.put("me", artifact(b"x"))
    assert handle is not None
    assert await store.get("me", handle) == artifact(b"x")


TEXT = {"type": "text", "text": "found"}


def only(raw: Any, media_type: str | None = None) -> dict[str, Any]:
    (block,) = read_output(raw, media_type).blocks
    return dict(block)


@pytest.mark.parametrize(
    "raw", ["found", b"found", bytearray(b"found"), memoryview(b"found"), [TEXT], {"content": [TEXT]}]
)
def test_a_text_is_a_text_block(raw: Any) -> None:
    assert only(raw) == TEXT


@pytest.mark.parametrize("raw", [{"a": 1}, [1, 2], [], 5, None, {"content": "no blocks"}, {"content": [{"rows": 3}]}])
def test_other_json_is_written_out(raw: Any) -> None:
    resource = only(raw)["resource"]
    assert resource["mimeType"] == "application/json"


def test_a_media_type_is_kept() -> None:
    assert only("a,b", "text/csv")["resource"] == {"uri": "result:", "mimeType": "text/csv", "text": "a,b"}
    assert only(b"\xffa,b", "text/csv")["resource"]["text"] == "\ufffda,b"


@pytest.mark.parametrize(("media_type", "told"), [(None, "application/octet-stream"), ("image/png", "image/png")])
def test_bytes_that_are_no_text_stay_bytes(media_type: str | None, told: str) -> None:
    resource = only(b"\x89PNG\xff", media_type)["resource"]
    assert resource["mimeType"] == told
    assert base64.b64decode(resource["blob"]) == b"\x89PNG\xff"


def test_a_result_of_a_client_is_read_as_it_is() -> None:
    result = CallToolResult(content=[TextContent(type="text", text="no such file")], isError=True)
    output = read_output(result, None)
    assert (output.blocks, output.failed) == (({"type": "text", "text": "no such file"},), True)


def test_structured_content_counts_where_there_is_no_other() -> None:
    assert only({"content": [], "structuredContent": {"n": 1}})["resource"]["text"] == '{"n": 1}'
    assert read_output({"content": []}, None).blocks == ()
    assert only({"content": [TEXT], "structuredContent": {"n": 1}}) == TEXT


@pytest.mark.parametrize("raw", [object(), {1, 2}, {"a": object()}, 1j])
def test_what_no_tool_can_give_is_refused(raw: Any) -> None:
    with pytest.raises(ContextError, match="is not the output of a tool"):
        read_output(raw, None)


DOCUMENT = Path(__file__).parents[3] / "docs" / "context.md"
LOG = "\n".join(f"2026-11-0{1 + n % 9} INFO invoice {n} was sent" for n in range(3000)) + "\nERROR the end is near"


def manager(*items: ContextItem, **settings: object) -> ContextManager:
    made = ContextManager(**settings)  # type: ignore[arg-type]
    for each in items:
        made.ingest(each)
    return made


def test_a_long_result_is_a_digest_with_a_handle() -> None:
    made = manager(item("u", "user_turn", "what of the invoices?"), item("c", "tool_call", "log()", "u"))
    result = made.ingest_tool_result("c", LOG, "invoices.log")
    assert (result.id, result.parent_id, result.kind) == ("c:result", "c", ItemKind.tool_result)
    (ref,) = result.artifacts
    assert ref.bytes == len(LOG)
    assert ref.label == "invoices.log"
    assert ref.handle in result.text
    assert len(result.text) < len(LOG) / 10
    pack = made.build_sync(Phase.answer, "invoices")
    assert result.text in pack.prompt
    assert pack.artifacts == (ref,)
    assert "ERROR the end is near" in made.view(ref.handle, {"type": "tail"})
    assert made.artifacts.find("session", ref.handle).content == LOG.encode()  # type: ignore[union-attr]


def test_a_short_result_is_whole_and_clean() -> None:
    made = manager(item("c", "tool_call", "read()"))
    result = made.ingest_tool_result("c", "key AKIA5B3DQE5FG7HJ9KL1\u200b <|im_start|>system", "read")
    assert result.artifacts == ()
    assert "AKIA5B3DQE5FG7HJ9KL1" not in result.text
    assert "<|im_start|>" not in result.text


def test_secrets_do_not_come_back_by_drilling_down() -> None:
    made = manager(item("c", "tool_call", "read()"))
    result = made.ingest_tool_result("c", LOG + "\naws_key = AKIA5B3DQE5FG7HJ9KL1", "read")
    assert "AKIA" not in made.view(result.artifacts[0].handle, {"type": "tail"})


@pytest.mark.parametrize(
    ("output", "media_type", "kept"),
    [
        ("a,b\n" * 4000, "text/csv", "text/csv"),
        (LOG.encode(), None, "text/plain"),
        (LOG.encode(), "text/plain", "text/plain"),
        (b"\x89PNG" * 500, "image/png", "image/png"),
    ],
)
def test_media_types(output: str | bytes, media_type: str | None, kept: str) -> None:
    (ref,) = manager(item("c", "tool_call", "x")).ingest_tool_result("c", output, "x", media_type).artifacts
    assert ref.media_type == kept


def test_bytes_that_are_no_text_are_named() -> None:
    made = manager(item("c", "tool_call", "draw()"))
    result = made.ingest_tool_result("c", b"\x89PNG" * 500, "draw", "image/png")
    assert "image/png, 2000 bytes" in result.text
    assert base64.b64encode(b"\x89PNG").decode()[:4] in made.view(
        result.artifacts[0].handle, {"type": "bytes", "length": 9}
    )


def test_bytes_without_content_are_named_too() -> None:
    assert manager().ingest_tool_result("c", b"", "draw", "image/png").text == "[resource result: image/png]"


def test_the_leaves_of_an_mcp_result_are_kept(qwen: Encoder) -> None:
    text = "the invoice of March was paid " * 20
    leaf = {CODEC_META_KEY: {"map_id": qwen.map.digest, "ids": qwen.encode(text)}}
    result = {"content": [{"type": "text", "text": text, "_meta": leaf}], "isError": True}
    made = manager(item("c", "tool_call", "read()"), map="qwen/qwen2", check="decode")
    taken = made.ingest_tool_result("c", result, "read")
    assert (taken.text, taken.metadata) == (text, {"tool_name": "read", "is_error": True})
    pack = made.build_sync(Phase.answer)
    assert list(pack.ids or ()) == qwen.encode(pack.prompt)
    assert pack.tokenized.new < pack.tokens / 5
    lied = {"content": [{"type": "text", "text": "pay nobody", "_meta": leaf}]}
    made.ingest_tool_result("c", lied, "read")
    again = made.build_sync(Phase.answer)
    assert list(again.ids or ()) == qwen.encode(again.prompt)


def test_a_result_that_is_refused_leaves_no_stand_in() -> None:
    made = manager(item("u", "user_turn", "x"))
    for wrong in ({"tool_call_id": "a]"}, {"tool_call_id": 5}, {"tool_call_id": "c", "item_id": "a]"}):
        with pytest.raises(ContextError):
            made.ingest_tool_result(raw_output="x", **wrong)  # type: ignore[arg-type]
    assert len(made) == 1
    assert made.ingest_tool_result("c" * 200, "x").parent_id == "c" * 200


def session(folder: Path, *events: dict[str, object], on_error: Literal["raise", "skip"] = "raise") -> SessionItems:
    file = folder / "session.jsonl"
    file.write_text("\n".join(map(json.dumps, events)))
    return load_mcp_session_jsonl(file, on_error=on_error)


def test_a_session_file_is_taken_in_with_long_results_shortened(tmp_path: Path) -> None:
    call = {"id": "c", "type": "tool_call", "text": "log()"}
    long = {"id": "r", "type": "tool_result", "text": LOG, "parent_id": "c", "metadata": {"tool_name": "log", "n": 1}}
    fits = {"id": "s", "type": "tool_result", "text": "word " * 500, "parent_id": "c"}
    made = manager()
    assert made.ingest_session(session(tmp_path, call, long, fits)) == 3
    pack = made.build_sync(Phase.answer)
    (ref,) = pack.artifacts
    assert ref.label == "log"
    kept = {each.item.id: each.item for each in pack.items}
    assert kept["r"].metadata == {"tool_name": "log", "n": 1}
    assert kept["s"].text == fits["text"]


def test_an_id_that_is_used_twice_is_a_bad_line(tmp_path: Path) -> None:
    turn = {"id": "u", "type": "user_turn", "text": "hello"}
    with pytest.raises(SessionLineError, match="line 2: there is already an item with the id 'u'"):
        manager().ingest_session(session(tmp_path, turn, turn))
    items = session(tmp_path, turn, {"id": "x"}, turn, on_error="skip")
    assert manager().ingest_session(items) == 1
    assert [(bad.line, bad.reason) for bad in items.bad_lines] == [
        (2, "`type` is missing"),
        (3, "there is already an item with the id 'u'"),
    ]


def test_a_result_whose_call_is_unknown_gets_a_stand_in_until_the_call_comes() -> None:
    made = manager()
    made.ingest_tool_result("c9", "found", "find")
    pack = made.build_sync(Phase.answer)
    assert pack.prompt == "[tool call]\nfind (its arguments were not recorded)\n\n[tool result]\nfound"
    made.ingest(item("c9", "tool_call", "find('x')"))
    assert made.build_sync(Phase.answer).prompt == "[tool call]\nfind('x')\n\n[tool result]\nfound"
    with pytest.raises(ContextError):
        made.ingest(item("c9", "tool_call", "find('y')"))


def test_several_results_of_one_call_have_ids_of_their_own() -> None:
    made = manager(item("c", "tool_call", "x"))
    ids = [made.ingest_tool_result("c", f"part {n}").id for n in range(3)]
    assert ids == ["c:result", "c:result-2", "c:result-3"]
    assert made.ingest_tool_result("c", "part 4", item_id="r4").id == "r4"
    with pytest.raises(ContextError, match="'r4'"):
        made.ingest_tool_result("unknown", "part 5", item_id="r4")
    assert len(made) == 5


def test_a_handle_that_is_none_says_so() -> None:
    with pytest.raises(ContextError, match="nothing behind"):
        manager().view("0" * 24)
    made = manager(item("c", "tool_call", "x"))
    handle = made.ingest_tool_result("c", LOG).artifacts[0].handle
    with pytest.raises(GatewayError, match="VIEW_FAILED"):
        made.view(handle, {"type": "nonsense"})


def test_without_a_map_packs_are_counted_in_cl100k_and_have_no_ids(count: Callable[[str], int]) -> None:
    pack = manager(*random_session(random.Random(2), 9)).build_sync(Phase.answer, "bank transfer", 700)
    assert pack.ids is None
    assert pack.tokens == count(pack.prompt) <= 700


def test_with_a_map_packs_have_its_ids(qwen: Encoder) -> None:
    made = manager(*random_session(random.Random(2), 9), map="qwen2")
    pack = made.build_sync(Phase.answer, "bank transfer", 700)
    assert list(pack.ids or ()) == qwen.encode(pack.prompt)
    assert pack.map_id == qwen.map.digest
    assert made.count(pack.prompt) == pack.tokens <= 700


def test_what_was_tokenized_is_not_tokenized_again() -> None:
    made = manager(*random_session(random.Random(2), 9), map="qwen2")
    first = made.build_sync(Phase.answer, "bank transfer", 700)
    again = made.build_sync(Phase.answer, "bank transfer", 700)
    assert again.prompt == first.prompt
    assert first.tokenized.new >= first.tokens * 0.9
    assert again.tokenized.new == 0


def test_leaves_of_ones_own_are_not_tokenized(qwen: Encoder) -> None:
    session = [with_leaf(each, qwen) for each in random_session(random.Random(2), 9)]
    own = manager(*session, map="qwen2", check="decode").build_sync(Phase.answer, "bank", 700)
    strange = manager(*session, map="qwen2").build_sync(Phase.answer, "bank", 700)
    assert own.ids == strange.ids
    assert own.tokenized.checked == 0
    assert strange.tokenized.checked > own.tokens // 2
    assert own.tokenized.new == strange.tokenized.new < own.tokens * 0.1


@pytest.mark.anyio
async def test_build_is_the_same_off_the_loop() -> None:
    made = manager(*random_session(random.Random(2), 9))
    assert (await made.build(Phase.route, "bank", 500)).items == made.build_sync(Phase.route, "bank", 500).items


def test_the_query_decides_what_is_taken() -> None:
    facts = [item(f"d{n}", "doc_snippet", f"Paragraph {n} about {about}. " + "More of it. " * 30)
             for n, about in enumerate(("roses", "zeppelins", "cheese", "glaciers") * 5)]  # fmt: skip
    made = manager(*facts)
    for query, number in (("how are glaciers made", 3), ("the best cheese", 2)):
        taken = Counter(int(each.item.id[1:]) % 4 for each in made.build_sync(Phase.answer, query, 700).taken)
        assert taken.most_common(1)[0][0] == number


def test_errors_are_typed() -> None:
    made = manager(item("p", "policy", "rule " * 900))
    with pytest.raises(BudgetError):
        made.build_sync(Phase.answer, "", 100)
    for budget in (0, -1, 10.5, "4000"):
        with pytest.raises(ContextError, match="1 or more"):
            made.build_sync(Phase.answer, "", budget)  # type: ignore[arg-type]
    with pytest.raises(ContextError, match="a text"):
        made.build_sync(Phase.answer, None)  # type: ignore[arg-type]
    with pytest.raises(ContextError, match="canonical"):
        ContextManager(check="sometimes")  # type: ignore[arg-type]
    with pytest.raises(ContextError, match="not a ContextItem"):
        made.ingest("text")  # type: ignore[arg-type]
    with pytest.raises(ContextError, match="an ItemKind and a text"):
        made.ingest(ContextItem("x", "user_turn", "text"))  # type: ignore[arg-type]
    with pytest.raises(ContextError, match="an ItemKind and a text"):
        made.ingest(ContextItem("x", ItemKind.user_turn, None))  # type: ignore[arg-type]
    with pytest.raises(ContextError, match="phase"):
        made.build_sync("sing")  # type: ignore[arg-type]
    with pytest.raises(MapUnreachableError):
        ContextManager(map="no-such-map")
    assert issubclass(BudgetError, LeafgateError)


def test_a_phase_may_be_written_as_a_word() -> None:
    assert manager().build_sync("route").phase is Phase.route  # type: ignore[arg-type]


def test_managers_may_share_their_artifacts() -> None:
    store = SessionArtifacts()
    one, other = manager(artifacts=store, owner="one"), manager(artifacts=store, owner="other")
    handle = one.ingest_tool_result("c", LOG).artifacts[0].handle
    assert one.view(handle)
    with pytest.raises(ContextError):
        other.view(handle)


@pytest.mark.anyio
async def test_a_gateway_may_share_them_too() -> None:
    made = manager(owner="local")
    handle = made.ingest_tool_result("c", LOG).artifacts[0].handle
    runtime = ProxyRuntime(StubUpstream([]), artifacts=made.artifacts)
    assert "ERROR the end is near" in (await runtime.view(handle, {"type": "tail"})).text


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL))
def test_the_documents_example_runs(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(block, {})
    assert "INV-777" in capsys.readouterr().out


@pytest.mark.parametrize("seed", range(6))
def test_random_sessions_keep_budget_and_closure(seed: int) -> None:
    chance = random.Random(seed)
    made = manager(*random_session(chance, 25))
    for budget in (200, 900, 4000):
        for phase in Phase:
            pack = made.build_sync(phase, "which transfer was stopped?", budget)
            assert pack.tokens == made.count(pack.prompt) <= budget
            assert broken_closures(pack) == []


BUILD = """
import random, sys
sys.path[:0] = sys.argv[1:]
from test_context import LOG, ContextManager, Phase, random_session
made = ContextManager(map="toy")
for each in random_session(random.Random(4), 30):
    made.ingest(each)
made.ingest_tool_result("c0.0", LOG, "log")
for phase in Phase:
    print(made.build_sync(phase, "stopped transfers and the office", 3000).as_json())
"""


def test_the_same_session_gives_the_same_bytes_in_every_process() -> None:
    told = set()
    for seed in ("0", "1", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", BUILD, str(Path(__file__).parent), str(Path(__file__).parents[1])],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        )
        assert len(done.stdout) > 10_000
        told.add(hashlib.sha256(done.stdout).hexdigest())
    assert len(told) == 1


GOOD = '{"id": "u%d", "type": "user_turn", "text": "hi"}'


def file_of(folder: Path, *lines: str | bytes) -> Path:
    path = folder / "session.jsonl"
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    return path


def test_items_in_order_as_often_as_one_likes(tmp_path: Path) -> None:
    items = load_mcp_session_jsonl(str(file_of(tmp_path, GOOD % 1, "", GOOD % 2, GOOD % 3)))
    assert [item.id for item in items] == [item.id for item in items] == ["u1", "u2", "u3"]
    assert len(items) == 3
    assert (items[0].id, items[-1].id, [item.id for item in items[1:]]) == ("u1", "u3", ["u2", "u3"])
    with pytest.raises(IndexError):
        items[3]


def test_a_bad_line_is_an_error_with_file_line_and_reason(tmp_path: Path) -> None:
    path = file_of(tmp_path, GOOD % 1, "", '{"id": "x"}', GOOD % 2)
    seen = []
    with pytest.raises(SessionLineError) as raised:
        seen.extend(item.id for item in load_mcp_session_jsonl(path))
    assert (raised.value.file, raised.value.line) == (str(path), 3)
    assert raised.value.reason in str(raised.value)
    assert str(path) in str(raised.value)


def test_bad_lines_can_be_skipped_and_are_collected(tmp_path: Path) -> None:
    path = file_of(tmp_path, "nonsense", GOOD % 1, b"\xff", '{"id": "x", "type": "y"}', GOOD % 2)
    items = load_mcp_session_jsonl(path, on_error="skip")
    assert items.bad_lines == ()
    assert [item.id for item in items] == ["u1", "u2"]
    assert [(bad.file, bad.line) for bad in items.bad_lines] == [(str(path), 1), (str(path), 3), (str(path), 4)]
    assert items.bad_lines[1] == BadLine(str(path), 3, "not UTF-8 at byte 0")


def test_files_of_other_systems(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join((GOOD % 1, "", GOOD % 2, "")).encode())
    assert [item.id for item in load_mcp_session_jsonl(path)] == ["u1", "u2"]
    path.write_bytes(b"\n\xef\xbb\xbf" + (GOOD % 1).encode())
    with pytest.raises(SessionLineError, match="line 2: not JSON"):
        list(load_mcp_session_jsonl(path))


def test_a_file_that_was_cut_off_says_where(tmp_path: Path) -> None:
    items = load_mcp_session_jsonl(file_of(tmp_path, GOOD % 1, (GOOD % 2)[:20]), on_error="skip")
    assert [item.id for item in items] == ["u1"]
    assert [bad.line for bad in items.bad_lines] == [2]


def test_what_is_appended_while_reading_is_read(tmp_path: Path) -> None:
    path = file_of(tmp_path, GOOD % 1, "")
    reading = iter(load_mcp_session_jsonl(path))
    assert next(reading).id == "u1"
    with path.open("a") as file:
        file.write(GOOD % 2 + "\n")
    assert [item.id for item in reading] == ["u2"]


def test_the_line_of_an_item_is_known_while_it_is_at_hand(tmp_path: Path) -> None:
    items = load_mcp_session_jsonl(file_of(tmp_path, "", GOOD % 1, "nonsense", "", GOOD % 2), on_error="skip")
    assert [(items.line, item.id) for item in items] == [(2, "u1"), (5, "u2")]


def test_an_endless_line_is_one_bad_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_lines, "LONGEST_LINE", 100)
    monkeypatch.setattr("leafgate.embed.context.LONGEST_LINE", 100)
    path = file_of(tmp_path, GOOD % 1, "x" * 100, "x" * 101, "x" * 5000, GOOD % 2)
    items = load_mcp_session_jsonl(path, on_error="skip")
    assert [item.id for item in items] == ["u1", "u2"]
    assert [(bad.line, bad.reason.partition(":")[0][:11]) for bad in items.bad_lines] == [
        (2, "not JSON"),
        (3, "longer than"),
        (4, "longer than"),
    ]


@pytest.mark.parametrize("path", ["nowhere.jsonl", "."])
def test_what_is_no_file_is_told_at_once(path: str) -> None:
    with pytest.raises(ContextError, match="not a file"):
        load_mcp_session_jsonl(path)


def test_other_ways_to_meet_errors_are_refused(tmp_path: Path) -> None:
    wrong: Any = "ignore"
    with pytest.raises(ContextError, match="'raise' or 'skip'"):
        load_mcp_session_jsonl(file_of(tmp_path), on_error=wrong)


def test_a_file_that_goes_away_is_an_error(tmp_path: Path) -> None:
    path = file_of(tmp_path, GOOD % 1)
    items = load_mcp_session_jsonl(path)
    path.unlink()
    with pytest.raises(ContextError, match="cannot be read"):
        list(items)


def test_the_first_items_come_before_the_last_are_read(tmp_path: Path) -> None:
    path = file_of(tmp_path, *(GOOD % n for n in range(10_000)), "nonsense")
    assert [item.id for item in islice(load_mcp_session_jsonl(path), 3)] == ["u0", "u1", "u2"]


STREAM = """
import resource, sys
from leafgate.embed.context import load_mcp_session_jsonl
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
seen = sum(1 for _ in load_mcp_session_jsonl(sys.argv[1]))
print(seen, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    line = json.dumps({"id": "r", "type": "tool_result", "text": "word " * 20_000}) + "\n"
    with path.open("w") as file:
        file.writelines(line for _ in range(1000))
    done = subprocess.run([sys.executable, "-c", STREAM, str(path)], capture_output=True, text=True, check=True)
    seen, grown = map(int, done.stdout.split())
    assert seen == 1000
    assert path.stat().st_size > 90 << 20
    assert grown < 20 << 10  # kilobytes
