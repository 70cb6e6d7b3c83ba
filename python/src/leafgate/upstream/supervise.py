"""Keeps one server connected. In: a ServerSpec. Out: what it offers, its answers, and word whenever its offers change.

Touches processes and the network through upstream/connect. A server that ends or fails is started again, with backoff;
meanwhile calls fail fast, and what it offered stays known.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import anyio
from mcp import Client, ClientSession, MCPError
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.types import (
    LOG_LEVEL_META_KEY,
    REQUEST_TIMEOUT,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    ServerCapabilities,
    ServerNotification,
    ToolListChangedNotification,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from leafgate.model.errors import GatewayError, UpstreamFailure
from leafgate.ports import Caller
from leafgate.upstream.back_channel import BackChannel
from leafgate.upstream.classify import classify
from leafgate.upstream.connect import noting_refusal, open_streams
from leafgate.upstream.listing import Listed, list_everything
from leafgate.upstream.raw_session import raw_request
from leafgate.upstream.server_spec import ServerSpec

log = logging.getLogger("leafgate.upstream")

FIRST_BACKOFF: Final = 0.5
LONGEST_BACKOFF: Final = 30.0
MAX_ROUNDS: Final = 10

State = Literal["starting", "up", "down"]


@dataclass(frozen=True)
class Listeners:
    """Who hears of a server: of changed offers, and of a resource that was updated. `ready` is waited for before its
    next message is read."""

    changed: Callable[[], None]
    updated: Callable[[str], None]
    ready: Callable[[], Awaitable[None]]


class Supervised:
    """One server of the fleet. `run` lives in a task of its own, for as long as the gateway does."""

    def __init__(self, spec: ServerSpec, listeners: Listeners, *, watched: Collection[str] = ()) -> None:
        self.spec = spec
        self.state: State = "starting"
        self.offers = Listed()
        self.capabilities = ServerCapabilities()
        self.last_failure: str | None = None
        self.first_try_over = anyio.Event()
        self.came_up = anyio.Event()
        self._life = anyio.CancelScope()
        self._under_way = 0
        self._answered = anyio.Event()
        self._listeners = listeners
        self._client: Client | None = None
        self._back = BackChannel()
        self._places = _places(spec)
        self._ended = anyio.Event()
        self._stale = anyio.Event()
        self._doubted = anyio.Event()
        self._watched = set(watched)
        self._watched_changed = anyio.Event()

    @property
    def watched(self) -> Collection[str]:
        """The resources whose updates are told, by their URIs."""
        return self._watched

    async def run(self) -> None:
        """Connects, and connects again, until cancelled or retired."""
        backoff = FIRST_BACKOFF
        with self._life:
            while True:
                was_up = await self._connect_once()
                backoff = FIRST_BACKOFF if was_up else min(backoff * 2, LONGEST_BACKOFF)
                log.warning("[%s] down (%s); next try in %.1f s", self.spec.name, self.last_failure, backoff)
                await anyio.sleep(backoff)

    async def retire(self) -> None:
        """Ends the server once the calls under way are answered, or their time is over. Nobody may call it any more."""
        with anyio.move_on_after(self.spec.timeout):
            while self._under_way:
                self._answered = anyio.Event()
                await self._answered.wait()
        self._life.cancel()

    def adopt(self, spec: ServerSpec) -> None:
        """Other settings for the same connection: what it shows, how long and how many calls may take."""
        assert spec.reach == self.spec.reach
        self.spec = spec
        self._places = _places(spec)
        self._stale.set()

    async def request(self, method: str, params: Mapping[str, Any], caller: Caller | None = None) -> dict[str, Any]:
        """The raw result of a request. Raises UpstreamFailure only."""
        client = self._client
        if client is None:
            raise UpstreamFailure("UPSTREAM_UNAVAILABLE", f"{self.spec.name} is {self.state}: {self.last_failure}")
        ended = self._ended
        self._under_way += 1
        try:
            with noting_refusal() as refusal:
                async with self._places:
                    with self._back.open_to(caller):
                        return await self._until_complete(client.session, method, dict(params), caller)
        except Exception as error:
            failure = classify(error, refusal.status)
            if failure.code == "UPSTREAM_UNAVAILABLE":
                ended.set()  # over HTTP nothing else tells that the other side has gone
            elif failure.code == "UPSTREAM_TIMEOUT":
                self._doubted.set()
            raise failure from error
        finally:
            self._under_way -= 1
            self._answered.set()

    async def watch(self, uri: str) -> None:
        """From now on, an update of this resource is told to the listener."""
        self._watched.add(uri)
        if self._is_modern():
            self._watched_changed.set()
        else:
            await self.request("resources/subscribe", {"uri": uri})

    async def unwatch(self, uri: str) -> None:
        self._watched.discard(uri)
        if self._is_modern():
            self._watched_changed.set()
        else:
            await self.request("resources/unsubscribe", {"uri": uri})

    async def _until_complete(
        self, session: ClientSession, method: str, params: dict[str, Any], caller: Caller | None
    ) -> dict[str, Any]:
        """Asks, and where the server needs to know more first, has the caller asked and asks again."""
        if caller is not None:
            params |= caller.resume
            if caller.log_level is not None:
                params["_meta"] = {**params.get("_meta", {}), LOG_LEVEL_META_KEY: caller.log_level}
        progress = None if caller is None else caller.progress
        for _ in range(MAX_ROUNDS):
            raw = await raw_request(
                session,
                method,
                params,
                seconds=self.spec.timeout,
                on_progress=progress,
                capabilities=None if caller is None else caller.capabilities,
            )
            if raw.get("resultType") != "input_required":
                return raw
            raw = _questions_only(raw)
            if caller is not None and caller.takes_input_requests:
                return raw
            params = {**params, **await _answers(raw, caller)}
        raise UpstreamFailure("UPSTREAM_ERROR", f"{self.spec.name} asked for input more than {MAX_ROUNDS} times")

    async def _connect_once(self) -> bool:
        """One connection from beginning to end. Whether it ever came up."""
        ended = self._ended = anyio.Event()
        came_up = False
        client = Client(
            open_streams(self.spec, ended, self._listeners.ready),
            message_handler=self._on_message,
            logging_callback=self._back.log,
            sampling_callback=self._back.sample,
            elicitation_callback=self._back.elicit,
            list_roots_callback=self._back.list_roots,
            cache=None,
        )
        try:
            with noting_refusal() as refusal, anyio.fail_after(self.spec.start_timeout) as starting:
                async with client:
                    starting.deadline = float("inf")
                    self._client = client
                    self.capabilities = client.server_capabilities
                    await self._list(client)
                    came_up = True
                    self._set_state("up")
                    await self._serve(client, ended)
            self.last_failure = "the server ended the connection"
        except Exception as error:
            self.last_failure = str(classify(error, refusal.status))
        finally:
            self._client = None
            self._set_state("down")
        return came_up

    async def _serve(self, client: Client, ended: anyio.Event) -> None:
        """Keeps the offers fresh until the connection is over."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._refresh_when_stale, client)
            group.start_soon(self._end_if_it_hangs, client, ended)
            if self._is_modern():
                group.start_soon(self._listen, client)
            else:
                group.start_soon(self._subscribe_again, client)
            await ended.wait()
            group.cancel_scope.cancel()

    async def _refresh_when_stale(self, client: Client) -> None:
        while True:
            await self._stale.wait()
            self._stale = anyio.Event()
            try:
                await self._list(client)
            except (MCPError, UpstreamFailure) as error:
                log.warning(
                    "[%s] its offers changed, but cannot be listed: %s; the old ones stay", self.spec.name, error
                )

    async def _end_if_it_hangs(self, client: Client, ended: anyio.Event) -> None:
        """A call that timed out may be slow; a server that answers nothing at all hangs, and is started anew."""
        while True:
            await self._doubted.wait()
            self._doubted = anyio.Event()
            sign_of_life = "server/discover" if self._is_modern() else "ping"
            try:
                await raw_request(client.session, sign_of_life, {}, seconds=self.spec.start_timeout)
            except MCPError as error:
                if error.code == REQUEST_TIMEOUT:
                    log.warning("[%s] hangs, and is given up", self.spec.name)
                    ended.set()

    async def _subscribe_again(self, client: Client) -> None:
        """A server that was started anew does not know what was subscribed before."""
        for uri in sorted(self._watched):
            try:
                await raw_request(client.session, "resources/subscribe", {"uri": uri}, seconds=self.spec.timeout)
            except MCPError as error:
                log.warning("[%s] cannot subscribe to %s again: %s", self.spec.name, uri, error)

    async def _listen(self, client: Client) -> None:
        """Follows the changes that a server of the stateless protocol announces, anew whenever a resource is added."""
        while True:
            self._watched_changed = anyio.Event()
            stream = client.listen(
                tools_list_changed=True,
                prompts_list_changed=True,
                resources_list_changed=True,
                resource_subscriptions=sorted(self._watched),
            )
            try:
                async with stream as events, anyio.create_task_group() as group:

                    async def follow(events: Any = events) -> None:
                        async for event in events:
                            uri = getattr(event, "uri", None)
                            self._stale.set() if uri is None else self._listeners.updated(uri)

                    group.start_soon(follow)
                    await self._watched_changed.wait()
                    group.cancel_scope.cancel()
            except (ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError, BaseExceptionGroup) as error:
                log.debug("[%s] no change notifications: %s", self.spec.name, error)
                await self._watched_changed.wait()

    async def _list(self, client: Client) -> None:
        found = await list_everything(client.session, self.capabilities, self.spec.timeout)
        offers = replace(found, tools=tuple(tool for tool in found.tools if self.spec.offers_tool(tool.get("name"))))
        if offers != self.offers:
            self.offers = offers
            self._listeners.changed()

    async def _on_message(self, message: ServerNotification | Exception) -> None:
        if isinstance(
            message, ToolListChangedNotification | ResourceListChangedNotification | PromptListChangedNotification
        ):
            self._stale.set()
        elif isinstance(message, ResourceUpdatedNotification):
            self._listeners.updated(message.params.uri)

    def _is_modern(self) -> bool:
        return self._client is not None and self._client.protocol_version in MODERN_PROTOCOL_VERSIONS

    def _set_state(self, state: State) -> None:
        """The listener has seen the offers before anybody who waits for the first try goes on."""
        self.state = state
        self.first_try_over.set()
        if state == "up":
            self.came_up.set()


