"""A client's connection to a subject, and how its tools are reached: by name, or through leafgate's meta-tools.

What the callbacks of the client receive is recorded, so that checks can look for it.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import anyio
from mcp import Client, StdioServerParameters
from mcp.client import ClaimContext, ClientExtension, ResultClaim, advertise
from mcp.client.sse import sse_client
from mcp.types import (
    CallToolResult,
    CreateMessageResult,
    ElicitResult,
    ListRootsResult,
    Request,
    RequestParams,
    Result,
    Root,
    TextContent,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ConfigDict, FileUrl

Era = Literal["2025-11-25", "2026-07-28"]
Transport = Literal["http", "stdio", "sse"]

EVENT_SECONDS: Final = 40  # how long a check waits for something that may never come
TASKS: Final = "io.modelcontextprotocol/tasks"
APPS: Final = "io.modelcontextprotocol/ui"
APP_TYPE: Final = "text/html;profile=mcp-app"
NAME: Final = "Zoë 🙂"
ROOT: Final = "file:///projects/one"


class AnyParams(RequestParams):
    """Params of any fields."""

    model_config = ConfigDict(extra="allow")


class AnyResult(Result):
    """A result of any fields."""

    model_config = ConfigDict(extra="allow")


class TaskRequest(Request[AnyParams, str]):
    """A request about a task; its id goes into a header too."""

    name_param = "taskId"


class TaskStarted(AnyResult):
    """The answer of a call that goes on as a task."""

    result_type: Literal["task"]
    task_id: str


@dataclass
class Record:
    """What the callbacks of one client received."""

    logs: list[Any] = field(default_factory=list)
    elicitations: list[Any] = field(default_factory=list)
    samplings: list[Any] = field(default_factory=list)
    notifications: list[Any] = field(default_factory=list)
    task_states: list[str] = field(default_factory=list)
    elicit_action: Literal["accept", "decline", "cancel"] = "accept"

    async def log(self, params: Any) -> None:
        self.logs.append(params)

    async def elicit(self, context: Any, params: Any) -> ElicitResult:
        """Fill in every field of a form: names with a name, other fields with their default or first choice."""
        self.elicitations.append(params)
        if self.elicit_action != "accept":
            return ElicitResult(action=self.elicit_action)
        schema = getattr(params, "requested_schema", None)
        if schema is None:
            return ElicitResult(action="accept")
        return ElicitResult(action="accept", content={name: _fill(kind) for name, kind in schema["properties"].items()})

    async def sample(self, context: Any, params: Any) -> CreateMessageResult:
        self.samplings.append(params)
        content = TextContent(text="Sampled ä")
        return CreateMessageResult(role="assistant", content=content, model="model-1", stop_reason="endTurn")

    async def roots(self, context: Any) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=FileUrl(ROOT), name="one")])

    async def message(self, message: Any) -> None:
        self.notifications.append(message)


def _fill(kind: Mapping[str, Any]) -> Any:
    if "default" in kind:
        return kind["default"]
    if kind.get("type") == "boolean":
        return True
    if kind.get("type") == "array":
        options = kind["items"].get("enum") or [option["const"] for option in kind["items"]["anyOf"]]
        return options[:2]
    if "enum" in kind:
        return kind["enum"][0]
    return kind["oneOf"][0]["const"] if "oneOf" in kind else NAME


class TaskSupport(ClientExtension):
    """Polls tasks until they are over, and answers what they ask."""

    identifier = TASKS

    def __init__(self, record: Record) -> None:
        self._record = record

    def claims(self) -> list[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=TaskStarted, resolve=self._finish)]

    async def _finish(self, started: TaskStarted, context: ClaimContext) -> CallToolResult:
        while True:
            state = await ask_task(context.session, "tasks/get", taskId=started.task_id)
            self._record.task_states.append(state["status"])
            if state["status"] == "completed":
                return CallToolResult.model_validate(state["result"])
            if state["status"] == "input_required":
                answers = {key: {"action": "accept", "content": {"name": NAME}} for key in state["inputRequests"]}
                await ask_task(context.session, "tasks/update", taskId=started.task_id, inputResponses=answers)
            elif state["status"] != "working":
                raise RuntimeError(f"the task is {state['status']}")
            await anyio.sleep(state.get("pollIntervalMs", 20) / 1000)


async def ask_task(session: Any, method: str, **params: Any) -> dict[str, Any]:
    answer = await session.send_request(TaskRequest(method=method, params=AnyParams(**params)), AnyResult)
    return dict(answer.model_dump(by_alias=True))


class Connection:
    """A client, and the tools behind it as a client of MCP calls them."""

    def __init__(self, client: Client, record: Record, transport: Transport) -> None:
        self.client = client
        self.record = record
        self.transport = transport
        self._tools: dict[str, dict[str, Any]] | None = None
        self._listing = anyio.Lock()  # checks that run at once list once

    @property
    def is_modern(self) -> bool:
        return self.client.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def address(self, name: str, args: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The name and the arguments of the `tools/call` that reaches this tool."""
        return name, args

    async def call(self, tool: str, args: dict[str, Any] | None = None, **options: Any) -> CallToolResult:
        name, arguments = await self.address(tool, args or {})
        return await self.client.call_tool(name, arguments, **options)

    async def text(self, tool: str, args: dict[str, Any] | None = None, **options: Any) -> str:
        return text_of(await self.call(tool, args, **options))

    async def tools(self) -> dict[str, dict[str, Any]]:
        """All definitions by name, as they are on the wire. Listed once."""
        async with self._listing:
            if self._tools is None:
                self._tools = await self._list_tools()
            return self._tools

    async def _list_tools(self) -> dict[str, dict[str, Any]]:
        return {tool.name: to_wire(tool) for tool in await list_all(self.client.list_tools, "tools")}

    def forget_tools(self) -> None:
        self._tools = None

    async def definition(self, name: str) -> dict[str, Any]:
        """What a client can learn about a tool; empty where it is not listed."""
        return dict((await self.tools()).get(name, {}))

    async def find_by_description(self, description: str) -> str | None:
        """The name of the tool with this description."""
        tools = (await self.tools()).items()
        return next((name for name, tool in tools if tool.get("description") == description), None)

    async def whole(self, result: CallToolResult) -> list[bytes]:
        """The texts of a result and, for leafgate, what it has withheld, read to its end through `tool_view`."""
        texts = [block.text.encode() for block in result.content if block.type == "text"]
        envelope = (result.meta or {}).get("leafgate/envelope", {})
        return texts + [await self._view(artifact["handle"]) for artifact in envelope.get("artifacts", ())]

    async def _view(self, handle: str) -> bytes:
        selector: dict[str, Any] | None = {"type": "bytes", "offset": 0, "length": 1_000_000}
        whole = b""
        while selector is not None:
            page = await self.client.call_tool("tool_view", {"handle": handle, "selector": selector})
            body, _, footer = text_of(page).rstrip("\n").rpartition("\n")
            whole += base64.b64decode(body)
            found = re.search(r"next: (\{.*\})", footer)
            selector = json.loads(found.group(1)) if found else None
        return whole


