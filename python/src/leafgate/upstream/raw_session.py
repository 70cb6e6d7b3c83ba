"""Requests on an MCP session: raw results, what the exceptions of the SDK mean, and the lists of what a server offers.

The SDK's typed results drop unknown fields and refuse unknown content blocks, and a gateway must see both. This is the
only file that uses private names of the SDK's client; test_raw_session.py fails when they move.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, Final, TypeGuard

import anyio
import anyio.lowlevel
import httpx2
import pydantic_core
from mcp import ClientSession, InvalidUriTemplate, MCPError, UriTemplate
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.inbound import MCP_NAME_HEADER, encode_header_value, find_invalid_x_mcp_header, x_mcp_header_map
from mcp.types import (
    CLIENT_CAPABILITIES_META_KEY,
    CONNECTION_CLOSED,
    LOG_LEVEL_META_KEY,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    ErrorData,
    JSONRPCError,
    ServerCapabilities,
)

from leafgate.catalog.skills import SKILLS
from leafgate.clean.sanitize import sanitize_json
from leafgate.model.errors import ErrorCode, UpstreamFailure
from leafgate.model.request import ClientChannel
from leafgate.ports import MAX_TTL_MS, CacheHint, OfferKind, read_cache_hint

log = logging.getLogger("leafgate.upstream")

Params = Mapping[str, Any]
Result = Mapping[str, Any]

# The SDK's clock starts when a request is written; a server that reads nothing must not block the writer for ever.
WRITE_SECONDS: Final = 1.0
# A client that does not read its progress must not delay its result for long.
PROGRESS_SECONDS: Final = 5.0
FREE_PROGRESS: Final = 100  # messages of a call that are all passed on
PROGRESS_PAUSE: Final = 0.05  # seconds between two later ones
# In bytes, after decompression: of a line on stdout, a JSON response or an event.
MAX_ANSWER: Final = 256 * 1024 * 1024
# JSON takes up to 27 times its size once it is parsed: `[]` is 2 bytes, and an empty list 64. Each value is begun or
# followed by one of these signs, and takes some 40 bytes a sign; larger messages with more of them are refused.
MAX_SIGNS: Final = 16_000_000
SIGNS_FROM: Final = 1024 * 1024
# Other types belong to extensions. To take one that is not served for a success would lose the result.
RESULT_TYPES: Final = (None, "complete", "input_required")
# The requests that answer the questions of an `input_required` result by being sent again.
_RESUMABLE: Final = ("tools/call", "prompts/get", "resources/read")


class Progress:
    """Passes the progress of one call on, in order, by one task that starts with the first message.

    The first FREE_PROGRESS messages are all passed on, as long as the client takes them. Of a flood only the latest one
    is, every PROGRESS_PAUSE seconds: 20,000 messages of one call delayed the requests of all others by 2.5 s.
    """

    def __init__(self, send: ProgressFnT) -> None:
        self._send = send
        self._waiting: deque[tuple[float, float | None, str | None]] = deque(maxlen=FREE_PROGRESS)
        self._taken = 0
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._context = copy_context()  # of the request, for the task

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """For the SDK, on sessions whose messages are not read by the gateway."""
        self.take(progress, total, message)

    def take(self, progress: float, total: float | None, message: str | None) -> None:
        """Take a message. It is passed on later, unless a newer one replaces it."""
        self._taken += 1
        if self._taken > FREE_PROGRESS:
            self._waiting.clear()
        self._waiting.append((progress, total, message))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._pass_on(), context=self._context)

    async def wait(self) -> None:
        """Wait for what came before the result."""
        await anyio.lowlevel.checkpoint()  # tasks that the SDK started for what came before the result begin now
        self._ending.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=PROGRESS_SECONDS)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _pass_on(self) -> None:
        while self._waiting:
            try:
                await self._send(*self._waiting.popleft())
            except Exception as error:
                log.debug("progress cannot be passed on: %s", type(error).__name__)
            await anyio.lowlevel.checkpoint()
            if self._taken > FREE_PROGRESS:
                with anyio.move_on_after(PROGRESS_PAUSE):
                    await self._ending.wait()


class ProgressRoutes:
    """The calls of one connection whose progress is passed on, by their tokens."""

    def __init__(self) -> None:
        self._routes: dict[str, Progress] = {}

    @contextmanager
    def open(self, progress: Progress) -> Iterator[str]:
        """A token by which the server's progress reaches this call, inside this context."""
        token = token_hex(8)
        self._routes[token] = progress
        try:
            yield token
        finally:
            del self._routes[token]

    def take(self, params: Mapping[str, Any] | None) -> None:
        """Take the params of a notification of progress. One without a call is dropped."""
        params = params or {}
        token, progress, total, message = (params.get(key) for key in ("progressToken", "progress", "total", "message"))
        route = self._routes.get(token) if isinstance(token, str) else None
        if route is not None and _is_number(progress):
            route.take(
                float(progress),
                float(total) if _is_number(total) else None,
                message if isinstance(message, str) else None,
            )


