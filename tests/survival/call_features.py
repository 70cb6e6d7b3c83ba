"""Checks of connections, calls and their results: content, structure, errors, metadata, what happens meanwhile."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import anyio
from connections import (
    EVENT_SECONDS,
    NAME,
    ROOT,
    Connection,
    text_of,
    to_wire,
    wait_until,
)
from features import (
    BOTH,
    LEGACY,
    MODERN,
    Changed,
    Feature,
    Lost,
    expect,
    expect_fields,
    expect_success,
    registrar,
    shorten,
)
from mcp import MCPError
from mcp.types import (
    INVALID_PARAMS,
)
from reference.rich_offers import (
    LARGE_LINES,
)
from reference.rich_tools import (
    LARGE_BLOB,
    LEVELS,
    META_KEY,
    SAMPLING,
    STRUCTURED,
    UNICODE,
    large_text,
)
from reference.samples import PNG, WAV
from reference.server import INSTRUCTIONS

CALL_FEATURES: Final[list[Feature]] = []
feature = registrar(CALL_FEATURES)


# Connection


@feature("connection", "protocol 2026-07-28, without a session", eras=MODERN, transports=("http", "stdio"))
async def stateless(c: Connection) -> None:
    if not c.is_modern:
        raise Lost(f"speaks {c.client.protocol_version} only")


@feature("connection", "server instructions")
async def instructions(c: Connection) -> None:
    if INSTRUCTIONS not in (c.client.instructions or ""):
        raise Lost("the instructions are not there")


@feature("connection", "capabilities of the server")
async def capabilities(c: Connection) -> None:
    declared = to_wire(c.client.server_capabilities)
    missing = {"tools", "resources", "prompts", "completions", "logging"} - declared.keys()
    if missing:
        raise Lost(f"not declared: {', '.join(sorted(missing))}")
    wanted = [("tools", "listChanged"), ("prompts", "listChanged"), ("resources", "listChanged")]
    silent = [f"{kind}.{flag}" for kind, flag in [*wanted, ("resources", "subscribe")] if not declared[kind].get(flag)]
    if silent:
        raise Lost(f"not declared: {', '.join(silent)}")


@feature("connection", "ping", eras=LEGACY)
async def ping(c: Connection) -> None:
    await c.client.send_ping()


@feature("connection", "fifty calls at once, each with its own answer")
async def concurrent_calls(c: Connection) -> None:
    answers: dict[int, str] = {}

    async def one(number: int) -> None:
        answers[number] = await c.text("rich_echo", {"number": number})

    async with anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(one, number)
    wrong = [number for number, answer in answers.items() if answer != json.dumps({"number": number})]
    if wrong:
        raise Changed(f"{len(wrong)} of 50 answers are not those of their calls")


# Results


def content_check(name: str, tool: str, *expected: dict[str, Any]) -> None:
    """Register a check that a tool's content is exactly this."""

    @feature("results", name)
    async def check(c: Connection) -> None:
        result = expect_success(await c.call(tool))
        blocks = [{key: value for key, value in to_wire(block).items() if key != "_meta"} for block in result.content]
        expect("content", blocks, [*expected])


content_check("text", "test_simple_text", {"type": "text", "text": "This is a simple text response for testing."})
content_check("image", "test_image_content", {"type": "image", "data": PNG, "mimeType": "image/png"})
content_check("audio", "test_audio_content", {"type": "audio", "data": WAV, "mimeType": "audio/wav"})
content_check(
    "resource link",
    "rich_resource_link",
    {
        "type": "resource_link",
        "uri": "test://static-text",
        "name": "static-text",
        "title": "A link",
        "description": "A fixed text.",
        "mimeType": "text/plain",
        "size": 48,
        "annotations": {"audience": ["user"], "priority": 0.5},
    },
)
content_check(
    "embedded resource of bytes",
    "rich_embedded_blob",
    {"type": "resource", "resource": {"uri": "test://embedded-blob", "mimeType": "image/png", "blob": PNG}},
)
content_check("no content", "rich_empty")