class TransparentConnection(Connection):
    """Leafgate in mode transparent: schemas and whole descriptions come from `tool_hydrate`."""

    async def definition(self, name: str) -> dict[str, Any]:
        listed = await super().definition(name)
        return listed | _hydration(await self.client.call_tool("tool_hydrate", {"tool_id": name})) if listed else {}


class MetaToolConnection(Connection):
    """Leafgate in mode gateway: tools are found by `tool_browse` and called by `tool_execute`."""

    def __init__(self, client: Client, record: Record, transport: Transport) -> None:
        super().__init__(client, record, transport)
        self._ids: dict[str, str] = {}

    async def address(self, name: str, args: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        return "tool_execute", {"tool_id": await self._id_of(name), "args": args}

    async def _list_tools(self) -> dict[str, dict[str, Any]]:
        """The tools that can be browsed, by the name in their id; descriptions are those of their cards."""
        tools = {}
        paths = ["/"]
        while paths:
            for id, description in await self._cards(path=paths.pop(), top_k=50):
                if id.startswith("/"):
                    paths.append(id)
                else:
                    self._ids[_name_in(id)] = id
                    tools[_name_in(id)] = {"name": _name_in(id), "description": description}
        return tools

    async def definition(self, name: str) -> dict[str, Any]:
        return _hydration(await self.client.call_tool("tool_hydrate", {"tool_id": await self._id_of(name)}))

    async def find_by_description(self, description: str) -> str | None:
        tools = (await self.tools()).items()
        return next((name for name, card in tools if description in card["description"]), None)

    async def _id_of(self, name: str) -> str:
        if name not in self._ids:
            for id, _ in await self._cards(query=name, top_k=50):
                self._ids.setdefault(_name_in(id), id)
        return self._ids.get(name, name)

    async def _cards(self, **args: Any) -> list[tuple[str, str]]:
        page = text_of(await self.client.call_tool("tool_browse", args))
        return re.findall(r"^(/\S*|\S+:\S+#\S+) — (.*)$", page, re.MULTILINE)


def _name_in(tool_id: str) -> str:
    return tool_id.partition(":")[2].split("#")[0].split("@")[0]


def _hydration(hydrated: CallToolResult) -> dict[str, Any]:
    """What `tool_hydrate` says of a tool, under the names of MCP; empty where there is no such tool."""
    if hydrated.is_error:
        return {}
    fields = json.loads(text_of(hydrated))
    names = {"description": "description", "args_schema": "inputSchema", "output_schema": "outputSchema"}
    return {public: fields[name] for name, public in names.items() if fields.get(name) is not None}


@asynccontextmanager
async def connect(
    target: str | StdioServerParameters,
    transport: Transport,
    era: Era,
    kind: Callable[[Client, Record, Transport], Connection] = Connection,
    *,
    log_level: Any = "debug",
    with_tasks: bool = True,
) -> AsyncIterator[Connection]:
    """The official client, with every callback, connected to this address or as the parent of this command."""
    record = Record()
    server: Any = sse_client(str(target)) if transport == "sse" else target
    client = Client(
        server,
        mode="legacy" if era == "2025-11-25" else "auto",
        sampling_callback=record.sample,
        elicitation_callback=record.elicit,
        list_roots_callback=record.roots,
        logging_callback=record.log,
        message_handler=record.message,
        log_level=log_level if era == "2026-07-28" else None,
        extensions=[*([TaskSupport(record)] if with_tasks else []), advertise(APPS, {"mimeTypes": [APP_TYPE]})],
        cache=None,
    )
    async with client:
        yield kind(client, record, transport)


async def list_all(list_page: Callable[..., Any], field_name: str) -> list[Any]:
    """A list through all its pages."""
    items, cursor = [], None
    for _ in range(100):
        page = await list_page(cursor=cursor)
        items += getattr(page, field_name)
        cursor = page.next_cursor
        if cursor is None:
            break
    return items


async def wait_until(condition: Callable[[], Any], seconds: float = EVENT_SECONDS) -> bool:
    """Whether the condition becomes true in time."""
    with anyio.move_on_after(seconds):
        while not condition():  # noqa: ASYNC110  any condition
            await anyio.sleep(0.01)
    return bool(condition())


def text_of(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


def to_wire(model: Any) -> dict[str, Any]:
    return dict(model.model_dump(by_alias=True, mode="json", exclude_none=True))
