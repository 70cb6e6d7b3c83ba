"""Upstreams over a session that the program has connected itself. In: a session. Out: offers and raw answers.

Touches the session, and only to ask: whoever opened it closes it. Everything that goes wrong is an UpstreamFailure.
Questions that a server asks on a session of the handshake era go to the callbacks that the session was made with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcp import Client, ClientSession
from mcp.types import LOG_LEVEL_META_KEY, ServerCapabilities
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from leafgate.model.errors import UpstreamFailure
from leafgate.ports import Caller, ToolListing
from leafgate.upstream.classify import classify
from leafgate.upstream.listing import Definitions, Listed, list_everything
from leafgate.upstream.raw_session import raw_request

DEFAULT_TIMEOUT: Final = 60.0
INPUT_REQUIRED: Final = "input_required"


class McpClientUpstream:
    """The tools of one connected server. Its `name` becomes the namespace of its tools; without one, their names do."""

    def __init__(self, session: ClientSession | Client, *, name: str = "", timeout: float = DEFAULT_TIMEOUT) -> None:
        self._server = _Server(session, name, timeout)

    async def list_tools(self) -> Sequence[ToolListing]:
        return self._server.named((await self._server.list("tools")).tools)

    async def call_tool(
        self, server: str, name: str, args: Mapping[str, Any], caller: Caller | None = None
    ) -> Mapping[str, Any]:
        return await self._server.ask("tools/call", {"name": name, "arguments": dict(args)}, caller)

    async def settled(self) -> None:
        """There is nothing to wait for: the session is connected."""


class McpClientPrimitiveUpstream:
    """The resources and prompts of one connected server."""

    def __init__(self, session: ClientSession | Client, *, name: str = "", timeout: float = DEFAULT_TIMEOUT) -> None:
        self._server = _Server(session, name, timeout)

    async def list_resources(self) -> Sequence[ToolListing]:
        return self._server.named((await self._server.list("resources")).resources)

    async def list_resource_templates(self) -> Sequence[ToolListing]:
        return self._server.named((await self._server.list("resources")).templates)

    async def list_prompts(self) -> Sequence[ToolListing]:
        return self._server.named((await self._server.list("prompts")).prompts)

    async def read_resource(self, server: str, uri: str, caller: Caller | None = None) -> Mapping[str, Any]:
        return await self._server.ask("resources/read", {"uri": uri}, caller)

    async def get_prompt(
        self, server: str, name: str, args: Mapping[str, str], caller: Caller | None = None
    ) -> Mapping[str, Any]:
        return await self._server.ask("prompts/get", {"name": name, "arguments": dict(args)}, caller)

    async def request(
        self, server: str, method: str, params: Mapping[str, Any], caller: Caller | None = None
    ) -> Mapping[str, Any]:
        return await self._server.ask(method, params, caller)

    def server_of_resource(self, uri: str) -> str | None:
        """There is only this one: it is asked for every URI, if it has resources at all."""
        return self._server.name if self._server.declares("resources") else None

    def servers_with(self, capability: str) -> Sequence[str]:
        return [self._server.name] if self._server.declares(capability) else []

    async def watch(self, server: str, uri: str) -> None:
        """Subscribes the session. Its owner hears of updates, and passes them on (docs/library.md)."""
        await self._server.subscribe("resources/subscribe", uri)

    async def unwatch(self, server: str, uri: str) -> None:
        await self._server.subscribe("resources/unsubscribe", uri)


class _Server:
    """One server behind somebody else's session."""

    def __init__(self, session: ClientSession | Client, name: str, timeout: float) -> None:
        if not isinstance(session, ClientSession | Client):
            raise TypeError("a session is an mcp.ClientSession or an mcp.Client")
        self.name = name
        self._given = session
        self._timeout = timeout

    def named(self, definitions: Definitions) -> Sequence[ToolListing]:
        return [ToolListing(self.name, definition) for definition in definitions]

    def declares(self, capability: str) -> bool:
        try:
            return getattr(self._capabilities(), capability, None) is not None
        except UpstreamFailure:
            return False

    async def list(self, capability: str) -> Listed:
        """All pages of what one capability covers; nothing where the server does not declare it."""
        asked = ServerCapabilities.model_validate({capability: {}} if self.declares(capability) else {})
        self._capabilities()  # a session that is not connected is a failure, and not an empty list
        try:
            return await list_everything(self._session(), asked, self._timeout)
        except Exception as error:
            raise classify(error) from error

    async def ask(self, method: str, params: Mapping[str, Any], caller: Caller | None) -> dict[str, Any]:
        """The raw result of a request."""
        asked = dict(params)
        if caller is not None:
            asked |= caller.resume
            if caller.log_level is not None:
                asked["_meta"] = {**asked.get("_meta", {}), LOG_LEVEL_META_KEY: caller.log_level}
        # Whom nobody can ask must not look as if it could be asked: such a server does without.
        takes_questions = caller is not None and caller.takes_input_requests
        try:
            raw = await raw_request(
                self._session(),
                method,
                asked,
                seconds=self._timeout,
                on_progress=None if caller is None else caller.progress,
                capabilities=caller.capabilities if caller is not None and takes_questions else {},
            )
        except Exception as error:
            raise classify(error) from error
        if raw.get("resultType") == INPUT_REQUIRED and not takes_questions:
            raise UpstreamFailure("UPSTREAM_ERROR", f"{self.name or 'the server'} needs input, and nobody can be asked")
        return raw

    async def subscribe(self, method: str, uri: str) -> None:
        if self._session().protocol_version in MODERN_PROTOCOL_VERSIONS:
            # The stateless protocol tells updates on a stream of its own, which only the session's owner can keep open.
            message = "updates of this server's resources cannot be watched from here"
            raise UpstreamFailure("UPSTREAM_ERROR", f"{method} on a stateless session", message=message)
        await self.ask(method, {"uri": uri}, None)

    def _session(self) -> ClientSession:
        if isinstance(self._given, ClientSession):
            return self._given
        try:
            return self._given.session
        except RuntimeError as error:
            raise UpstreamFailure("UPSTREAM_UNAVAILABLE", f"{self.name or 'the client'} is not connected") from error

    def _capabilities(self) -> ServerCapabilities:
        found = self._session().server_capabilities
        if found is None:
            raise UpstreamFailure("UPSTREAM_UNAVAILABLE", f"{self.name or 'the session'} is not initialized")
        return found
