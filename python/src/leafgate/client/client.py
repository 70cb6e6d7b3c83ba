"""A client of a gateway, or of any MCP server on Streamable HTTP: the SDK's client session over a FrameTransport."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import urlsplit

import anyio
import httpx2
from mcp import ClientSession, MCPError
from mcp.shared.dispatcher import ProgressFnT
from mcp.types import DiscoverResult, Implementation, ServerCapabilities
from pydantic import ValidationError

from leafgate.client.transport import (
    STATELESS_VERSION,
    ClientError,
    ClientLimits,
    FrameTransport,
    HttpError,
    LeafError,
    ProtocolError,
    RpcError,
)
from leafgate.codec.frames import Message
from leafgate.codec.leaf import LeafEntry, read_codec_meta
from leafgate.codec.negotiate import ACCEPT_META_KEY
from leafgate.model.envelope import ACCEPT_FULL
from leafgate.model.errors import ConfigError, IdsError
from leafgate.model.leaf import parse_digest
from leafgate.model.request import Form
from leafgate.tokens.encoder import Encoder, classify_ids
from leafgate.tokens.verify import check
from leafgate.upstream.raw_session import raw_request
from leafgate.version import __version__

MAX_PAGES: Final = 1000
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
CLIENT_INFO: Final = Implementation(name="leafgate-client", version=__version__)
# All that the session needs to know of a stateless server; the server's own report goes to the caller.
STATELESS: Final = DiscoverResult(
    supported_versions=[STATELESS_VERSION],
    capabilities=ServerCapabilities(),
    result_type="complete",
    ttl_ms=0,
    cache_scope="public",
)

Args = Mapping[str, Any] | None
OnProgress = Callable[[float, float | None, str | None], Awaitable[None]]


@dataclass(frozen=True)
class TextBlock:
    """A text block. Its text is empty if only ids were sent and there is no encoder to decode them."""

    text: str
    ids: Sequence[int] | None
    map_id: str | None


@dataclass(frozen=True)
class ToolResult:
    """The result of a tool. `raw` is the whole result as the server sent it."""

    raw: Mapping[str, Any]
    blocks: tuple[TextBlock, ...]

    @property
    def content(self) -> Sequence[Mapping[str, Any]]:
        return tuple(self.raw.get("content", ()))

    @property
    def text(self) -> str:
        """The texts of all text blocks, joined by line feeds."""
        return "\n".join(block.text for block in self.blocks)

    @property
    def ids(self) -> list[Sequence[int] | None]:
        """The ids of each text block; None for a block without ids."""
        return [block.ids for block in self.blocks]

    @property
    def structured(self) -> Any:
        return self.raw.get("structuredContent")

    @property
    def is_error(self) -> bool:
        return self.raw.get("isError") is True

    @property
    def meta(self) -> Mapping[str, Any]:
        meta = self.raw.get("_meta")
        return meta if isinstance(meta, Mapping) else {}


def read_result(raw: Mapping[str, Any], map_id: str | None, encoder: Encoder | None) -> ToolResult:
    """Read a result. With an encoder, ids are verified, and decoded where the text is left out. Raises LeafError, and
    CodecMetaMapMismatchError for ids of another map than `map_id`."""
    entries = read_codec_meta(raw, expected_map_hash=map_id)
    return ToolResult(raw, tuple(_block(entry, encoder) for entry in entries))


def _block(entry: LeafEntry, encoder: Encoder | None) -> TextBlock:
    if encoder is None or entry.ids is None:
        return TextBlock(entry.text, entry.ids, entry.map_id)
    try:
        text = entry.text or encoder.decode_bytes(list(entry.ids)).decode()
    except IdsError:
        raise LeafError(entry.text_index, classify_ids(encoder.map, list(entry.ids)) or "unknown-id") from None
    except UnicodeDecodeError:
        raise LeafError(entry.text_index, "bad-text") from None
    verdict = check(encoder, text, entry.ids, level="canonical", map_id=entry.map_id)
    if verdict.reason is not None:
        raise LeafError(entry.text_index, verdict.reason)
    return TextBlock(text, entry.ids, entry.map_id)


class LeafgateClient:
    """`async with LeafgateClient(url, map_id=…, form="ids") as client: await client.call_tool(name, args)`.

    With `map_id` or `form` every call requests ids; with an `encoder` they are verified, and decoded where the text is
    left out. With `packed` they come packed, which is faster to write and to read; results have lists all the same.
    `binary=False` uses JSON only.
    """

    def __init__(
        self,
        url: str,
        *,
        map_id: str | None = None,
        form: Form | None = None,
        packed: bool = False,
        encoder: Encoder | None = None,
        token: str | None = None,
        binary: bool = True,
        limits: ClientLimits | None = None,
    ) -> None:
        digest = None if map_id is None else parse_digest(map_id)
        if encoder is not None and digest not in (None, encoder.map.digest):
            raise ConfigError(f"the encoder is of map {encoder.map.digest}, not of {digest}")
        self._map_id = digest if encoder is None else encoder.map.digest
        self._form = form
        self._packed = packed
        self._encoder = encoder
        bounds = limits or ClientLimits()
        timeout = httpx2.Timeout(bounds.connect_seconds, read=bounds.silent_seconds, pool=bounds.silent_seconds)
        # Requests to this machine do not go through a proxy, whatever the environment says.
        self._http = httpx2.AsyncClient(
            headers=_credentials(url, token), timeout=timeout, trust_env=urlsplit(url).hostname not in LOOPBACK
        )
        self._transport = FrameTransport(self._http, url, bounds, binary=binary)
        self._resources = AsyncExitStack()
        self._session: ClientSession | None = None
        self._server: Message | None = None
        self._opening = anyio.Lock()

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the session, where there is one, and the connections. For the task that first used the client."""
        await self._resources.aclose()

    @property
    def is_binary(self) -> bool:
        """Whether the last answer of the server was in frames."""
        return self._transport.speaks_frames

    @property
    def protocol_version(self) -> str | None:
        """The version in use, once the server has answered."""
        return None if self._session is None else self._session.protocol_version

    async def initialize(self) -> Message:
        """What the server reports about itself. Other calls do this first, where it was not done."""
        async with self._opening:
            session = self._session or await self._open()
            if self._server is None:
                self._server = await self._negotiate(session)
        return self._server

    async def list_tools(self) -> list[Message]:
        """All tools, page after page."""
        tools: list[Message] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self.request("tools/list", {} if cursor is None else {"cursor": cursor})
            listing, cursor = page.get("tools"), page.get("nextCursor")
            if not isinstance(listing, list):
                raise ProtocolError("the result has no list of tools")
            tools += listing
            if cursor is None:
                return tools
        raise ProtocolError(f"the list of tools has more than {MAX_PAGES} pages")

    async def call_tool(self, name: str, args: Args = None, *, on_progress: OnProgress | None = None) -> ToolResult:
        """Call a tool. Ids in the arguments (`_codec_meta`) are sent as they are."""
        meta: dict[str, Any] = {**ACCEPT_FULL}
        params: Message = {"name": name, "arguments": dict(args or {}), "_meta": meta}
        wishes = (("map_id", self._map_id), ("form", self._form), ("packed", self._packed or None))
        accept = {key: value for key, value in wishes if value is not None}
        if accept:
            meta[ACCEPT_META_KEY] = accept
        result = await self.request("tools/call", params, on_progress=on_progress)
        return read_result(result, self._map_id, self._encoder)

    async def browse(
        self, query: str | None = None, *, path: str | None = None, top_k: int | None = None
    ) -> ToolResult:
        """The tools of a gateway for a query, or below a path."""
        args = {"query": query, "path": path, "top_k": top_k}
        return await self.call_tool("tool_browse", {key: value for key, value in args.items() if value is not None})

    async def execute(self, tool_id: str, args: Args = None, *, on_progress: OnProgress | None = None) -> ToolResult:
        """Call a tool behind a gateway."""
        call = {"tool_id": tool_id, "args": dict(args or {})}
        return await self.call_tool("tool_execute", call, on_progress=on_progress)

    async def view(self, handle: str, selector: Mapping[str, Any]) -> ToolResult:
        """A part of a result that was shortened."""
        return await self.call_tool("tool_view", {"handle": handle, "selector": dict(selector)})

    async def request(self, method: str, params: Args = None, *, on_progress: OnProgress | None = None) -> Message:
        """Send any request of the protocol and return its result. Raises a ClientError."""
        await self.initialize()
        assert self._session is not None
        fields = dict(params or {})
        if "_meta" in fields:
            fields["_meta"] = dict(fields["_meta"])  # the session adds to it
        report = None if on_progress is None else _only_increasing(on_progress)
        with _client_errors():
            result = await raw_request(self._session, method, fields, seconds=math.inf, on_progress=report)
        if result.get("resultType", "complete") != "complete":
            raise ProtocolError("the server asks for input, which this client cannot give")
        return result

    async def _open(self) -> ClientSession:
        """Start the session's tasks; nothing is sent yet."""
        self._resources.push_async_callback(self._http.aclose)
        inbox, outbox = await self._resources.enter_async_context(self._transport.connect())
        session = ClientSession(inbox, outbox, client_info=CLIENT_INFO)
        self._session = await self._resources.enter_async_context(session)
        return self._session

    async def _negotiate(self, session: ClientSession) -> Message:
        """Try the stateless protocol, then the handshake.

        `mcp.Client` takes any failure as a reason for the handshake. Here an outage, an invalid answer and a refused
        token are raised as they are: they do not show which protocol the server speaks.
        """
        try:
            with _client_errors():
                report = await session.send_discover(STATELESS_VERSION)
            versions = report.get("supportedVersions")
            if isinstance(versions, list) and STATELESS_VERSION in versions:
                session.adopt(STATELESS)
                return report
        except RpcError:
            pass
        except HttpError as refusal:
            if refusal.status in (401, 403):
                raise
        try:
            with _client_errors():
                answer = await session.initialize()
        except (ValidationError, RuntimeError):  # a malformed answer, and a version that the SDK does not speak
            raise ProtocolError("the server's answer to the handshake is invalid") from None
        return answer.model_dump(mode="json", by_alias=True, exclude_unset=True)


@contextmanager
def _client_errors() -> Iterator[None]:
    """Raise the SDK's errors as this client's."""
    try:
        yield
    except MCPError as error:
        if isinstance(error.error.data, ClientError):
            raise error.error.data from None
        raise RpcError(error.error.code, error.error.message, error.error.data) from None


def _only_increasing(on_progress: OnProgress) -> ProgressFnT:
    """A stream that is read again from its beginning repeats its progress; it is reported once."""
    latest = -math.inf

    async def report(progress: float, total: float | None, message: str | None) -> None:
        nonlocal latest
        if progress > latest:
            latest = progress
            await on_progress(progress, total, message)

    return report


def _credentials(url: str, token: str | None) -> dict[str, str]:
    """The authorization header. A token is not sent over plain HTTP, except to this machine."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("the address of a server begins with http:// or https://")
    if token is None:
        return {}
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise ConfigError("a token is sent over https only, except to this machine")
    return {"authorization": f"Bearer {token}"}
