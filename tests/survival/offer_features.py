"""Checks of what servers offer: tools, resources, prompts, their changes; cache hints, tasks and extensions."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio
from connections import (
    APP_TYPE,
    APPS,
    EVENT_SECONDS,
    NAME,
    TASKS,
    AnyParams,
    AnyResult,
    Connection,
    TaskStarted,
    ask_task,
    list_all,
    text_of,
    to_wire,
    wait_until,
)
from features import (
    MODERN,
    Changed,
    Feature,
    Lost,
    expect,
    expect_fields,
    registrar,
    shorten,
)
from mcp.types import (
    PromptReference,
    Request,
    ResourceTemplateReference,
)
from reference.asking_tools import ASKING_TOOLS
from reference.plain_tools import PLAIN_TOOLS
from reference.prompts import PROMPTS
from reference.resources import RESOURCES, TEMPLATES, WATCHED
from reference.rich_offers import (
    APP_HTML,
    EVERY_KIND,
    RICH_PROMPTS,
    RICH_RESOURCES,
    RICH_TEMPLATES,
    SKILL_URI,
    SKILLS,
    VENDOR,
    VENDOR_METHOD,
)
from reference.rich_tools import (
    APP_PAGE,
    META_KEY,
    ODD_NAMES,
    RICH_TOOLS,
    UNICODE,
)
from reference.samples import PNG
from reference.tasks import TASK_TOOLS

ALL_TOOLS: Final = (*PLAIN_TOOLS, *ASKING_TOOLS, *TASK_TOOLS, *RICH_TOOLS)
OFFER_FEATURES: Final[list[Feature]] = []
feature = registrar(OFFER_FEATURES)


# Tools


@feature("tools", "all tools of a long list")
async def all_tools(c: Connection) -> None:
    listed = await c.tools()
    expected = [tool.name for tool in ALL_TOOLS if tool.name not in ODD_NAMES and (c.is_modern or not tool.modern_only)]
    _expect_all("tools", [*listed], expected)


@feature("tools", "unusual names are listed and can be called")
async def odd_names(c: Connection) -> None:
    for number, name in enumerate(ODD_NAMES):
        listed = await c.find_by_description(f"Odd name {number}.")
        if listed is None:
            raise Lost(f"not listed: {shorten(name)}")
        expect(f"the answer of {shorten(name)}", await c.text(listed), name)


@feature("tools", "title, description, annotations and icons")
async def described(c: Connection) -> None:
    expected = to_wire(next(tool for tool in RICH_TOOLS if tool.name == "rich_described").declaration())
    listed = await c.definition("rich_described")
    expect_fields("tool", listed, expected, "title", "description", "annotations", "icons")


@feature("tools", "`_meta` of a definition")
async def tool_meta(c: Connection) -> None:
    expect("`_meta`", ((await c.definition("rich_described")).get("_meta") or {}).get(META_KEY), "on the tool")


@feature("tools", "a whole input schema of JSON Schema 2020-12")
async def input_schema(c: Connection) -> None:
    expected = next(tool for tool in PLAIN_TOOLS if tool.name == "json_schema_2020_12_tool").input_schema
    expect("schema", (await c.definition("json_schema_2020_12_tool")).get("inputSchema"), expected)


@feature("tools", "an argument that is sent in a header too")
async def header_argument(c: Connection) -> None:
    await c.tools()  # the client learns from the list which arguments to send
    expect("answer", await c.text("test_custom_header", {"region": "eu-1"}), 'Called with: {"region": "eu-1"}')


def _expect_all(what: str, actual: list[str], expected: list[str]) -> None:
    missing = [name for name in expected if name not in set(actual)]
    if missing:
        raise Lost(f"{len(missing)} of {len(expected)} {what} are missing, as {shorten(missing[0])}")
    if len(actual) != len(set(actual)):
        raise Changed(f"{what} are listed more than once")


# Resources


@feature("resources", "all resources of a long list")
async def all_resources(c: Connection) -> None:
    listed = await list_all(c.client.list_resources, "resources")
    _expect_all("resources", [str(each.uri) for each in listed], [each.uri for each in (*RESOURCES, *RICH_RESOURCES)])


@feature("resources", "all templates of a long list")
async def all_templates(c: Connection) -> None:
    listed = await list_all(c.client.list_resource_templates, "resource_templates")
    expected = [each.uri_template for each in (*TEMPLATES, *RICH_TEMPLATES)]
    _expect_all("templates", [each.uri_template for each in listed], expected)


@feature("resources", "every field of a definition")
async def resource_fields(c: Connection) -> None:
    listed = {str(each.uri): to_wire(each) for each in await list_all(c.client.list_resources, "resources")}
    expected = to_wire(RICH_RESOURCES[0])
    expect_fields("resource", listed.get("test://rich", {}), expected, *expected)


@feature("resources", "every field of a template")
async def template_fields(c: Connection) -> None:
    templates = await list_all(c.client.list_resource_templates, "resource_templates")
    listed = {each.uri_template: to_wire(each) for each in templates}
    expected = to_wire(RICH_TEMPLATES[0])
    expect_fields("template", listed.get("test://described/{city}", {}), expected, *expected)


@feature("resources", "read: text and bytes in one answer")
async def read_both(c: Connection) -> None:
    contents = [to_wire(each) for each in (await c.client.read_resource("test://rich")).contents]
    expect("kinds", ["text" if "text" in each else "blob" for each in contents], ["text", "blob"])
    expect("text", contents[0]["text"], UNICODE)
    expect("media type", contents[0].get("mimeType"), "text/markdown")
    expect("blob", [contents[1]["blob"], contents[1].get("uri")], [PNG, "test://rich/picture"])


@feature("resources", "read: what a template makes")
async def read_template(c: Connection) -> None:
    (contents,) = (await c.client.read_resource("test://template/ä 7/data")).contents
    expect("id", json.loads(contents.text)["id"], "ä 7")  # type: ignore[union-attr]


@feature("resources", "updates of a resource that the client watches", alone=True)
async def updates(c: Connection) -> None:
    if c.is_modern:
        async with c.client.listen(resource_subscriptions=[WATCHED]) as events:
            await c.call("test_trigger_resource_change")
            uris = [str(getattr(await _next(events), "uri", ""))]
    else:
        await c.client.subscribe_resource(WATCHED)
        await c.call("test_trigger_resource_change")
        await wait_until(lambda: _updates(c))
        uris = _updates(c)
        await c.client.unsubscribe_resource(WATCHED)
    expect("URI of the update", uris[:1], [WATCHED])


async def _next(events: Any) -> Any:
    """The next event of a stream."""
    with anyio.move_on_after(EVENT_SECONDS):
        async for event in events:
            return event
    raise Lost("no notice arrives")


def _updates(c: Connection) -> list[str]:
    return [str(each.params.uri) for each in c.record.notifications if _method(each).endswith("resources/updated")]


def _method(message: Any) -> str:
    return str(getattr(message, "method", ""))


# Prompts


@feature("prompts", "all prompts of a long list")
async def all_prompts(c: Connection) -> None:
    listed = await list_all(c.client.list_prompts, "prompts")
    _expect_all("prompts", [each.name for each in listed], [each.name for each in (*PROMPTS, *RICH_PROMPTS)])


@feature("prompts", "every field of a definition")
async def prompt_fields(c: Connection) -> None:
    listed = {each.name: to_wire(each) for each in await list_all(c.client.list_prompts, "prompts")}
    expected = to_wire(RICH_PROMPTS[0].declaration())
    expect_fields("prompt", listed.get("rich_every_kind", {}), expected, *expected)


@feature("prompts", "arguments")
async def prompt_arguments(c: Connection) -> None:
    got = await c.client.get_prompt("test_prompt_with_arguments", {"arg1": "ä 'x'", "arg2": "{}"})
    expect("text", getattr(got.messages[0].content, "text", None), "Prompt with arguments: arg1='ä 'x'', arg2='{}'")


def prompt_content_check(name: str, index: int) -> None:
    @feature("prompts", name)
    async def check(c: Connection) -> None:
        got = await c.client.get_prompt("rich_every_kind", {"city": "Oslo"})
        expect("number of messages", len(got.messages), len(EVERY_KIND))
        role, block = EVERY_KIND[index]
        expect("role", got.messages[index].role, role)
        actual = to_wire(got.messages[index].content)
        expected = to_wire(block)
        for each in (actual, expected):
            each.pop("_meta", None)
        expect("content", actual, expected)


for index, kind in enumerate(
    ("text", "the assistant's text", "image", "audio", "resource link", "embedded text", "embedded bytes")
):
    prompt_content_check(f"content: {kind}", index)


@feature("prompts", "description of a result")
async def prompt_description(c: Connection) -> None:
    got = await c.client.get_prompt("rich_every_kind", {"city": "Oslo", "tone": "warm"})
    expect("description", got.description, "For Oslo, warm.")


# Completion


@feature("completion", "of a prompt's argument")
async def complete_prompt(c: Connection) -> None:
    completed = await c.client.complete(
        PromptReference(name="test_prompt_with_arguments"), {"name": "arg1", "value": "par"}
    )
    expect("values", completed.completion.values, ["paris", "park", "party"])
    expect("total", completed.completion.total, 3)


@feature("completion", "of a template's argument")
async def complete_template(c: Connection) -> None:
    reference = ResourceTemplateReference(uri="test://template/{id}/data")
    completed = await c.client.complete(reference, {"name": "id", "value": "test"})
    expect("values", completed.completion.values, ["test", "tested", "testing"])


@feature("completion", "with the arguments so far")
async def complete_context(c: Connection) -> None:
    reference = PromptReference(name="test_prompt_with_arguments")
    completed = await c.client.complete(reference, {"name": "arg2", "value": "pari"}, {"arg1": "ä"})
    expect("values", completed.completion.values, ["paris", "arg1=ä"])


# Changes of lists


def change_check(kind: str, trigger: str, name: str, list_names: Callable[[Connection], Awaitable[list[str]]]) -> None:
    """Register a check that a change is announced, and that the list then has the new entry."""

    @feature("changes", f"list_changed: {kind}", alone=True)
    async def check(c: Connection) -> None:
        before = await list_names(c)
        count = len(_changes(c, kind))
        if c.is_modern:
            async with c.client.listen(**{f"{kind}_list_changed": True}) as events:
                await c.call(trigger)
                await _next(events)
        else:
            await c.call(trigger)
            if not await wait_until(lambda: len(_changes(c, kind)) > count):
                raise Lost("no notice arrives")
        # The first notice may be of an earlier change.
        changed: set[str] = set()
        with anyio.move_on_after(EVENT_SECONDS):
            while not changed:
                changed = set(before) ^ set(await list_names(c))
                await anyio.sleep(0.05)
        expect("what changed in the list", [*changed], [name])


def _changes(c: Connection, kind: str) -> list[Any]:
    return [each for each in c.record.notifications if _method(each).endswith(f"{kind}/list_changed")]


async def _tool_names(c: Connection) -> list[str]:
    c.forget_tools()
    return [*await c.tools()]


async def _resource_names(c: Connection) -> list[str]:
    return [each.name for each in await list_all(c.client.list_resources, "resources")]


async def _prompt_names(c: Connection) -> list[str]:
    return [each.name for each in await list_all(c.client.list_prompts, "prompts")]


change_check("tools", "test_trigger_tool_change", "test_extra_tool", _tool_names)
change_check("resources", "rich_resource_change", "extra", _resource_names)
change_check("prompts", "test_trigger_prompt_change", "test_extra_prompt", _prompt_names)


# Cache hints, tasks, extensions


@feature("cache hints", "`ttlMs` and `cacheScope` of lists and reads, not widened", eras=MODERN)
async def cache_hints(c: Connection) -> None:
    tools, prompts = await c.client.list_tools(), await c.client.list_prompts()
    resources = await c.client.list_resources()
    read = await c.client.read_resource("test://static-text")
    for what, answer, ttl, scope in (
        ("tools/list", tools, 60_000, "public"),
        ("prompts/list", prompts, 60_000, "public"),
        ("resources/list", resources, 60_000, "public"),
        ("resources/read", read, 5_000, "private"),
    ):
        if not answer.ttl_ms:
            raise Lost(f"{what}: no ttlMs")
        if answer.ttl_ms > ttl or (answer.cache_scope or "private") > scope:
            raise Changed(f"{what}: {answer.ttl_ms} ms, {answer.cache_scope}")


@feature("tasks", "a call that goes on as a task", eras=MODERN)
async def task(c: Connection) -> None:
    if TASKS not in (c.client.server_capabilities.extensions or {}):
        raise Lost("the extension is not declared")
    handle = await _start_task(c, "write_report", {"topic": "rye", "polls": 2})
    seen = []
    for _ in range(50):
        state = await ask_task(c.client.session, "tasks/get", taskId=handle.task_id)
        seen.append(state["status"])
        if state["status"] != "working":
            break
        await anyio.sleep(0.02)
    expect("last state", seen[-1], "completed")
    expect("text", state["result"]["content"][0]["text"], "Report on rye.")


@feature("tasks", "a task that asks the client", eras=MODERN)
async def task_question(c: Connection) -> None:
    answer = await c.text("write_report", {"topic": "oats", "asks": True})
    expect("text", answer, f"Report on oats for {NAME}.")
    if "input_required" not in c.record.task_states:
        raise Changed("the question does not come with the task")


@feature("tasks", "a task that the client cancels", eras=MODERN)
async def task_cancelled(c: Connection) -> None:
    handle = await _start_task(c, "slow_compute", {"seconds": 60})
    await ask_task(c.client.session, "tasks/cancel", taskId=handle.task_id)
    expect("state", (await ask_task(c.client.session, "tasks/get", taskId=handle.task_id))["status"], "cancelled")


async def _start_task(c: Connection, tool: str, args: dict[str, Any]) -> TaskStarted:
    name, arguments = await c.address(tool, args)
    started = await c.client.session.call_tool(name, arguments, allow_claimed=True)
    if not isinstance(started, TaskStarted):
        raise Lost(f"a result instead of a task: {shorten(text_of(started))}")
    return started


@feature("extensions", "apps: `_meta.ui` of a tool, and its page")
async def apps(c: Connection) -> None:
    meta = (await c.definition("rich_app")).get("_meta") or {}
    expect("`_meta.ui`", meta.get("ui"), {"resourceUri": APP_PAGE})
    (page,) = (await c.client.read_resource(APP_PAGE)).contents
    expect("page", [getattr(page, "text", None), page.mime_type], [APP_HTML, APP_TYPE])


@feature("extensions", "apps: the server sees that the client shows them")
async def client_extensions(c: Connection) -> None:
    declared = json.loads(await c.text("rich_client_extensions"))
    expect("extension", declared.get(APPS), {"mimeTypes": [APP_TYPE]})


@feature("extensions", "skills: `skills/list` and `skills/get`", eras=MODERN)
async def skills(c: Connection) -> None:
    if SKILLS not in (c.client.server_capabilities.extensions or {}):
        raise Lost("the extension is not declared")
    listed = await _ask(c, "skills/list")
    expect("skills", [skill["uri"] for skill in listed["skills"]], [SKILL_URI])
    expect("skill", (await _ask(c, "skills/get", uri=SKILL_URI))["skill"]["frontmatter"]["name"], "refunds")


@feature("extensions", "an extension of a vendor: declared, and its method answered", eras=MODERN)
async def vendor(c: Connection) -> None:
    declared = c.client.server_capabilities.extensions or {}
    expect("declared", declared.get(VENDOR), {"version": 1})
    expect("answer", (await _ask(c, VENDOR_METHOD, text="ä"))["echo"], "ä")


async def _ask(c: Connection, method: str, **params: Any) -> dict[str, Any]:
    request: Request[AnyParams, str] = Request(method=method, params=AnyParams(**params))
    return dict((await c.client.session.send_request(request, AnyResult)).model_dump(by_alias=True))
