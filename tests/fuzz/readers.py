"""Every reader of foreign input, for fuzzing: what it is fed with, and the errors it may answer with."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from starlette.datastructures import Headers
from texts import as_json, changed, changed_texts, id_lists, json_values, objects_with, scalars, texts

from leafgate import ContextError, load_mcp_session_jsonl
from leafgate.browse.navigate import list_path
from leafgate.catalog.intake import intake
from leafgate.catalog.tree import build_tree
from leafgate.clean.cleaner import Cleaner
from leafgate.codec.compression import CompressionError, choose_encoding, compress, decompress
from leafgate.codec.frames import (
    EventError,
    EventReader,
    FrameError,
    FrameReader,
    json_from_packed,
    pack_frame,
    packed_from_json,
)
from leafgate.codec.leaf import strip_everywhere, take_ids
from leafgate.codec.negotiate import ACCEPT_META_KEY, ARGUMENTS_KEY, decode_arguments, negotiate, read_argument_ids
from leafgate.config.document import document_of
from leafgate.config.formats import toml_lines
from leafgate.config.load import config_of
from leafgate.digest.views import show
from leafgate.maps.files import MapFiles
from leafgate.model.envelope import Artifact, Origin
from leafgate.model.errors import CatalogError, ConfigError, GatewayError, MapError
from leafgate.model.leaf import CODEC_META_KEY
from leafgate.model.tool import format_tool_id, parse_tool_id, tool_id_for
from leafgate.server.frames import FrameRefusal, body_encoding, read_wish
from leafgate.tokens.encoder import make_encoder
from leafgate.tokens.token_map import read_map
from leafgate.tokens.verify import check

ROOT = Path(__file__).resolve().parents[2]
TOY = MapFiles().load("toy")
TOY_FILE = (ROOT / "maps" / "toy.json").read_bytes()
CLEANER = Cleaner()
BUDGET = 300
UNPACKED = 1 << 20


@dataclass(frozen=True)
class Reader:
    """It may refuse with these errors; anything else that it raises is a find, and so is a wrong answer."""

    name: str
    inputs: st.SearchStrategy[Any]
    read: Callable[[Any], None]
    refusals: tuple[type[Exception], ...] = ()


# tool ids and paths

_NAMES = ("create_issue", "list_issues", "x" * 200)
_TREE = build_tree(intake([{"name": name, "inputSchema": {"type": "object"}} for name in _NAMES], server="github")[0])


def _read_tool_id(text: str) -> None:
    assert format_tool_id(parse_tool_id(text)) == text


def _make_tool_id(given: tuple[str, Any, str | None]) -> None:
    name, schema, server = given
    parse_tool_id(tool_id_for(name, schema, server=server))


def _read_path(path: Any) -> None:
    assert list_path(_TREE, path)


def _take_definitions(given: Any) -> None:
    items, report = intake(given, resources=given, prompts=given, server="s", clean=CLEANER)
    assert [item.id for item in items] == list(report.taken)
    assert len(set(report.taken)) == len(items)


# views

_ROWS = [{"id": n, "name": f"row {n}", "tags": ["a", {"deep": n}]} for n in range(300)]
_ARTIFACTS = tuple(
    Artifact(content, media_type, "s:t", Origin("s", "t"), is_text)
    for content, media_type, is_text in (
        (b"line one\nline two\n" * 400, "text/plain", True),
        (as_json(_ROWS), "application/json", True),
        (b"id,name\n" + b"".join(b"%d,n%d\n" % (n, n) for n in range(400)), "text/csv", True),
        (bytes(range(256)) * 40, "image/png", False),
        (b"\xff\xfe broken " * 90, "text/plain", True),
    )
)
_SELECTOR_WORDS = [
    "type",
    "start",
    "end",
    "lines",
    "head",
    "tail",
    "path",
    "json",
    "rows",
    "where",
    "columns",
    "search",
    "regex",
    "pattern",
    "bytes",
    "offset",
    "length",
    "limit",
    "stats",
    "op",
    "value",
    "column",
    "context",
]
_selector_values = st.one_of(
    json_values,
    st.sampled_from(
        ("head", "tail", "lines", "json", "rows", "search", "bytes", "stats", "(a+)+$", "[", "/0/tags/1", "~2")
    ),
    st.integers(-5, 500),
    st.lists(st.integers(-2, 400), max_size=3),
    objects_with(("column", "op", "value")),
)


def _count(text: str) -> int:
    return len(TOY.encode(text))


def _read_view(given: tuple[Any, int]) -> None:
    sent, which = given
    page = show(sent, _ARTIFACTS[which], CLEANER, _count, BUDGET)
    assert _count(page.text) <= BUDGET


# the codec's bytes

_MESSAGES: tuple[Mapping[str, Any], ...] = (
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "tool_browse", "arguments": {"query": "q"}}},
    {
        "jsonrpc": "2.0",
        "id": "a",
        "result": {"content": [{"type": "text", "text": "t"}], "x": [1.5, None, True, -(2**40)]},
    },
)


def _read_frames(data: bytes) -> None:
    whole, cut = FrameReader(UNPACKED), FrameReader(UNPACKED)
    at_once = list(whole.feed(data))
    piecewise = [message for at in range(0, len(data), 7) for message in cut.feed(data[at : at + 7])]
    assert at_once == piecewise
    whole.end()


def _translate(raw: bytes) -> None:
    packed = packed_from_json(raw)
    again = json_from_packed(packed)
    assert packed_from_json(again) == packed


def _read_events(data: bytes) -> None:
    whole, cut = EventReader(UNPACKED), EventReader(UNPACKED)
    assert list(whole.feed(data)) == [event for at in range(0, len(data), 5) for event in cut.feed(data[at : at + 5])]


def _unpack(given: tuple[bytes, Any]) -> None:
    data, encoding = given
    assert len(decompress(data, encoding, UNPACKED)) <= UNPACKED


# leaves, ids and maps


def _read_leaf(result: Any) -> None:
    if isinstance(result, Mapping):
        take_ids(result)
    assert CODEC_META_KEY not in json.dumps(strip_everywhere(result))


def _judge_ids(given: tuple[str, list[Any], Any]) -> None:
    text, ids, level = given
    verdict = check(TOY, text, ids, level=level, map_id=TOY.map.digest)
    if verdict.reason is None and level != "trust":
        assert TOY.decode_bytes(ids).decode() == text


def _read_arguments(args: Mapping[str, Any]) -> None:
    claimed = read_argument_ids(args)
    if claimed is not None:
        assert isinstance(decode_arguments(claimed, TOY), dict)


def _read_map(raw: bytes) -> None:
    encoder = make_encoder(read_map(raw, where="here"))
    text = "hello, world 42"
    assert encoder.decode_bytes(encoder.encode(text)) == text.encode()


# headers


def _negotiate(given: tuple[Any, str | None]) -> None:
    meta, header = given
    digest, form = negotiate(meta, header, None, [TOY.map.digest])
    assert digest in (None, TOY.map.digest)
    assert form in ("both", "ids", "text")


def _read_headers(given: tuple[list[tuple[str, str]], bytes]) -> None:
    pairs, query = given
    headers = [(name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in pairs]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "query_string": query, "headers": headers}
    read_wish(scope)
    body_encoding(Headers(scope=scope))
    choose_encoding(pairs[0][1] if pairs else "")


# configuration and sessions

_YAML = """mcpServers:
  files: {command: npx, args: [-y, server], env: {A: "${env:HOME}"}}
  web: {url: "http://127.0.0.1:1/mcp", headers: {Authorization: "Bearer ${input:key}"}}
