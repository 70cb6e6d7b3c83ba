"""Guarded calls to one MCP server, as a library. In: a session or a command. Out: tool specs, and clean results.

Touches the session it is given; starts and ends a child process where it is given a command. Five steps, in this
order: capability, arguments, call, answer, cleaning. Fails closed: a session that was never bound may call nothing.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import weakref
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, Protocol

from mcp import Client, StdioServerParameters
from mcp.types import PaginatedRequestParams

from leafgate.admission.validate import NotJsonError, SchemaShelf, TooCostlyError, Violation
from leafgate.catalog.intake import mcp_tool_to_selectable
from leafgate.codec.read_leaf import strip_codec_meta
from leafgate.firewall.redact import redact_json, redact_text
from leafgate.firewall.sanitize import sanitize_json, sanitize_text
from leafgate.model.errors import CapabilityError, CatalogError, GatewayError, IRValidationError

MAX_PAGES: Final = 1_000
DEPLOYMENT: Final = "mcp"

SideEffects = Literal["none", "read", "write", "external"]
ReplayPolicy = Literal["must_stub", "may_replay"]

_schemas = SchemaShelf()


@dataclass(frozen=True)
class ToolSpec:
    """One tool of a bound server. The defaults are the worst case: what a foreign server does is not known."""

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
        # A text is an iterable of letters, and one of them may be a star.
        object.__setattr__(self, "granted", frozenset({granted} if isinstance(granted, str) else granted))

    def check(self, tool: ToolSpec) -> bool:
        """Whether every permission that the tool requires is granted."""
        return all(any(fnmatchcase(need, grant) for grant in self.granted) for need in tool.permissions)


class SessionLike(Protocol):
    """What is needed of a session: an SDK ClientSession has it, and so has any stand-in."""

    async def initialize(self) -> Any: ...

    async def list_tools(self) -> Any: ...

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any: ...


class _Grants:
    """What each bound session was granted. Sessions are known by identity, and forgotten when they go."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[weakref.ref[Any], Capabilities]] = {}

    def put(self, session: object, capabilities: Capabilities) -> None:
        key = id(session)
        try:
            known = weakref.ref(session, lambda _: self._kept.pop(key, None))
        except TypeError:
            # It cannot be remembered without keeping it alive: its calls need explicit capabilities.
            return
        self._kept[key] = (known, capabilities)

    def of(self, session: object) -> Capabilities | None:
        found = self._kept.get(id(session))
        return found[1] if found is not None and found[0]() is session else None

    def forget(self, session: object) -> None:
        if self.of(session) is not None:
            del self._kept[id(session)]

    def __len__(self) -> int:
        return len(self._kept)


_grants = _Grants()


