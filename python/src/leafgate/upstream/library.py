"""The upstream classes of the public library: canned answers inside the process, and a session that the program owns.

Programs know an upstream by documented methods (`list_tools`, `call_tool`, `read_resource`, …), the gateway by the
`Upstream` port. These classes have both; `UpstreamMethods` writes the former once, over the latter.
"""

from __future__ import annotations

import base64
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from mcp import Client, ClientSession
from mcp.types import INVALID_PARAMS, METHOD_NOT_FOUND, ServerCapabilities
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from leafgate.codec.leaf import has_codec_meta
from leafgate.codec.negotiate import LEAF_EXTENSION
from leafgate.model.errors import UpstreamFailure
from leafgate.model.request import ClientChannel
from leafgate.ports import CacheHint, OfferKind, Offers, ServerInstance, ToolListing
from leafgate.upstream.raw_session import (
    Definition,
    Definitions,
    Params,
    Result,
    add_client_params,
    check_type,
    classify,
    declares,
    fits_template,
    list_kind,
    raw_request,
)

DEFAULT_TIMEOUT: Final = 60.0
UNKNOWN_RESOURCE: Final = -32002

Answer = Result | Callable[[Params], Result | Awaitable[Result]]
Content = str | bytes | Result | Callable[[str], str | bytes | Result | Awaitable[str | bytes | Result]]
Rendering = str | Result | Callable[[Mapping[str, str]], str | Result | Awaitable[str | Result]]


class UpstreamMethods(ABC):
    """The documented methods of an upstream class, over its `list_kind` and `request`."""

    @abstractmethod
    async def list_kind(self, kind: OfferKind) -> Sequence[ToolListing]: ...

    @abstractmethod
    async def request(
        self, server: str, method: str, params: Params, client: ClientChannel | None = None
    ) -> Result: ...

    async def list_tools(self) -> Sequence[ToolListing]:
        return await self.list_kind("tools")

    async def list_resources(self) -> Sequence[ToolListing]:
        return await self.list_kind("resources")

    async def list_resource_templates(self) -> Sequence[ToolListing]:
        return await self.list_kind("templates")

    async def list_prompts(self) -> Sequence[ToolListing]:
        return await self.list_kind("prompts")

    async def call_tool(self, server: str, name: str, args: Params, caller: ClientChannel | None = None) -> Result:
        return await self.request(server, "tools/call", {"name": name, "arguments": dict(args)}, caller)

    async def read_resource(self, server: str, uri: str, caller: ClientChannel | None = None) -> Result:
        return await self.request(server, "resources/read", {"uri": uri}, caller)

    async def get_prompt(
        self, server: str, name: str, args: Mapping[str, str], caller: ClientChannel | None = None
    ) -> Result:
        return await self.request(server, "prompts/get", {"name": name, "arguments": dict(args)}, caller)

    async def list_offers(self) -> Offers:
        """Tools come last: the caller awaits nothing between their list, by which calls are routed, and a catalog."""
        resources = await self.list_kind("resources")
        templates = await self.list_kind("templates")
        prompts = await self.list_kind("prompts")
        return Offers(await self.list_kind("tools"), resources, templates, prompts)

    def list_hint(self, kind: OfferKind) -> CacheHint | None:
        """No promise: the program decides when its lists change."""
        return CacheHint()

    async def wait_for_start(self) -> None:
        """Return at once: there is no server to start."""
        return

    def instance_of(self, server: str) -> ServerInstance:
        """One instance: no task of a program's server outlives a call."""
        return ServerInstance()

    async def settled(self) -> None:
        """`wait_for_start` by its documented name."""
        await self.wait_for_start()