port: 8808
budget: 900
auth: {tokens: [{name: ada, hash: "sha256:00"}]}
quotas: {calls_per_minute: 5}
"""
_TOML = """port = 8808
budget = 900
[mcpServers.files]
command = "npx"
args = ["-y", "server"]
[mcpServers.files.env]
"A B" = '''x'''
[[inputs]]
id = "key"
"""
_JSON = """{ // a comment
  "mcpServers": {"files": {"command": "npx", "args": ["-y"], "timeout": 5000}}, /* and another */
  "servers": {}, "port": 1e3,
}"""


def _read_config(given: tuple[Any, str]) -> None:
    kind, text = given
    text = text.encode("utf-8", "replace").decode()  # a file is read as UTF-8
    config_of(document_of(Path("given"), kind, text), {"HOME": "home", "key": "k"})


def _read_toml_lines(text: str) -> None:
    toml_lines(text)


_SESSION = b"\n".join(
    as_json(event)
    for event in (
        {"id": "u1", "type": "user_turn", "text": "hello"},
        {"id": "c1", "type": "tool_call", "text": "t()", "parent_id": "u1", "metadata": {"tool": "t"}},
        {"id": "r1", "type": "tool_result", "content": [{"type": "text", "text": "r"}], "parent_id": "c1"},
    )
)
_RECORDED = b"\n".join(
    as_json({"at": 1.5, "session": "s", "from": sender, "message": message})
    for sender, message in zip(("client", "gateway"), _MESSAGES, strict=True)
)


def _read_session(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(data)
        file.flush()
        skipping = load_mcp_session_jsonl(file.name, on_error="skip")
        assert all(item.id for item in skipping)
        list(load_mcp_session_jsonl(file.name))


READERS: tuple[Reader, ...] = (
    Reader("tool id", changed_texts("github:create_issue@1.2#0123abcd", "a:b"), _read_tool_id, (CatalogError,)),
    Reader("tool name", st.tuples(texts, json_values, st.none() | texts), _make_tool_id, (CatalogError,)),
    Reader("path", changed_texts("/github/issues/*", "/github", "/") | json_values, _read_path, (GatewayError,)),
    Reader(
        "definition",
        st.lists(
            objects_with(("name", "title", "description", "inputSchema", "annotations", "uri", "_meta", "arguments")),
            max_size=3,
        )
        | json_values,
        _take_definitions,
    ),
    Reader(
        "selector",
        st.tuples(objects_with(_SELECTOR_WORDS, _selector_values) | json_values, st.integers(0, len(_ARTIFACTS) - 1)),
        _read_view,
        (GatewayError,),
    ),
    Reader(
        "frames",
        changed(*map(pack_frame, _MESSAGES), b"".join(map(pack_frame, _MESSAGES))),
        _read_frames,
        (FrameError,),
    ),
    Reader("message", changed(*map(as_json, _MESSAGES)), _translate, (FrameError,)),
    Reader(
        "events",
        changed(b"id: 1\r\nevent: message\r\ndata: {}\r\n\r\n: ping\n\ndata: a\ndata: b\n\n"),
        _read_events,
        (EventError,),
    ),
    Reader(
        "compressed",
        st.tuples(
            changed(gzip.compress(b"leaf " * 400), compress(b"gate " * 400, "zstd"), gzip.compress(bytes(1 << 21))),
            st.sampled_from(("gzip", "zstd")),
        ),
        _unpack,
        (CompressionError,),
    ),
    Reader(
        "leaf",
        objects_with(
            ("content", "_meta", CODEC_META_KEY),
            st.lists(
                objects_with(
                    ("type", "text", "_meta", CODEC_META_KEY, "ids", "map_id"),
                    scalars | objects_with((CODEC_META_KEY,), objects_with(("map_id", "ids"), id_lists | scalars)),
                ),
                max_size=4,
            ),
        )
        | json_values,
        _read_leaf,
    ),
    Reader(
        "ids",
        st.tuples(
            texts,
            st.lists(st.integers(-2, 320) | json_values, max_size=12),
            st.sampled_from(("canonical", "decode", "trust")),
        ),
        _judge_ids,
    ),
    Reader(
        "arguments as ids",
        st.fixed_dictionaries(
            {
                ARGUMENTS_KEY: st.fixed_dictionaries(
                    {
                        "map_id": st.sampled_from((TOY.map.digest, TOY.map.digest.upper(), "")),
                        "ids": changed_texts('{"a": [1, {"b": null}]}').map(
                            lambda text: TOY.encode(text.encode("utf-8", "replace").decode())
                        )
                        | st.lists(st.integers(-1, 320), max_size=20)
                        | json_values,
                    }
                )
                | json_values,
            }
        )
        | objects_with((ARGUMENTS_KEY,)),
        _read_arguments,
        (GatewayError,),
    ),
    Reader("map", changed(TOY_FILE), _read_map, (MapError,)),
    Reader(
        "accept",
        st.tuples(
            st.none()
            | objects_with(
                (ACCEPT_META_KEY,),
                objects_with(("map_id", "form"), st.sampled_from((TOY.map.digest, "ids")) | json_values) | json_values,
            ),
            st.none() | changed_texts(TOY.map.digest, f"https://a/b;sha256={TOY.map.digest[7:]}"),
        ),
        _negotiate,
        (GatewayError,),
    ),
    Reader(
        "headers",
        st.tuples(
            st.lists(
                st.tuples(
                    st.sampled_from(("accept", "accept-encoding", "content-type", "content-encoding", "x-codec-map")),
                    changed_texts(
                        "application/x-codec-msgpack;q=0.5, */*;q=0",
                        "gzip;q=1.0, zstd, identity;q=0",
                        "application/json",
                    ),
                ),
                max_size=4,
            ),
            changed(b"stream_format=msgpack", b"stream_format=json&stream_format=x", b"%ff=%00"),
        ),
        _read_headers,
        (FrameRefusal,),
    ),
    Reader(
        "configuration",
        st.one_of(
            st.tuples(st.just("yaml"), changed_texts(_YAML)),
            st.tuples(st.just("toml"), changed_texts(_TOML)),
            st.tuples(st.just("json"), changed_texts(_JSON)),
            st.tuples(
                st.just("json"),
                objects_with(("mcpServers", "port", "auth", "quotas", "principals", "maps", "redact")).map(json.dumps),
            ),
        ),
        _read_config,
        (ConfigError,),
    ),
    Reader("toml lines", changed_texts(_TOML), _read_toml_lines),
    Reader("session", changed(_SESSION, _RECORDED), _read_session, (ContextError,)),
)