@feature("results", "embedded resource of text")
async def embedded_text(c: Connection) -> None:
    result = expect_success(await c.call("rich_embedded_text"))
    expect("blocks", [block.type for block in result.content], ["resource"])
    block = to_wire(result.content[0])
    expect_fields("resource", block["resource"], {"uri": "test://embedded-text", "mimeType": "text/markdown"}, "uri")
    expect("text", block["resource"].get("text"), f"# {UNICODE}")
    expect("annotations", block.get("annotations"), {"priority": 0.1})


@feature("results", "several blocks in order")
async def mixed(c: Connection) -> None:
    result = expect_success(await c.call("test_multiple_content_types"))
    expect("blocks", [block.type for block in result.content], ["text", "image", "resource"])


@feature("results", "annotations of a block")
async def annotations(c: Connection) -> None:
    result = expect_success(await c.call("rich_annotated"))
    expected = {"audience": ["user"], "priority": 0.9, "lastModified": "2026-01-02T03:04:05Z"}
    expect("annotations", to_wire(result.content[0]).get("annotations"), expected)


# Structured content


def structured_check(kind: str) -> None:
    schema, value = STRUCTURED[kind]

    @feature("structured content", kind, eras=BOTH if kind == "object" else MODERN)
    async def check(c: Connection) -> None:
        result = expect_success(await c.call(f"rich_structured_{kind}"))
        if "structured_content" not in result.model_fields_set:
            raise Lost("structured content: nothing")
        expect("structured content", result.structured_content, value)

    @feature("structured content", f"output schema: {kind}", eras=BOTH if kind == "object" else MODERN)
    async def check_schema(c: Connection) -> None:
        expect("output schema", (await c.definition(f"rich_structured_{kind}")).get("outputSchema"), schema)


for each in STRUCTURED:
    structured_check(each)


# Errors


@feature("errors", "a result that is an error")
async def is_error(c: Connection) -> None:
    result = await c.call("test_error_handling")
    if not result.is_error:
        raise Lost("the result is not an error")
    expect("text", text_of(result), "This tool intentionally returns an error for testing")


async def protocol_error(c: Connection, code: int) -> MCPError:
    try:
        result = await c.call("rich_protocol_error", {"code": code})
    except MCPError as error:
        return error
    raise Changed(f"a result instead of a protocol error: {shorten(text_of(result))}")


@feature("errors", "protocol errors keep their codes")
async def error_codes(c: Connection) -> None:
    for code in (-32602, -32603, -32001, -32099, -31999, 4242):
        expect("code", (await protocol_error(c, code)).code, code)


@feature("errors", "message and data of a protocol error")
async def error_words(c: Connection) -> None:
    error = await protocol_error(c, -32099)
    expect("message", error.message, "The reference server refuses.")
    expect("data", error.data, {"why": "test", "code": -32099})


@feature("errors", "a tool that is not there")
async def unknown_tool(c: Connection) -> None:
    try:
        result = await c.call("no_such_tool")
    except MCPError as error:
        return expect("code", error.code, INVALID_PARAMS)
    raise Changed(f"a result instead of a protocol error: {shorten(text_of(result))}")


@feature("errors", "a resource that is not there")
async def unknown_resource(c: Connection) -> None:
    try:
        await c.client.read_resource("test://nothing")
    except MCPError as error:
        return expect("code", error.code, INVALID_PARAMS if c.is_modern else -32002)
    raise Lost("no error")


@feature("errors", "a prompt that is not there")
async def unknown_prompt(c: Connection) -> None:
    try:
        await c.client.get_prompt("no_such_prompt")
    except MCPError as error:
        return expect("code", error.code, INVALID_PARAMS)
    raise Lost("no error")


@feature("errors", "wrong arguments are refused")
async def wrong_arguments(c: Connection) -> None:
    result = await c.call("rich_large_text", {"lines": "many"})
    if not result.is_error:
        raise Lost("the result is not an error")


# Metadata

REQUEST_META: Final = {META_KEY: {"from": "the client", "list": [1, None, "ä"]}}


@feature("metadata", "`_meta` of a call reaches the server")
async def call_meta(c: Connection) -> None:
    expect("`_meta`", json.loads(await c.text("rich_echo_meta", meta=REQUEST_META)), REQUEST_META)


