"""The upstreams, with every request to a server timed and drawn. In: the ports. Out: the same ports.

Awaits the ports that it wraps, and changes nothing of what they answer. What a server says meanwhile reaches its caller
clean.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeVar

from leafgate.firewall.cleaner import Cleaner
from leafgate.gateway.clean_caller import CleanCaller
from leafgate.gateway.serving import end_of, goes_to
from leafgate.ports import CallEnd, Caller, NativeUpstream, Recorder, ToolListing, Tracer, Upstream

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Watch:
    """Who hears of requests to servers, and the cleaner of what those say: of all, or of one."""

    recorder: Recorder
    tracer: Tracer
    clean: Cleaner
    clean_for: Mapping[str, Cleaner] = field(default_factory=dict)

    def heard_by(self, caller: Caller | None, server: str) -> Caller | None:
        """The caller, as this server may talk to it."""
        return None if caller is None else CleanCaller(caller, self.clean_for.get(server, self.clean))

    async def over(self, server: str, method: str, target: str, request: Awaitable[Answer]) -> Answer:
        """The answer."""
        goes_to(server)
        started = perf_counter()
        end: CallEnd = None
        with self.tracer.stage("upstream", server=server, method=method, target=target) as span:
            try:
                return await request
            except BaseException as error:
                end = end_of(error)
                span.fail(str(end))
                raise
            finally:
                self.recorder.upstream(server, end, perf_counter() - started)


class ObservedUpstream:
    """An Upstream."""

    def __init__(self, inner: Upstream, watch: Watch) -> None:
        self._inner = inner
        self._watch = watch

    async def list_tools(self) -> Sequence[ToolListing]:
        return await self._inner.list_tools()

    async def call_tool(
        self, server: str, name: str, args: Mapping[str, Any], caller: Caller | None = None
    ) -> Mapping[str, Any]:
        call = self._inner.call_tool(server, name, args, self._watch.heard_by(caller, server))
        return await self._watch.over(server, "tools/call", name, call)

    async def settled(self) -> None:
        await self._inner.settled()


class ObservedPrimitives:
    """A NativeUpstream."""

    def __init__(self, inner: NativeUpstream, watch: Watch) -> None:
        self._inner = inner
        self._watch = watch
        self.list_resources = inner.list_resources
        self.list_resource_templates = inner.list_resource_templates
        self.list_prompts = inner.list_prompts
        self.server_of_resource = inner.server_of_resource
        self.servers_with = inner.servers_with
        self.watch = inner.watch
        self.unwatch = inner.unwatch

    async def read_resource(self, server: str, uri: str, caller: Caller | None = None) -> Mapping[str, Any]:
        # The address may hold what a client filled into a template: it is not drawn.
        reading = self._inner.read_resource(server, uri, self._watch.heard_by(caller, server))
        return await self._watch.over(server, "resources/read", "", reading)

    async def get_prompt(
        self, server: str, name: str, args: Mapping[str, str], caller: Caller | None = None
    ) -> Mapping[str, Any]:
        rendering = self._inner.get_prompt(server, name, args, self._watch.heard_by(caller, server))
        return await self._watch.over(server, "prompts/get", name, rendering)

    async def request(
        self, server: str, method: str, params: Mapping[str, Any], caller: Caller | None = None
    ) -> Mapping[str, Any]:
        asking = self._inner.request(server, method, params, self._watch.heard_by(caller, server))
        return await self._watch.over(server, method, "", asking)
