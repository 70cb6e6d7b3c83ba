"""Guarded calls to the tools of one MCP server, which is a session or a command to start.

A call has five steps, in this order: capability, arguments, call, answer, cleaning. It fails closed: nothing may be
called on a session that was not bound.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import weakref
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, Protocol

from mcp import Client, StdioServerParameters
from mcp.types import PaginatedRequestParams

from leafgate.admission.validate import NotJsonError, SchemaShelf, TooCostlyError, Violation
from leafgate.catalog.intake import mcp_tool_to_selectable
from leafgate.clean.cleaner import Cleaner
from leafgate.codec.leaf import strip_codec_meta
from leafgate.model.errors import CapabilityError, CatalogError, GatewayError, IRValidationError

MAX_PAGES: Final = 1_000
DEPLOYMENT: Final = "mcp"
NOT_AN_OBJECT: Final = "answered with something that is not an object"
SESSION_METHODS: Final = ("initialize", "list_tools", "call_tool")

SideEffects = Literal["none", "read", "write", "external"]
ReplayPolicy = Literal["must_stub", "may_replay"]

_schemas = SchemaShelf()
_clean = Cleaner()


@dataclass(frozen=True)
class ToolSpec:
    """One tool of a bound server. The defaults are the worst case, because the server is foreign."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None = None
    namespace: str = "mcp"
    version: str = "1"
    side_effects: SideEffects = "external"
    replay_policy: ReplayPolicy = "must_stub"
    permissions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Capabilities:
    """The permissions of a session; each is a name, or a glob such as `mcp:*`. Without any, nothing may be called."""

    granted: frozenset[str] = frozenset()

    def __init__(self, granted: Iterable[str] = ()) -> None:
        # A text is an iterable of characters, and one of them may be a star.
        object.__setattr__(self, "granted", frozenset({granted} if isinstance(granted, str) else granted))

    def check(self, tool: ToolSpec) -> bool:
        """Whether every permission that the tool requires is granted."""
        return all(any(fnmatchcase(need, grant) for grant in self.granted) for need in tool.permissions)


class SessionLike(Protocol):
    """The methods that a session needs: those of the SDK's ClientSession."""

    async def initialize(self) -> Any: ...

    async def list_tools(self) -> Any: ...

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any: ...


# The capabilities of each bound session, by its identity. An entry is dropped with its session.
_grants: Final[dict[int, Capabilities]] = {}