class BoundTools(list[ToolSpec]):
    """The specs of a server, and the session to call them on. Whoever bound a command closes it with `aclose`."""

    def __init__(self, specs: Iterable[ToolSpec], session: SessionLike, connection: _Connection | None = None) -> None:
        super().__init__(specs)
        self.session = session
        self._connection = connection

    def named(self, name: str) -> ToolSpec:
        """The spec of this name; KeyError if the server has none."""
        found = next((spec for spec in self if spec.name == name), None)
        if found is None:
            raise KeyError(name)
        return found

    async def call(self, tool: ToolSpec | str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The same as call_tool, on the bound session."""
        spec = self.named(tool) if isinstance(tool, str) else tool
        return await call_tool(self.session, spec, arguments)

    async def aclose(self) -> None:
        """Takes the permissions back, and ends the server if bind started it."""
        _grants.forget(self.session)
        if self._connection is not None:
            await self._connection.aclose()


async def bind(
    server: object, *, capabilities: Capabilities, permissions: Mapping[str, Sequence[str]] | None = None
) -> BoundTools:
    """The tools of a server, and from now on these capabilities for its session.

    `server` is session-shaped, and then only used; or StdioServerParameters, and then started: `aclose` of the result
    ends it (`bound` does so by itself). A tool requires the permissions that `permissions` gives for its name, and
    `mcp:<name>` where it gives none.
    """
    if _is_session(server):
        return await _bind_session(server, capabilities, permissions or {}, None)  # type: ignore[arg-type]
    if not isinstance(server, StdioServerParameters):
        raise TypeError("a server is a session, or mcp.StdioServerParameters")
    connection = _Connection(server)
    session = await connection.open()
    try:
        return await _bind_session(session, capabilities, permissions or {}, connection)
    except BaseException:
        await connection.aclose()
        raise


@asynccontextmanager
async def bound(
    server: object, *, capabilities: Capabilities, permissions: Mapping[str, Sequence[str]] | None = None
) -> AsyncIterator[BoundTools]:
    """`bind` for the length of a context."""
    tools = await bind(server, capabilities=capabilities, permissions=permissions)
    try:
        yield tools
    finally:
        await tools.aclose()


async def call_tool(
    session: SessionLike, tool: ToolSpec, arguments: dict[str, Any], *, capabilities: Capabilities | None = None
) -> dict[str, Any]:
    """A tool's answer, behind all five steps.

    Structured content where the tool gives some; otherwise `{"content": [...]}`. A tool's own error is an answer too:
    it has `"isError": true`. What the session raises is raised.
    """
    _check_capability(session, tool, capabilities)
    _check_arguments(tool, arguments)
    result = await _invoke(session, tool, arguments)
    answer = _checked_answer(tool, result)
    return _cleaned(answer)


def _check_capability(session: object, tool: ToolSpec, explicit: Capabilities | None) -> None:
    capabilities = _grants.of(session) if explicit is None else explicit
    if capabilities is None or not capabilities.check(tool):
        why = "requires permissions not granted" if capabilities else "is called on a session that was not bound"
        raise CapabilityError(
            f"tool {tool.name!r} {why}",
            capability=",".join(tool.permissions),
            tool_id=tool.name,
            deployment=DEPLOYMENT,
        )


def _check_arguments(tool: ToolSpec, arguments: object) -> None:
    if not isinstance(arguments, Mapping):
        raise IRValidationError("arguments are an object", violation="mcp-input-schema", tool_id=tool.name)
    _check(tool, tool.input_schema, arguments, "mcp-input-schema")


async def _invoke(session: SessionLike, tool: ToolSpec, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        result = await session.call_tool(tool.name, dict(arguments))
    except RuntimeError as error:
        # The SDK's session holds answers to the schema itself, and says so in no other way.
        if "structured content" in str(error) or str(error).startswith("Invalid schema for tool"):
            message = f"tool {tool.name!r} breaks its own output schema"
            raise IRValidationError(message, violation="mcp-output-schema", tool_id=tool.name) from error
        raise
    return _plain_result(tool, result)


def _checked_answer(tool: ToolSpec, result: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer without leaves: their ids spell what the text said before it was cleaned."""
    told = strip_codec_meta({"content": [], **result})
    content = [block for block in told["content"] if isinstance(block, Mapping)] if _is_list(told["content"]) else []
    if result.get("isError") is True:
        more = {"structuredContent": result["structuredContent"]} if "structuredContent" in result else {}
        return {"content": content, **more, "isError": True}
    structured = result.get("structuredContent", _MISSING)
    if structured is _MISSING and tool.output_schema is not None:
        structured = _told_as_text(content)
        if structured is _MISSING:
            message = f"tool {tool.name!r} declares an output schema and gave no structured content"
            raise IRValidationError(message, violation="mcp-output-schema", tool_id=tool.name)
    if structured is _MISSING:
        return {"content": content}
    if not isinstance(structured, Mapping):
        raise _not_an_object(tool)
    if tool.output_schema is not None:
        _check(tool, tool.output_schema, structured, "mcp-output-schema")
    return structured


def _cleaned(answer: Mapping[str, Any]) -> dict[str, Any]:
    made = redact_json(sanitize_json(dict(answer)).value).value
    assert isinstance(made, dict)
    return made


_MISSING: Final = object()


def _told_as_text(content: Sequence[Mapping[str, Any]]) -> object:
    """Structured content that an older server writes out as its only text."""
    texts = [block.get("text") for block in content if block.get("type") == "text"]
    if len(texts) != 1 or not isinstance(texts[0], str):
        return _MISSING
    try:
        return json.loads(texts[0])
    except (ValueError, RecursionError):
        return _MISSING


def _check(tool: ToolSpec, schema: Mapping[str, Any], value: Mapping[str, Any], violation: str) -> None:
    try:
        found = _schemas.checked(schema).violations(value)
    except GatewayError as error:
        raise IRValidationError(error.body.message, violation=violation, tool_id=tool.name) from None
    except NotJsonError as error:
        found = [Violation("", str(error))]
    except TooCostlyError:
        found = [Violation("", "checking it against the schema would take too long")]
    if found:
        # A violation quotes the value, and an answer's value is foreign.
        message = _clean_text(f"tool {tool.name!r}: {found[0].pointer or '/'}: {found[0].message}")
        raise IRValidationError(message, violation=violation, tool_id=tool.name, schema_path=found[0].pointer)


# Translation


async def _bind_session(
    session: SessionLike,
    capabilities: Capabilities,
    permissions: Mapping[str, Sequence[str]],
    connection: _Connection | None,
) -> BoundTools:
    if connection is None:
        await session.initialize()
    specs = [_spec(tool, permissions) for tool in await _all_tools(session)]
    _grants.put(session, capabilities)
    return BoundTools(specs, session, connection)


async def _all_tools(session: SessionLike) -> list[Any]:
    """Every page of the server's list."""
    found: list[Any] = []
    page = await session.list_tools()
    for _ in range(MAX_PAGES):
        tools = _field(page, "tools")
        if not _is_list(tools):
            raise IRValidationError("the server's list of tools is no list", violation="mcp-tool-shape")
        found += tools
        cursor = _field(page, "next_cursor", "nextCursor")
        if not isinstance(cursor, str):
            return found
        page = await _next_page(session, cursor)
    raise IRValidationError(f"the server lists tools on more than {MAX_PAGES} pages", violation="mcp-tool-shape")


async def _next_page(session: SessionLike, cursor: str) -> Any:
    list_tools: Any = session.list_tools
    if "params" in inspect.signature(list_tools).parameters:
        return await list_tools(params=PaginatedRequestParams(cursor=cursor))
    return await list_tools(cursor=cursor)


def _spec(tool: object, permissions: Mapping[str, Sequence[str]]) -> ToolSpec:
    name = _field(tool, "name")
    if not isinstance(name, str) or not name:
        raise IRValidationError("a tool has no name", violation="mcp-tool-shape")
    description = _field(tool, "description")
    schemas = {key: _schema(tool, name, key) for key in ("inputSchema", "outputSchema")}
    try:
        # Intake cleans the prose of a schema, and leaves alone what its server compares with.
        item = mcp_tool_to_selectable({"name": name, **schemas}, clean=_clean_text)
    except CatalogError as error:
        raise IRValidationError(str(error), violation="mcp-tool-shape", tool_id=name) from None
    return ToolSpec(
        name=name,
        description=_clean_text(description) if isinstance(description, str) else "",
        input_schema=item.args_schema,
        output_schema=item.output_schema,
        permissions=tuple(permissions.get(name, (f"mcp:{name}",))),
    )


def _schema(tool: object, name: str, key: Literal["inputSchema", "outputSchema"]) -> Mapping[str, Any] | None:
    found = _field(tool, "input_schema" if key == "inputSchema" else "output_schema", key)
    if found is None and key == "inputSchema":
        return {}
    if found is not None and not isinstance(found, Mapping):
        raise IRValidationError(f"the {key} of tool {name!r} is no object", violation="mcp-tool-shape", tool_id=name)
    return found


def _plain_result(tool: ToolSpec, result: object) -> Mapping[str, Any]:
    """A result as JSON: of the SDK's types, of a stand-in's attributes, or JSON already."""
    dump = getattr(result, "model_dump", None)
    if callable(dump):
        result = dump(by_alias=True, mode="json", exclude_unset=True)
    elif not isinstance(result, Mapping) and hasattr(result, "content"):
        found = {
            "content": _field(result, "content"),
            "structuredContent": _field(result, "structured_content", "structuredContent"),
            "isError": _field(result, "is_error", "isError"),
        }
        result = {key: value for key, value in found.items() if value is not None}
    if not isinstance(result, Mapping):
        raise _not_an_object(tool)
    # A stand-in may answer with the bare payload.
    return result if {"content", "structuredContent", "isError"} & set(result) else {"structuredContent": result}


def _not_an_object(tool: ToolSpec) -> IRValidationError:
    message = f"tool {tool.name!r} answered with something that is no object"
    return IRValidationError(message, violation="mcp-non-object-output", tool_id=tool.name)


def _field(source: object, *names: str) -> Any:
    """The first of these that is there, as a member or an attribute; the SDK has spelt them in two ways."""
    for name in names:
        found = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
        if found is not None:
            return found
    return None


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def _is_session(server: object) -> bool:
    return all(callable(getattr(server, name, None)) for name in ("initialize", "list_tools", "call_tool"))


def _clean_text(text: str) -> str:
    return redact_text(sanitize_text(text).text).text


class _Connection:
    """A server that bind started. A transport is left in the task that entered it, so it has a task of its own."""

    def __init__(self, params: StdioServerParameters) -> None:
        self._params = params
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_up = False

    async def open(self) -> SessionLike:
        opened: asyncio.Future[SessionLike] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(opened), name="leafgate-guarded")
        try:
            return await asyncio.shield(opened)
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        self._closing.set()
        if self._task is None:
            return
        if not self._is_up:
            self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()  # how a server ends, once nobody needs it, is nobody's error

    async def _run(self, opened: asyncio.Future[SessionLike]) -> None:
        try:
            async with Client(self._params, cache=None) as client:
                self._is_up = True
                opened.set_result(client.session)
                await self._closing.wait()
        except asyncio.CancelledError:
            opened.cancel()
            raise
        except Exception as error:
            if opened.done():
                raise
            opened.set_exception(error)