@feature("metadata", "`_meta` of a read reaches the server")
async def read_meta(c: Connection) -> None:
    (contents,) = (await c.client.read_resource("test://request-meta", meta=REQUEST_META)).contents
    expect("`_meta`", json.loads(contents.text), REQUEST_META)  # type: ignore[union-attr]


@feature("metadata", "`_meta` of a prompt request reaches the server")
async def prompt_meta(c: Connection) -> None:
    (message,) = (await c.client.get_prompt("rich_request_meta", meta=REQUEST_META)).messages
    expect("`_meta`", json.loads(message.content.text), REQUEST_META)  # type: ignore[union-attr]


@feature("metadata", "`_meta` of a result")
async def result_meta(c: Connection) -> None:
    result = expect_success(await c.call("rich_annotated"))
    expect("`_meta`", (result.meta or {}).get(META_KEY), {"on": "the result", "n": 1})


@feature("metadata", "`_meta` of a block")
async def block_meta(c: Connection) -> None:
    result = expect_success(await c.call("rich_annotated"))
    expect("`_meta`", (result.content[0].meta or {}).get(META_KEY), "on the block")


@feature("metadata", "`_meta` of an embedded resource")
async def embedded_meta(c: Connection) -> None:
    block = to_wire(expect_success(await c.call("rich_embedded_text")).content[0])
    expect("`_meta`", (block.get("resource", {}).get("_meta") or {}).get(META_KEY), "on the resource")


@feature("metadata", "`_meta` of what is read, and of its contents")
async def contents_meta(c: Connection) -> None:
    read = await c.client.read_resource("test://rich")
    expect("of the contents", (read.contents[0].meta or {}).get(META_KEY), "on the contents")
    expect("of the result", (read.meta or {}).get(META_KEY), "on the read")


@feature("metadata", "`_meta` of a prompt's result, and of its blocks")
async def prompt_result_meta(c: Connection) -> None:
    got = await c.client.get_prompt("rich_every_kind", {"city": "Oslo"})
    expect("of a block", (got.messages[0].content.meta or {}).get(META_KEY), "on a block")
    expect("of the result", (got.meta or {}).get(META_KEY), "on the result")


# While a call runs


@feature("during a call", "progress with total and messages")
async def progress(c: Connection) -> None:
    seen: list[Any] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        seen.append([done, total, message])

    await c.text("rich_progress", progress_callback=on_progress)
    await wait_until(lambda: len(seen) == 3)
    expect("progress", sorted(seen), [[1.0, 3.0, "first"], [2.0, 3.0, "zweiter: ä"], [3.0, 3.0, "third"]])


@feature("during a call", "cancellation reaches the server")
async def cancellation(c: Connection) -> None:
    async def waits(kind: str) -> int:
        return int(json.loads(await c.text("rich_count_waits"))[kind])

    async def count_reaches(kind: str, number: int) -> bool:
        with anyio.move_on_after(EVENT_SECONDS):
            while await waits(kind) < number:  # noqa: ASYNC110  the count is in another process
                await anyio.sleep(0.02)
            return True
        return False

    started, cancelled = await waits("started"), await waits("cancelled")
    async with anyio.create_task_group() as group:
        group.start_soon(c.call, "rich_wait")
        begun = await count_reaches("started", started + 1)
        group.cancel_scope.cancel()
    if not begun:
        raise Lost("the call did not reach the server")
    if not await count_reaches("cancelled", cancelled + 1):
        raise Lost("the server does not hear of it")


@feature("during a call", "log messages at every level, with logger and data", alone=True)
async def logging(c: Connection) -> None:
    if not c.is_modern:
        await c.client.set_logging_level("debug")
    seen = await _logged(c, "all", len(LEVELS))
    expect("levels", [line["level"] for line in seen], [*LEVELS])
    expect("logger", seen[0].get("logger"), "rich.logger")
    expect("data", seen[0].get("data"), {"mark": "all", "at": "debug", "list": [1, "ä"]})