class StubUpstream(UpstreamMethods):
    """Definitions with canned answers, for tests and for trying a catalog without its servers.

    `answers` by tool name: a result. `contents` by URI: a text, bytes, or a whole `resources/read` result.
    `renderings` by prompt name: a text, or a whole `prompts/get` result. Each may be a function (async or not) from the
    arguments or the URI; what it raises is classified like a live server's failure. A URI that only a template makes is
    read by its own entry, or by the template's.
    """

    def __init__(
        self,
        tools: Definitions = (),
        *,
        answers: Mapping[str, Answer] | None = None,
        resources: Definitions = (),
        templates: Definitions = (),
        prompts: Definitions = (),
        contents: Mapping[str, Content] | None = None,
        renderings: Mapping[str, Rendering] | None = None,
        server: str = "",
    ) -> None:
        lists: Mapping[OfferKind, Definitions] = {
            "tools": tools, "resources": resources, "templates": templates, "prompts": prompts,
        }  # fmt: skip
        # As in the lists of a live server, anything but an object is skipped.
        self._definitions = {kind: [each for each in lists[kind] if isinstance(each, Mapping)] for kind in lists}
        self._answers = dict(answers or {})
        self._contents = dict(contents or {})
        self._renderings = dict(renderings or {})
        self._server = server
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.reads: list[str] = []
        self.renders: list[tuple[str, Mapping[str, str]]] = []

    async def list_kind(self, kind: OfferKind) -> Sequence[ToolListing]:
        return [ToolListing(self._server, definition) for definition in self._definitions[kind]]

    async def request(self, server: str, method: str, params: Params, client: ClientChannel | None = None) -> Result:
        if method == "tools/call":
            return await self._call(params["name"], params["arguments"])
        if method == "resources/read":
            return await self._read(params["uri"])
        if method == "prompts/get":
            return await self._render(params["name"], params["arguments"])
        raise UpstreamFailure("UPSTREAM_ERROR", f"a stub does not answer {method}", rpc_code=METHOD_NOT_FOUND)

    async def _call(self, name: str, args: Mapping[str, Any]) -> Result:
        self.calls.append((name, args))
        default = {"content": [{"type": "text", "text": f"{name} has no canned answer."}]}
        result: Result = await _evaluate(self._answers.get(name, default), args)
        return result

    async def _read(self, uri: str) -> Result:
        self.reads.append(uri)
        definition = self._definition(uri)
        if definition is None:
            raise UpstreamFailure("UPSTREAM_ERROR", f"no resource {uri}", rpc_code=UNKNOWN_RESOURCE)
        default = f"{uri} has no canned content."
        canned = self._contents.get(uri, self._contents.get(str(definition.get("uriTemplate")), default))
        content = await _evaluate(canned, uri)
        if isinstance(content, Mapping):
            return content
        kind = {"mimeType": definition["mimeType"]} if isinstance(definition.get("mimeType"), str) else {}
        part = {"text": content} if isinstance(content, str) else {"blob": base64.b64encode(content).decode()}
        return {"contents": [{"uri": uri, **kind, **part}]}

    async def _render(self, name: str, args: Mapping[str, str]) -> Result:
        self.renders.append((name, args))
        if all(prompt.get("name") != name for prompt in self._definitions["prompts"]):
            raise UpstreamFailure("UPSTREAM_ERROR", f"no prompt {name}", rpc_code=INVALID_PARAMS)
        text = await _evaluate(self._renderings.get(name, f"{name} has no canned rendering."), args)
        if isinstance(text, Mapping):
            return text
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}

    def server_of_resource(self, uri: str) -> str | None:
        return None if self._definition(uri) is None else self._server

    def servers_with(self, capability: str) -> Sequence[str]:
        has = self._definitions
        offers = {"tools": has["tools"], "resources": has["resources"] or has["templates"], "prompts": has["prompts"]}
        return [self._server] if offers.get(capability) else []

    async def watch(self, server: str, uri: str) -> None:
        """Do nothing: canned content does not change."""

    async def unwatch(self, server: str, uri: str) -> None:
        """Do nothing."""

    def _definition(self, uri: str) -> Definition | None:
        for resource in self._definitions["resources"]:
            if resource.get("uri") == uri:
                return resource
        for template in self._definitions["templates"]:
            if template.get("uriTemplate") == uri or fits_template(template.get("uriTemplate"), uri):
                return template
        return None


class StubPrimitiveUpstream(StubUpstream):
    """A StubUpstream of resources and prompts, with `templates`, `contents`, `renderings` and `server` as there."""

    def __init__(self, resources: Definitions = (), prompts: Definitions = (), **canned: Any) -> None:
        super().__init__(resources=resources, prompts=prompts, **canned)