class BoundTools(list[ToolSpec]):
    """The specs of a server, and the session to call them on. A started command must be closed with `aclose`."""

    def __init__(self, specs: Iterable[ToolSpec], session: SessionLike, connection: _Connection | None = None) -> None:
        super().__init__(specs)
        self.session = session
        self._connection = connection

    def named(self, name: str) -> ToolSpec:
        """The spec of this name. Raises KeyError if the server has no such tool."""
        return {spec.name: spec for spec in reversed(self)}[name]  # the first of equal names

    async def call(self, tool: ToolSpec | str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Like `call_tool`, on the bound session."""
        spec = self.named(tool) if isinstance(tool, str) else tool
        return await call_tool(self.session, spec, arguments)

    async def aclose(self) -> None:
        """Revoke the permissions, and end the server if bind started it."""
        _grants.pop(id(self.session), None)
        if self._connection is not None:
            await self._connection.aclose()


async def bind(
    server: object, *, capabilities: Capabilities, permissions: Mapping[str, Sequence[str]] | None = None
) -> BoundTools:
    """List the tools of a server, and grant these capabilities to its session.

    `server` is a session, or StdioServerParameters of a server to start: `aclose` of the result ends it (`bound` does
    that by itself). A tool requires the permissions in `permissions` under its name, or `mcp:<name>`.
    """
    connection = _Connection(server) if isinstance(server, StdioServerParameters) else None
    if connection is None and not all(callable(getattr(server, name, None)) for name in SESSION_METHODS):
        raise TypeError("a server is a session, or mcp.StdioServerParameters")
    session: Any = server if connection is None else await connection.open()
    try:
        if connection is None:
            await session.initialize()
        specs = [_spec(tool, permissions or {}) for tool in await _all_tools(session)]
    except BaseException:
        if connection is not None:
            await connection.aclose()
        raise
    with suppress(TypeError):  # a session without weak references: its calls need explicit capabilities
        weakref.finalize(session, _grants.pop, id(session), None)
        _grants[id(session)] = capabilities
    return BoundTools(specs, session, connection)


@asynccontextmanager
async def bound(
    server: object, *, capabilities: Capabilities, permissions: Mapping[str, Sequence[str]] | None = None
) -> AsyncIterator[BoundTools]:
    """`bind` as a context manager."""
    async with aclosing(await bind(server, capabilities=capabilities, permissions=permissions)) as tools:
        yield tools


async def call_tool(
    session: SessionLike, tool: ToolSpec, arguments: dict[str, Any], *, capabilities: Capabilities | None = None
) -> dict[str, Any]:
    """Call a tool with all five steps.

    Returns the structured content if there is some, otherwise `{"content": [...]}`. An error of the tool is an answer
    with `"isError": true`. Errors of the session are raised.
    """
    capabilities = _grants.get(id(session)) if capabilities is None else capabilities
    if capabilities is None or not capabilities.check(tool):
        why = "requires permissions not granted" if capabilities else "is called on a session that was not bound"
        needs = ",".join(tool.permissions)
        raise CapabilityError(f"tool {tool.name!r} {why}", capability=needs, tool_id=tool.name, deployment=DEPLOYMENT)
    if not isinstance(arguments, Mapping):
        raise IRValidationError("arguments must be an object", violation="mcp-input-schema", tool_id=tool.name)
    _check(tool, tool.input_schema, arguments, "mcp-input-schema")
    answer = _check_answer(tool, await _invoke(session, tool, arguments))
    value: dict[str, Any] = _clean.json(dict(answer)).value
    return value


async def _invoke(session: SessionLike, tool: ToolSpec, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The result as JSON, from a model of the SDK, an object with attributes, or JSON."""
    try:
        result = await session.call_tool(tool.name, dict(arguments))
    except RuntimeError as error:
        # The SDK's session validates answers itself, and reports it only in this way.
        if "structured content" in str(error) or str(error).startswith("Invalid schema for tool"):
            raise _invalid_answer(tool, "breaks its own output schema") from error
        raise
    dump = getattr(result, "model_dump", None)
    if callable(dump):
        result = dump(by_alias=True, mode="json", exclude_unset=True)
    elif not isinstance(result, Mapping) and hasattr(result, "content"):
        fields = {
            "content": result.content,
            "structuredContent": _field(result, "structured_content", "structuredContent"),
            "isError": _field(result, "is_error", "isError"),
        }
        result = {key: value for key, value in fields.items() if value is not None}
    if not isinstance(result, Mapping):
        raise _invalid_answer(tool, NOT_AN_OBJECT, "mcp-non-object-output")
    # A session that is not of the SDK may return the bare structured content.
    return result if {"content", "structuredContent", "isError"} & set(result) else {"structuredContent": result}


def _check_answer(tool: ToolSpec, result: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer without leaves: their ids contain the text before it was cleaned."""
    blocks = strip_codec_meta({"content": [], **result})["content"]
    content = [block for block in blocks if isinstance(block, Mapping)] if isinstance(blocks, list | tuple) else []
    if result.get("isError") is True:
        more = {"structuredContent": result["structuredContent"]} if "structuredContent" in result else {}
        return {"content": content, **more, "isError": True}
    structured = result.get("structuredContent", _MISSING)
    if tool.output_schema is None and structured is _MISSING:
        return {"content": content}
    if structured is _MISSING:
        structured = _structured_from_text(content)
    if structured is _MISSING:
        raise _invalid_answer(tool, "declares an output schema and returned no structured content")
    if not isinstance(structured, Mapping):
        raise _invalid_answer(tool, NOT_AN_OBJECT, "mcp-non-object-output")
    if tool.output_schema is not None:
        _check(tool, tool.output_schema, structured, "mcp-output-schema")
    return structured


_MISSING: Final = object()


def _structured_from_text(content: Sequence[Mapping[str, Any]]) -> object:
    """Structured content that an older server sends as its only text."""
    texts = [block.get("text") for block in content if block.get("type") == "text"]
    if len(texts) != 1 or not isinstance(texts[0], str):
        return _MISSING
    try:
        return json.loads(texts[0])
    except (ValueError, RecursionError):
        return _MISSING


def _check(tool: ToolSpec, schema: Mapping[str, Any], value: Mapping[str, Any], violation: str) -> None:
    try:
        violations = _schemas.prepare(schema).violations(value)
    except GatewayError as error:
        raise IRValidationError(error.body.message, violation=violation, tool_id=tool.name) from None
    except NotJsonError as error:
        violations = [Violation("", str(error))]
    except TooCostlyError:
        violations = [Violation("", "checking it against the schema would take too long")]
    if violations:
        # A violation quotes the value, and the value of an answer is foreign.
        message = _clean(f"tool {tool.name!r}: {violations[0].pointer or '/'}: {violations[0].message}")
        raise IRValidationError(message, violation=violation, tool_id=tool.name, schema_path=violations[0].pointer)


async def _all_tools(session: SessionLike) -> list[Any]:
    """The tools of all pages. Versions of the SDK differ in how they take a cursor."""
    list_tools: Any = session.list_tools
    all_tools: list[Any] = []
    page = await list_tools()
    for _ in range(MAX_PAGES):
        tools = _field(page, "tools")
        if not isinstance(tools, list | tuple):
            raise IRValidationError("the server's list of tools is not a list", violation="mcp-tool-shape")
        all_tools += tools
        cursor = _field(page, "next_cursor", "nextCursor")
        if not isinstance(cursor, str):
            return all_tools
        takes_params = "params" in inspect.signature(list_tools).parameters
        place = {"params": PaginatedRequestParams(cursor=cursor)} if takes_params else {"cursor": cursor}
        page = await list_tools(**place)
    raise IRValidationError(f"the server lists tools on more than {MAX_PAGES} pages", violation="mcp-tool-shape")


def _spec(tool: object, permissions: Mapping[str, Sequence[str]]) -> ToolSpec:
    name = _field(tool, "name")
    if not isinstance(name, str) or not name:
        raise IRValidationError("a tool has no name", violation="mcp-tool-shape")
    description = _field(tool, "description")
    arguments, output = _field(tool, "input_schema", "inputSchema"), _field(tool, "output_schema", "outputSchema")
    schemas = {"inputSchema": {} if arguments is None else arguments, "outputSchema": output}
    for key, schema in schemas.items():
        if schema is not None and not isinstance(schema, Mapping):
            message = f"the {key} of tool {name!r} is not an object"
            raise IRValidationError(message, violation="mcp-tool-shape", tool_id=name)
    try:
        # Intake cleans the descriptions in a schema, and not the values that the server validates with.
        item = mcp_tool_to_selectable({"name": name, **schemas}, clean=_clean)
    except CatalogError as error:
        raise IRValidationError(str(error), violation="mcp-tool-shape", tool_id=name) from None
    return ToolSpec(
        name=name,
        description=_clean(description) if isinstance(description, str) else "",
        input_schema=item.args_schema,
        output_schema=item.output_schema,
        permissions=tuple(permissions.get(name, (f"mcp:{name}",))),
    )


def _invalid_answer(tool: ToolSpec, problem: str, violation: str = "mcp-output-schema") -> IRValidationError:
    return IRValidationError(f"tool {tool.name!r} {problem}", violation=violation, tool_id=tool.name)


def _field(source: object, *names: str) -> Any:
    """The first of these members or attributes that exists; the SDK has used two spellings."""
    for name in names:
        value = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
        if value is not None:
            return value
    return None


class _Connection:
    """A server that bind started, in a separate task: a transport must be left in the task that entered it."""

    def __init__(self, params: StdioServerParameters) -> None:
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[SessionLike] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(params), name="leafgate-guarded")

    async def open(self) -> SessionLike:
        try:
            return await asyncio.shield(self._ready)
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        self._closing.set()
        if not self._ready.done():
            self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()  # an error of a server that is no longer used is ignored

    async def _run(self, params: StdioServerParameters) -> None:
        try:
            async with Client(params, cache=None) as client:
                self._ready.set_result(client.session)
                await self._closing.wait()
        except asyncio.CancelledError:
            self._ready.cancel()
            raise
        except Exception as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)