@feature("during a call", "only log messages of the level that was asked for", alone=True)
async def log_level(c: Connection) -> None:
    severe = [*LEVELS][LEVELS.index("error") :]
    if c.is_modern:
        seen = await _logged(c, "severe", len(severe), meta={"io.modelcontextprotocol/logLevel": "error"})
    else:
        await c.client.set_logging_level("error")
        seen = await _logged(c, "severe", len(severe))
        await c.client.set_logging_level("debug")
    expect("levels", [line["level"] for line in seen], severe)


async def _logged(c: Connection, mark: str, count: int, **options: Any) -> list[dict[str, Any]]:
    """The messages of one call, sorted by level: they are dispatched concurrently."""

    def seen() -> list[dict[str, Any]]:
        lines = [to_wire(line) for line in c.record.logs]
        return [line for line in lines if isinstance(line["data"], dict) and line["data"].get("mark") == mark]

    await c.text("rich_log", {"mark": mark}, **options)
    await wait_until(lambda: len(seen()) >= count)
    await anyio.sleep(0.1)  # one too many would come with the others
    return sorted(seen(), key=lambda line: LEVELS.index(line["level"]))


@feature("during a call", "elicitation by form: question, schema and answer")
async def elicitation(c: Connection) -> None:
    message = f"Who are you? {c.transport}"
    answer = await c.text("test_elicitation", {"message": message})
    asked = [to_wire(params) for params in c.record.elicitations if getattr(params, "message", "") == message]
    if not asked:
        raise Lost(f"the client is not asked: {shorten(answer)}")
    expect("fields", [*asked[0]["requestedSchema"]["properties"]], ["username", "email"])
    expected = f"User response: action=accept, content={json.dumps({'username': NAME, 'email': NAME})}"
    expect("answer", answer, expected)


@feature("during a call", "elicitation with defaults and choices")
async def elicitation_schemas(c: Connection) -> None:
    await c.text("test_elicitation_sep1330_enums")
    asked = [to_wire(params) for params in c.record.elicitations if getattr(params, "message", "") == "Please choose"]
    if not asked:
        raise Lost("the client is not asked")
    fields = asked[0]["requestedSchema"]["properties"]
    expect("titled choices", fields["titledMulti"]["items"]["anyOf"][0], {"const": "value1", "title": "First Choice"})
    expect("names of an enum", fields["legacyEnum"].get("enumNames"), ["Option One", "Option Two", "Option Three"])
    await c.text("test_elicitation_sep1034_defaults")
    asked = [to_wire(params) for params in c.record.elicitations if "review" in getattr(params, "message", "")]
    expect("default", asked[0]["requestedSchema"]["properties"]["score"].get("default"), 95.5)


@feature("during a call", "elicitation that the user declines or cancels", alone=True)
async def declined(c: Connection) -> None:
    for action in ("decline", "cancel"):
        c.record.elicit_action = action  # type: ignore[assignment]
        try:
            answer = await c.text("test_elicitation", {"message": f"Will you {action}?"})
        finally:
            c.record.elicit_action = "accept"
        expect("answer", answer.partition(",")[0], f"User response: action={action}")


@feature("during a call", "elicitation by URL")
async def elicitation_url(c: Connection) -> None:
    expect("answer", await c.text("rich_elicit_url"), "The user answered: accept")
    asked = [to_wire(params) for params in c.record.elicitations if getattr(params, "mode", "") == "url"]
    expected = {"message": "Please sign in.", "url": "https://example.test/sign-in?id=7"}
    expect_fields("question", asked[0] if asked else {}, expected, "message", "url")
    if not c.is_modern and not asked[0].get("elicitationId"):  # ids are of the handshake era
        raise Lost("elicitationId: nothing")


@feature("during a call", "sampling with every parameter")
async def sampling(c: Connection) -> None:
    expect("answer", await c.text("rich_sampling"), "assistant model-1 endTurn: Sampled ä")
    asked = [to_wire(params) for params in c.record.samplings if params.system_prompt]
    if not asked:
        raise Lost("the client is not asked")
    asked[0].pop("_meta", None)
    expected = to_wire(SAMPLING)
    expect_fields("request", asked[0], expected, *expected)