def _is_number(value: object) -> TypeGuard[float]:
    """Whether a value can be a float: an integer of 400 digits cannot."""
    return type(value) is float or (type(value) is int and value.bit_length() < 1000)


async def raw_request(
    session: ClientSession,
    method: str,
    params: dict[str, Any],
    *,
    seconds: float,
    on_progress: ProgressFnT | None = None,
    routes: ProgressRoutes | None = None,
    capabilities: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Send one request and return the JSON of its result. Raises MCPError also for timeouts and closed connections.

    `routes` are those of the connection, if the gateway reads its messages; without them the SDK passes progress on.
    """
    data: dict[str, Any] = {"method": method, "params": dict(params)}
    opts: CallOptions = {"timeout": seconds}
    progress = None if on_progress is None else Progress(on_progress)
    session._stamp(data, opts)
    if method.startswith("tasks/"):  # SEP-2663 has this header for them; the SDK has it for methods of the core only
        opts.setdefault("headers", {})[MCP_NAME_HEADER] = encode_header_value(str(params["taskId"]))
    meta = data["params"].get("_meta", {})
    if capabilities is not None and CLIENT_CAPABILITIES_META_KEY in meta:
        # The server of a stateless request must see what the gateway's client can do, not what the gateway can.
        meta[CLIENT_CAPABILITIES_META_KEY] = dict(capabilities)
    with ExitStack() as at_end:
        if progress is not None:
            at_end.callback(progress.close)
        if progress is not None and routes is not None:
            token = at_end.enter_context(routes.open(progress))
            data["params"]["_meta"] = {**data["params"].get("_meta", {}), "progressToken": token}
        elif progress is not None:
            opts["on_progress"] = progress
        try:
            with anyio.fail_after(seconds + WRITE_SECONDS):
                result = await session._dispatcher.send_raw_request(method, data["params"], opts)
        except TimeoutError:
            raise MCPError(REQUEST_TIMEOUT, f"{method} could not be written in time") from None
        if progress is not None:
            await progress.wait()
        return result


def count_signs(data: bytes | bytearray) -> int:
    """The signs in JSON that begin or follow a value; takes 1 ms for a megabyte."""
    return len(data) - len(data.translate(None, b'[{,"'))


def check_type(raw: Mapping[str, Any], more: Collection[str] = ()) -> str | None:
    """The type of a result; None in the handshake era, which has no types.

    UpstreamFailure if it is unknown; `more` are the types of extensions that are served.
    """
    result_type = raw.get("resultType")
    if result_type not in RESULT_TYPES and result_type not in more:
        raise UpstreamFailure("UPSTREAM_ERROR", f"a result of the unknown type {str(result_type)[:80]!r}")
    return result_type


def add_client_params(method: str, params: Mapping[str, Any], client: ClientChannel | None) -> dict[str, Any]:
    """The params of a request, with the client's `_meta`, its answers to earlier questions and its log level."""
    if client is None:
        return dict(params)
    level = {} if client.log_level is None else {LOG_LEVEL_META_KEY: client.log_level}
    meta = {**client.meta, **params.get("_meta", {}), **level}
    resume = client.resume if method in _RESUMABLE else {}
    return {**params, **resume, **({"_meta": meta} if meta else {})}


# What a failure means

# The messages of the SDK where an HTTP server refused a request without an MCP error.
_STAND_INS: Final = ("Server returned an error response", "Session terminated", "Not Found")

MALFORMED: Final = "the server's answer is malformed"
TOO_LARGE: Final = "the server's answer is too large"
_Codes = Mapping[int, ErrorCode]
_BY_RPC_CODE: Final[_Codes] = {REQUEST_TIMEOUT: "UPSTREAM_TIMEOUT", CONNECTION_CLOSED: "UPSTREAM_UNAVAILABLE"}
_BY_STATUS: Final[_Codes] = {
    401: "AUTH_FAILED",
    403: "PERMISSION_DENIED",
    429: "RATE_LIMITED",
    **dict.fromkeys((408, 504), "UPSTREAM_TIMEOUT"),
    # 404: the session or the endpoint is gone; connecting again helps in both cases.
    **dict.fromkeys((404, 502, 503), "UPSTREAM_UNAVAILABLE"),
}
_BY_TYPE: Final[tuple[tuple[tuple[type[BaseException], ...], ErrorCode], ...]] = (
    ((TimeoutError, httpx2.TimeoutException), "UPSTREAM_TIMEOUT"),
    ((OSError, httpx2.TransportError, anyio.ClosedResourceError, anyio.BrokenResourceError), "UPSTREAM_UNAVAILABLE"),
)


@dataclass(frozen=True)
class ServerErrorData:
    """Wraps the data of an error that came over the wire: the SDK uses two of the codes for its own failures."""

    data: Any


def mark_server_error(message: Any, codes: Sequence[int]) -> Any:
    """The message; an error of the server with one of these codes is marked as such by its data."""
    if not isinstance(message, JSONRPCError) or message.error.code not in codes:
        return message
    error = message.error.model_copy(update={"data": ServerErrorData(message.error.data)})
    return message.model_copy(update={"error": error})


# What a message of the wrong form answers. A reader of JSON refuses it (bytes that are not UTF-8, too many levels or
# digits), so its id is read from the members around the result, which are at its beginning or at its end.

_HEAD_BYTES: Final = 512
_TEXT: Final = rb'"[^"\\]{0,80}"'
_NUMBER: Final = rb"-?[0-9]{1,18}(?:\.[0-9]{1,18})?(?:[eE][+-]?[0-9]{1,3})?"
_SCALAR: Final = rb"(?:" + _TEXT + rb"|" + _NUMBER + rb"|true|false|null)"
# 5.0 is 5 for a server that has no integers.
_WHOLE: Final = re.compile(rb"(-?[0-9]+)(?:\.0+)?(?:[eE][+-]?0+)?")
_HEAD: Final = re.compile(rb"\s*\{((?:\s*" + _TEXT + rb"\s*:\s*" + _SCALAR + rb"\s*,)*)\s*(" + _TEXT + rb")\s*:")
_AROUND: Final = b" \t\r\n\0[]\xef\xbb\xbf"
_TAIL: Final = re.compile(rb"[\]}\"0-9el]((?:\s*,\s*" + _TEXT + rb"\s*:\s*" + _SCALAR + rb")+)\s*\}\s*\Z")
_MEMBER: Final = re.compile(rb"(" + _TEXT + rb")\s*:\s*(" + _SCALAR + rb")")


def find_answer_id(line: bytes | bytearray) -> int | None:
    """The id of the request that a malformed message answers; None if it is cut off, or is not an answer.

    The requests of a gateway have numbers as their ids. What is in front of an object or behind it is not looked at: a
    mark of the byte order, or the brackets of a batch.
    """
    head = _HEAD.match(line[:_HEAD_BYTES].lstrip(_AROUND))
    end = line[-_HEAD_BYTES:].rstrip(_AROUND)
    if head is None or not end.endswith(b"}"):
        return None
    tail = _TAIL.search(end)
    members = dict(_MEMBER.findall(head[1])) | ({} if tail is None else dict(_MEMBER.findall(tail[1])))
    names = {*members, head[2]}
    number = _WHOLE.fullmatch(members.get(b'"id"', b""))
    return int(number[1]) if number is not None and b'"method"' not in names else None


def refused_answer(request_id: int, reason: str = MALFORMED) -> JSONRPCError:
    """The error in place of an answer that cannot be read, or is too large."""
    error = ErrorData(code=PARSE_ERROR, message=reason)
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def classify(error: BaseException, http_status: int | None = None) -> UpstreamFailure:
    """The failure that an exception stands for. The SDK drops HTTP statuses; a caller that noted one passes it."""
    error = _most_specific(error)
    if isinstance(error, UpstreamFailure):
        return error
    detail = f"{type(error).__name__}: {error}"  # for the log; nothing of it reaches a model
    if isinstance(error, MCPError):
        # A missing capability of the client is an error of the protocol, and so is its data.
        data = sanitize_json(error.data).value if error.code == MISSING_REQUIRED_CLIENT_CAPABILITY else None
        code = _BY_STATUS.get(http_status or 0) if error.message in _STAND_INS else None
        message = ""
        if error.code == PARSE_ERROR and not isinstance(error.data, ServerErrorData):
            message = TOO_LARGE if error.message == TOO_LARGE else MALFORMED
        return UpstreamFailure(code or _code(error), detail, message=message, rpc_code=error.code, rpc_data=data)
    return UpstreamFailure(_code(error), detail)


def _most_specific(error: BaseException) -> BaseException:
    """Of a group, the first exception that has a more specific code than UPSTREAM_ERROR."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    inner = [_most_specific(each) for each in error.exceptions]
    return next((each for each in inner if _code(each) != "UPSTREAM_ERROR"), inner[0])


def _code(error: BaseException) -> ErrorCode:
    if isinstance(error, UpstreamFailure):
        return error.code
    if isinstance(error, MCPError):
        is_from_server = isinstance(error.data, ServerErrorData)
        return "UPSTREAM_ERROR" if is_from_server else _BY_RPC_CODE.get(error.code, "UPSTREAM_ERROR")
    if isinstance(error, httpx2.HTTPStatusError):
        return _BY_STATUS.get(error.response.status_code, "UPSTREAM_ERROR")
    return next((code for types, code in _BY_TYPE if isinstance(error, types)), "UPSTREAM_ERROR")


# What servers offer

MAX_PAGES: Final = 1_000
# Of all lists of one server. A catalog of 20,000 tools takes ten seconds and 300 MB to build, for all clients.
MAX_LISTED: Final = 20_000
MAX_LISTED_BYTES: Final = 32 * 1024 * 1024
MAX_CURSOR: Final = 65_536

Definition = Mapping[str, Any]
Definitions = Sequence[Definition]

# How each kind is listed: the capability that it needs, the method, and the key in its result.
_LISTS: Final[Mapping[OfferKind, tuple[str, str, str]]] = {
    "tools": ("tools", "tools/list", "tools"),
    "resources": ("resources", "resources/list", "resources"),
    "templates": ("resources", "resources/templates/list", "resourceTemplates"),
    "prompts": ("prompts", "prompts/list", "prompts"),
    "skills": (SKILLS, "skills/list", "skills"),
}


@dataclass(frozen=True)
class ServerOffers:
    """What one server offers, as it wrote it. `hints` has the lists that the server has at all."""

    tools: Definitions = ()
    resources: Definitions = ()
    templates: Definitions = ()
    prompts: Definitions = ()
    skills: Definitions = ()
    hints: Mapping[OfferKind, CacheHint] = field(default_factory=dict, compare=False)


def declares(capabilities: ServerCapabilities, name: str) -> bool:
    """Whether a server declares a capability; an extension by its identifier; or a setting of it, after a `#`."""
    identifier, has_setting, setting = name.partition("#")
    if "/" not in identifier:
        return getattr(capabilities, name, None) is not None
    settings = (capabilities.extensions or {}).get(identifier)
    return settings is not None and (not has_setting or settings.get(setting) is True)


class ListBudget:
    """What may still be listed of one server. What comes after it is left out."""

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._entries = MAX_LISTED
        self._bytes = MAX_LISTED_BYTES
        self.is_spent = False

    def take(self, key: str, entries: Sequence[object]) -> Definitions:
        """Those of the entries that fit, in order. What is not an object becomes an empty one, which intake flags."""
        taken: list[Definition] = []
        for entry in entries:
            definition = entry if isinstance(entry, dict) else {}
            self._bytes -= _measure(definition)
            if self._bytes < 0 or not self._entries:
                log.warning("[%s] lists too much: %s after the first %d are left out", self._name, key, len(taken))
                self.is_spent = True
                break
            self._entries -= 1
            taken.append(definition)
        return taken


def _measure(definition: Definition) -> int:
    try:
        return len(pydantic_core.to_json(definition))
    except ValueError:  # half a pair of surrogates
        return len(json.dumps(definition))


async def list_server(
    session: ClientSession, capabilities: ServerCapabilities, seconds: float, name: str = ""
) -> ServerOffers:
    """All lists of a server, as far as they fit its budget. `name` is for the log."""
    budget = ListBudget(name)
    lists = {kind: await list_kind(session, kind, capabilities, seconds, budget) for kind in _LISTS}
    hints = {kind: hint for kind, (_, hint) in lists.items() if hint is not None}
    return ServerOffers(**{kind: definitions for kind, (definitions, _) in lists.items()}, hints=hints)


async def list_kind(
    session: ClientSession,
    kind: OfferKind,
    capabilities: ServerCapabilities,
    seconds: float,
    budget: ListBudget | None = None,
) -> tuple[Definitions, CacheHint | None]:
    """All pages of one list, and the narrowest of their hints; nothing where the server does not declare the list.

    If a page fails, no part is returned. What the budget does not allow is left out.
    """
    capability, method, key = _LISTS[kind]
    if not declares(capabilities, capability):
        return (), None
    budget = budget or ListBudget()
    definitions: list[Definition] = []
    hint = CacheHint(MAX_TTL_MS, is_public=True)
    cursors: set[str] = set()
    params: dict[str, Any] = {}
    for _ in range(MAX_PAGES):
        try:
            page = await raw_request(session, method, params, seconds=seconds)
        except MCPError as error:
            if kind in ("templates", "skills") and error.code == METHOD_NOT_FOUND:
                # A server with resources need not have templates; some declare skills and do not list them.
                return (), None
            raise
        check_type(page)
        hint = hint.narrow(read_cache_hint(page))
        definitions += budget.take(key, _as_list(page.get(key)))
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str) or budget.is_spent:
            if kind == "tools":
                session._x_mcp_header_maps = _header_arguments(definitions)
            return tuple(definitions), hint
        if cursor in cursors or len(cursor) > MAX_CURSOR:
            raise UpstreamFailure("UPSTREAM_ERROR", f"a list of {key} has a cursor that is too long, or had it before")
        cursors.add(cursor)
        params = {"cursor": cursor}
    raise UpstreamFailure("UPSTREAM_ERROR", f"a list of {key} has more than {MAX_PAGES} pages")


def _as_list(entries: object) -> Sequence[object]:
    return entries if isinstance(entries, list) else () if entries is None else (entries,)


def _header_arguments(tools: Definitions) -> dict[str, dict[tuple[str, ...], str]]:
    """By tool: the arguments that a stateless server wants in headers too. The SDK writes them into its calls."""
    maps: dict[str, dict[tuple[str, ...], str]] = {}
    for tool in tools:
        name, schema = tool.get("name"), tool.get("inputSchema")
        # Parsed JSON has at most 200 levels, which both functions can walk.
        if isinstance(name, str) and find_invalid_x_mcp_header(schema) is None:
            maps |= {name: found} if (found := x_mcp_header_map(schema)) else {}
    return maps


def server_of_uri(
    uri: str,
    resources: Iterable[tuple[str, Definition]],
    templates: Iterable[tuple[str, Definition]],
    able: Sequence[str],
) -> str | None:
    """The server that lists a URI, or has a template for it, or is the only one that is able to have resources."""
    for server, resource in resources:
        if resource.get("uri") == uri:
            return server
    for server, template in templates:
        if fits_template(template.get("uriTemplate"), uri):
            return server
    return able[0] if len(able) == 1 else None


def fits_template(template: object, uri: str) -> bool:
    """Whether a template makes this URI."""
    try:
        return isinstance(template, str) and UriTemplate.parse(template).match(uri) is not None
    except InvalidUriTemplate:
        return False