def _places(spec: ServerSpec) -> AbstractAsyncContextManager[Any]:
    return nullcontext() if spec.concurrency is None else anyio.CapacityLimiter(spec.concurrency)


def _questions_only(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A result that asks for input goes round the firewall's budget; so it can hold nothing but its questions."""
    kept = {key: raw[key] for key in ("resultType", "inputRequests", "requestState", "_meta") if key in raw}
    if not isinstance(kept.get("inputRequests", {}), Mapping) or kept.keys().isdisjoint(
        ("inputRequests", "requestState")
    ):
        raise UpstreamFailure("UPSTREAM_ERROR", "the server asks for input, and does not say for which")
    return kept


async def _answers(raw: Mapping[str, Any], caller: Caller | None) -> dict[str, Any]:
    """What the client answers to the questions of an `input_required` result."""
    answers: dict[str, Any] = {}
    questions = raw.get("inputRequests")
    for key, question in (questions if isinstance(questions, Mapping) else {}).items():
        if caller is None or not isinstance(question, Mapping):
            raise UpstreamFailure("UPSTREAM_ERROR", "the server needs input, and nobody can be asked")
        try:
            answers[str(key)] = await caller.ask(str(question.get("method")), question.get("params") or {})
        except GatewayError as error:
            raise UpstreamFailure("UPSTREAM_ERROR", f"the client did not answer: {error}") from error
    state = {"requestState": raw["requestState"]} if isinstance(raw.get("requestState"), str) else {}
    return {"inputResponses": answers, **state}