@feature("during a call", "roots")
async def roots(c: Connection) -> None:
    expect("answer", await c.text("test_input_required_result_list_roots"), f"Roots: {ROOT}")


@feature("during a call", "questions in two rounds")
async def two_rounds(c: Connection) -> None:
    expect("answer", await c.text("test_input_required_result_multi_round"), f"{NAME} likes {NAME}.")


@feature("during a call", "three questions at once")
async def three_questions(c: Connection) -> None:
    answer = await c.text("test_input_required_result_multiple_inputs")
    expect("answer", answer, f"Sampled ä {NAME}, with roots {ROOT}")


@feature("during a call", "a question while a prompt is rendered")
async def prompt_question(c: Connection) -> None:
    got = await c.client.get_prompt("test_input_required_result_prompt")
    expect("text", getattr(got.messages[0].content, "text", None), f"Use this context: {NAME}")


# Large results


@feature("large results", "1 MB of text")
async def large(c: Connection) -> None:
    expected = large_text(LARGE_LINES).encode()
    _expect_bytes(await c.whole(expect_success(await c.call("rich_large_text", {"lines": LARGE_LINES}))), expected)


@feature("large results", "5,000 structured rows")
async def large_structured(c: Connection) -> None:
    result = expect_success(await c.call("rich_large_structured", {"lines": 5_000}))
    rows = [{"id": number, "text": f"row {number} of the table"} for number in range(5_000)]
    value = {"rows": rows, "total": len(rows)}
    if result.structured_content == value:
        return
    if not any(_json_or_none(text) == value for text in await c.whole(result)):
        raise Lost("neither in the result nor behind a handle")


@feature("large results", "300 KB of bytes")
async def large_blob(c: Connection) -> None:
    result = expect_success(await c.call("rich_large_blob"))
    blobs = [block.resource.blob for block in result.content if block.type == "resource"]  # type: ignore[union-attr]
    if blobs != [LARGE_BLOB]:
        _expect_bytes(await c.whole(result), base64.b64decode(LARGE_BLOB))


@feature("large results", "a resource of 1 MB")
async def large_resource(c: Connection) -> None:
    (contents,) = (await c.client.read_resource("test://large")).contents
    _expect_bytes([contents.text.encode()], large_text(LARGE_LINES).encode())  # type: ignore[union-attr]


def _expect_bytes(seen: list[bytes], expected: bytes) -> None:
    if expected not in seen:
        raise Lost(f"{max(map(len, seen), default=0)} of {len(expected)} bytes can be read")


def _json_or_none(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


# Unicode

NASTY: Final = {
    "emoji": "👩‍👩‍👧‍👦 👍🏽 🏳️‍🌈 🇳🇴 🏴󠁧󠁢󠁳󠁣󠁴󠁿",
    "combining": "e\u0301 a\u0308\u0323 Z\u0351\u036b",
    "right-to-left": "שלום עולם مرحبا بالعالم",
    "scripts": "漢字 かな 한국어 ไทย हिन्दी ქართული ᚠᚢᚦ 𝄞 𐍈",
    "quotes": "\"double\" 'single' \\backslash\\ </script> &amp; %41 \u2028 \u2029",
    "ключ": "a key that is not ASCII",
}


@feature("unicode", "text in many scripts")
async def unicode(c: Connection) -> None:
    expect("text", await c.text("rich_unicode"), UNICODE)


@feature("unicode", "arguments and their echo: emoji, combining marks, right-to-left")
async def unicode_arguments(c: Connection) -> None:
    answer = json.loads(await c.text("rich_echo", NASTY))
    for key, text in NASTY.items():
        expect(key, answer.get(key), text)


@feature("unicode", "an answer with half of a surrogate pair arrives")
async def surrogate(c: Connection) -> None:
    texts: list[str] = []

    async def call() -> None:
        texts.append(await c.text("rich_surrogate"))

    def is_refused() -> bool:  # the client refuses the message, and reports it as an exception; no answer ever comes
        return any(isinstance(message, Exception) for message in c.record.notifications)

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await wait_until(lambda: texts or is_refused())
        group.cancel_scope.cancel()
    expect("text", "".join(texts), "before \N{REPLACEMENT CHARACTER} after")