async def _evaluate(canned: Any, argument: object) -> Any:
    if not callable(canned):
        return canned
    try:
        result = canned(argument)
        return await result if inspect.isawaitable(result) else result
    except Exception as error:
        raise classify(error) from error


class McpClientUpstream(UpstreamMethods):
    """One server behind a session that the program has connected, and that the program closes.

    `name` becomes the namespace of its tools; without one it is inferred from their names. Questions that the server
    asks on a session of the handshake era go to the callbacks of that session.
    """

    def __init__(self, session: ClientSession | Client, *, name: str = "", timeout: float = DEFAULT_TIMEOUT) -> None:
        if not isinstance(session, ClientSession | Client):
            raise TypeError("a session is an mcp.ClientSession or an mcp.Client")
        self._name = name
        self._connection = session
        self._timeout = timeout
        self._has_shown_leaf = False

    async def list_kind(self, kind: OfferKind) -> Sequence[ToolListing]:
        capabilities = self._capabilities()
        try:
            definitions, _ = await list_kind(self._session(), kind, capabilities, self._timeout)
        except Exception as error:
            raise classify(error) from error
        return [ToolListing(self._name, definition) for definition in definitions]

    async def request(self, server: str, method: str, params: Params, client: ClientChannel | None = None) -> Result:
        # The capabilities of a client that cannot be asked are withheld: then the server does not ask.
        capabilities = client.capabilities if client is not None and client.takes_input_requests else None
        try:
            raw = await raw_request(
                self._session(),
                method,
                add_client_params(method, params, client),
                seconds=self._timeout,
                on_progress=None if client is None else client.progress,
                capabilities=capabilities or {},
            )
        except Exception as error:
            raise classify(error) from error
        if check_type(raw) == "input_required" and capabilities is None:
            detail = f"{self._name or 'the server'} needs input, and there is no client to ask"
            raise UpstreamFailure("UPSTREAM_ERROR", detail)
        self._has_shown_leaf = self._has_shown_leaf or (method == "tools/call" and has_codec_meta(raw))
        return raw

    def server_of_resource(self, uri: str) -> str | None:
        """This server for every URI, if it has resources at all."""
        return next(iter(self.servers_with("resources")), None)

    def servers_with(self, capability: str) -> Sequence[str]:
        try:
            is_declared = declares(self._capabilities(), capability)
        except UpstreamFailure:
            is_declared = False
        shows_it = capability == LEAF_EXTENSION and self._has_shown_leaf
        return [self._name] if is_declared or shows_it else []

    async def watch(self, server: str, uri: str) -> None:
        """Subscribe the session. Its owner receives the updates, and passes them on (docs/library.md)."""
        await self._subscribe("resources/subscribe", uri)

    async def unwatch(self, server: str, uri: str) -> None:
        await self._subscribe("resources/unsubscribe", uri)

    async def _subscribe(self, method: str, uri: str) -> None:
        if self._session().protocol_version in MODERN_PROTOCOL_VERSIONS:
            # The stateless protocol sends updates on a separate stream, which only the session's owner can keep open.
            message = "updates of this server's resources cannot be watched from here"
            raise UpstreamFailure("UPSTREAM_ERROR", f"{method} on a stateless session", message=message)
        await self.request(self._name, method, {"uri": uri})

    def _session(self) -> ClientSession:
        if isinstance(self._connection, ClientSession):
            return self._connection
        try:
            return self._connection.session
        except RuntimeError as error:
            raise UpstreamFailure("UPSTREAM_UNAVAILABLE", f"{self._name or 'the client'} is not connected") from error

    def _capabilities(self) -> ServerCapabilities:
        capabilities = self._session().server_capabilities
        if capabilities is None:
            raise UpstreamFailure("UPSTREAM_UNAVAILABLE", f"{self._name or 'the session'} is not initialized")
        return capabilities


# The name that the reference documents give to the resources and prompts of a session.
McpClientPrimitiveUpstream = McpClientUpstream
