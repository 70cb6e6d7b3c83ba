"""Keeps one server connected, lists what it offers, sends requests to it, and passes its questions to clients.

A server that ends or fails is started again, with backoff. Meanwhile calls fail fast, and its last offers stay.
"""

from __future__ import annotations

import hashlib
import logging
import math
import random
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal

import anyio
from mcp import Client, ClientSession, MCPError, types
from mcp.client import advertise
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.types import PromptListChangedNotification, ResourceListChangedNotification, ToolListChangedNotification
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from leafgate.clean.sanitize import sanitize_text
from leafgate.codec.leaf import has_codec_meta
from leafgate.model.errors import UpstreamFailure
from leafgate.model.request import ClientChannel
from leafgate.ports import TASKS, CacheHint, Intake, OfferKind, ServerInstance
from leafgate.upstream import HttpServer, ServerSpec
from leafgate.upstream.back_channel import BackChannel, Places, questions_only
from leafgate.upstream.child import ServerEnd
from leafgate.upstream.connect import open_streams
from leafgate.upstream.early_tasks import call_as_task, get_early_task, has_early_tasks, runs_as_task
from leafgate.upstream.raw_session import (
    TOO_LARGE,
    Params,
    ProgressRoutes,
    ServerOffers,
    add_client_params,
    check_type,
    classify,
    list_server,
    raw_request,
)
from leafgate.upstream.receive import note_refusal

log = logging.getLogger("leafgate.upstream")

FIRST_BACKOFF: Final = 0.5
LONGEST_BACKOFF: Final = 30.0
MAX_ROUNDS: Final = 10
# A list whose TTL has ended is asked for again, so often at most. One without a TTL, or whose changes are announced, is
# not urgent.
SHORTEST_TTL: Final = 5.0
# A server that announces changes without end is listed ever less often: each list is a new catalog for all clients.
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 30.0
CALM_SECONDS: Final = 5.0  # without an announced change; then the next one is listed at once again
UNHURRIED_TTL: Final = 60.0
MAX_INSTRUCTIONS: Final = 65_536  # characters that are kept, which is more than is shown
WATCH_SECONDS: Final = 2.0  # for a stateless server to acknowledge that it reports updates of a resource
LONGEST_TTL: Final = 24 * 60 * 60.0

State = Literal["starting", "up", "down"]
_LIST_CHANGES: Final = ToolListChangedNotification, ResourceListChangedNotification, PromptListChangedNotification

_RESOURCE_LISTS: Final[tuple[OfferKind, ...]] = ("resources", "templates", "skills")
Extensions = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Listeners:
    """Callbacks for changed offers and for updated resources. `intake_of` returns the share of a server by its name
    (its label); without it, messages are read as they come."""

    on_change: Callable[[], None]
    on_update: Callable[[str], None]
    intake_of: Callable[[str], Intake] | None = None


class SupervisedServer:
    """One server of the fleet. `run` is a separate task for as long as the gateway runs."""

    def __init__(
        self,
        spec: ServerSpec,
        listeners: Listeners,
        *,
        extensions: Extensions = MappingProxyType({}),
        watched_uris: Collection[str] = (),
    ) -> None:
        """`extensions` are declared to the server, by their identifiers, with their settings."""
        self.spec = spec
        self._extensions = extensions
        self.state: State = "starting"
        self.offers = ServerOffers()
        self.capabilities = types.ServerCapabilities()
        self.instructions = ""
        self._has_early_tasks = False
        self.has_shown_leaf = False  # on the present connection
        self._end_reason = ""  # of the last connection, in the gateway's own words
        self.last_failure: str | None = None  # for operators: it may quote the server, with its secrets
        self.exit_code: int | None = None  # of the last process, if it ended by itself
        self.first_try_over = anyio.Event()
        self.came_up = anyio.Event()
        self._life = anyio.CancelScope()
        self._under_way = 0
        self._call_ended = anyio.Event()
        self._listeners = listeners
        self._intake = None if listeners.intake_of is None else listeners.intake_of(spec.label)
        self._routes = ProgressRoutes()
        self._connection: Client | None = None
        self._back = BackChannel(Places(spec.concurrency))
        self._ended = anyio.Event()
        self._stale = anyio.Event()
        self._hurry = anyio.Event()  # set where a new list must not wait for the pause after the last one
        self._timed_out = anyio.Event()
        self.watched_uris = set(watched_uris)  # of the resources whose updates are reported
        self._watch_change = anyio.Event()
        self._followed_uris: frozenset[str] = frozenset()  # those whose updates a stateless server reports now
        self._follow_change = anyio.Event()
        self._announced: Collection[OfferKind] = ()  # the lists whose changes a stateless server announces now
        self._listed_at = 0.0
        self._life_id = ""  # of the present connection

    async def run(self) -> None:
        """Connect, and connect again, until cancelled or retired."""
        backoff = FIRST_BACKOFF
        with self._life:
            while True:
                was_up = await self._connect_once()
                backoff = FIRST_BACKOFF if was_up else min(backoff * 2, LONGEST_BACKOFF)
                # What a server writes at its start helps to set it up. Later it may quote a call.
                reason = self._end_reason if was_up else self.last_failure
                log.warning("[%s] down (%s); next try in %.1f s", self.spec.name, reason, backoff)
                log.debug("[%s] down (%s)", self.spec.name, self.last_failure)
                await anyio.sleep(backoff)

    async def retire(self) -> None:
        """End the server once the calls under way are answered or timed out. No further call may be made."""
        with anyio.move_on_after(self.spec.timeout):
            while self._under_way:
                self._call_ended = anyio.Event()
                await self._call_ended.wait()
        self._life.cancel()

    def adopt(self, spec: ServerSpec) -> None:
        """Change settings that need no new connection: the tools it shows, timeouts, concurrency."""
        assert spec.reach == self.spec.reach
        self.spec = spec
        self._back.places = Places(spec.concurrency)
        self._stale.set()
        self._hurry.set()

    async def request(self, method: str, params: Params, client: ClientChannel | None = None) -> dict[str, Any]:
        """The raw result of a request. Raises UpstreamFailure only."""
        connection = self._connection
        if connection is None:
            raise self._unavailable()
        ended = self._ended
        self._under_way += 1
        try:
            with note_refusal() as refusal, self._back.open_to(client):
                raw = await self._request_until_complete(
                    connection.session, method, add_client_params(method, params, client), client
                )
                self.has_shown_leaf = self.has_shown_leaf or (method == "tools/call" and has_codec_meta(raw))
                return raw
        except Exception as error:
            failure = classify(error, refusal.status)
            if refusal.is_too_large:
                failure = UpstreamFailure("UPSTREAM_ERROR", TOO_LARGE, message=TOO_LARGE)
            if failure.code == "UPSTREAM_UNAVAILABLE":
                ended.set()  # over HTTP nothing else shows that the other side is gone
            elif failure.code == "UPSTREAM_TIMEOUT":
                self._timed_out.set()
            raise failure from error
        finally:
            self._under_way -= 1
            self._call_ended.set()

    def _unavailable(self) -> UpstreamFailure:
        """Why no request can be made now. What the server wrote is in the detail only, which no model sees."""
        message, details = "", {}
        if self.state == "starting":
            message = "the server is still starting"
        elif self.exit_code is not None:
            message, details = "the server's process has ended; it is started again", {"exit_code": self.exit_code}
        detail = f"{self.spec.name} is {self.state}" + ("" if self.last_failure is None else f": {self.last_failure}")
        return UpstreamFailure("UPSTREAM_UNAVAILABLE", detail, message=message, details=details)

    async def watch(self, uri: str) -> None:
        """Report updates of this resource from now on."""
        self.watched_uris.add(uri)
        await self._subscribe("resources/subscribe", uri)

    async def unwatch(self, uri: str) -> None:
        self.watched_uris.discard(uri)
        await self._subscribe("resources/unsubscribe", uri)

    async def _subscribe(self, method: str, uri: str) -> None:
        if not self._is_modern():
            await self.request(method, {"uri": uri})
            return
        self._watch_change.set()
        with anyio.move_on_after(WATCH_SECONDS):  # an update right after this must not be missed
            while self._followed_uris != self.watched_uris:
                await self._follow_change.wait()

    async def _request_until_complete(
        self, session: ClientSession, method: str, params: dict[str, Any], client: ClientChannel | None
    ) -> dict[str, Any]:
        """Send a request; if the server needs input first, ask the client and send it again with the answers."""
        progress = None if client is None else client.progress
        capabilities = None if client is None else self._show_capabilities(client)
        served_types = ("task",) if method == "tools/call" and TASKS in self._extensions else ()

        async def send(method: str, params: dict[str, Any]) -> dict[str, Any]:
            async with self._back.places.take():  # not while a client is asked: that may take as long as a person takes
                return await raw_request(
                    session,
                    method,
                    params,
                    seconds=self.spec.timeout,
                    on_progress=progress,
                    routes=self._routes,
                    capabilities=capabilities,
                )

        if self._has_early_tasks:
            if method == "tools/call" and runs_as_task(self.offers.tools, params.get("name")):
                return await call_as_task(send, params)
            if method == "tasks/get":
                can_ask = client is not None and not client.takes_input_requests
                return await get_early_task(send, params, can_ask=can_ask)
        for _ in range(MAX_ROUNDS):
            raw = await send(method, params)
            if check_type(raw, served_types) != "input_required":
                return raw
            raw = questions_only(raw)
            if client is not None and client.takes_input_requests:
                return raw
            params = {**params, **await self._back.answer_questions(raw, client)}
        raise UpstreamFailure("UPSTREAM_ERROR", f"{self.spec.name} asked for input more than {MAX_ROUNDS} times")

    def _show_capabilities(self, client: ClientChannel) -> Mapping[str, Any]:
        """What a server may use during a request: what the client can do, and tasks, which the gateway can wait for."""
        if TASKS not in self._extensions:
            return client.capabilities
        extensions = {**client.capabilities.get("extensions", {}), TASKS: dict(self._extensions[TASKS])}
        return {**client.capabilities, "extensions": extensions}

    @property
    def instance(self) -> ServerInstance:
        """A URL has the same tasks for all gateways. A process loses its tasks at its end; the next may reuse ids."""
        reach = self.spec.reach
        place = hashlib.sha256(reach.url.encode()).hexdigest()[:16] if isinstance(reach, HttpServer) else self._life_id
        return ServerInstance(place, self.spec.timeout)

    async def _connect_once(self) -> bool:
        """Connect, and serve until the connection ends. Returns whether it came up."""
        ended = self._ended = anyio.Event()
        end = ServerEnd()
        self._life_id = secrets.token_hex(8)
        self._back.start()
        self.has_shown_leaf = came_up = False
        client = Client(
            open_streams(self.spec, ended, self._intake, end, self._routes),
            message_handler=self._on_message,
            logging_callback=self._back.log,
            sampling_callback=self._back.sample,
            elicitation_callback=self._back.elicit,
            list_roots_callback=self._back.list_roots,
            extensions=[advertise(identifier, dict(settings)) for identifier, settings in self._extensions.items()],
            cache=None,
        )
        try:
            with note_refusal() as refusal, anyio.fail_after(self.spec.start_timeout) as starting:
                async with client:
                    starting.deadline = float("inf")
                    self._connection = client
                    self.capabilities = client.server_capabilities
                    self.instructions = (client.instructions or "")[:MAX_INSTRUCTIONS]
                    self._has_early_tasks = TASKS in self._extensions and has_early_tasks(self.capabilities)
                    await self._list(client)
                    came_up = True
                    self._set_state("up")
                    await self._serve(client, ended)
            self._note_end("the server ended the connection", "", end)
        except Exception as error:
            failure = classify(error, refusal.status)
            self._note_end(failure.describe(), failure.detail, end)
        finally:
            self._connection = None
            self._set_state("down")
        return came_up

    def _note_end(self, reason: str, detail: str, end: ServerEnd) -> None:
        self.exit_code = end.exit_code
        code = "" if end.exit_code is None else f"; its process {_describe_exit(end.exit_code)}"
        line = sanitize_text(end.last_line).value.strip()
        self._end_reason = reason + code
        details = f": {detail}" if detail else ""
        self.last_failure = reason + details + code + (f"; its last line on stderr: {line}" if line else "")

    async def _serve(self, client: Client, ended: anyio.Event) -> None:
        """Keep the offers fresh until the connection ends."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._refresh_when_stale, client)
            group.start_soon(self._end_if_it_hangs, client, ended)
            if self._is_modern():
                group.start_soon(self._listen, client)
            else:
                group.start_soon(self._subscribe_again, client)
            await ended.wait()
            group.cancel_scope.cancel()

    def list_hint(self, kind: OfferKind) -> CacheHint | None:
        """What is left of the server's promise for a list; None if it has no such list."""
        hint = self.offers.hints.get(kind)
        if hint is None:
            return None
        age_ms = math.ceil(1000 * (anyio.current_time() - self._listed_at))
        return replace(hint, ttl_ms=0 if self._stale.is_set() else max(0, hint.ttl_ms - age_ms))

    async def _refresh_when_stale(self, client: Client) -> None:
        failures, pause = 0, FIRST_PAUSE
        while True:
            waiting_since = anyio.current_time()
            with anyio.move_on_after(self._seconds_to_next_list(failures)):
                await self._stale.wait()
            is_calm = anyio.current_time() - waiting_since >= max(pause, CALM_SECONDS)
            pause = FIRST_PAUSE if is_calm else min(2 * pause, LONGEST_PAUSE)
            self._stale = anyio.Event()
            try:
                await self._list(client)
                failures = 0
            except (MCPError, UpstreamFailure) as error:
                failures += 1
                failure = classify(error)
                log.warning("[%s] cannot be listed again: %s; its last offers stay", self.spec.name, failure.describe())
                log.debug("[%s] cannot be listed again: %s", self.spec.name, failure)
            with anyio.move_on_after(pause):
                await self._hurry.wait()
            self._hurry = anyio.Event()

    def _seconds_to_next_list(self, failures: int) -> float | None:
        """When to list again without an announced change; None: never, as the handshake era has no TTLs.

        The wait is up to a tenth longer than the TTL: gateways that started together do not ask together.
        """
        hints = self.offers.hints.items() if self._is_modern() else ()
        waits = [
            max(hint.ttl_ms / 1000, UNHURRIED_TTL if kind in self._announced or not hint.ttl_ms else SHORTEST_TTL)
            for kind, hint in hints
            if hint.ttl_ms or kind not in self._announced
        ]
        if not waits:
            return None
        return min(LONGEST_TTL, min(waits) * 2.0 ** min(failures, 10)) * random.uniform(1, 1.1)

    async def _end_if_it_hangs(self, client: Client, ended: anyio.Event) -> None:
        """After a timeout, send a ping: a server that does not answer it hangs, and is started again."""
        while True:
            await self._timed_out.wait()
            self._timed_out = anyio.Event()
            ping = "server/discover" if self._is_modern() else "ping"
            try:
                await raw_request(client.session, ping, {}, seconds=self.spec.start_timeout)
            except MCPError as error:
                if error.code == types.REQUEST_TIMEOUT:
                    log.warning("[%s] hangs, and is given up", self.spec.name)
                    ended.set()

    async def _subscribe_again(self, client: Client) -> None:
        """Subscribe to the watched resources on a new connection."""
        for uri in sorted(self.watched_uris):
            try:
                await raw_request(client.session, "resources/subscribe", {"uri": uri}, seconds=self.spec.timeout)
            except MCPError as error:
                failure = classify(error)
                log.warning("[%s] cannot subscribe to a resource again: %s", self.spec.name, failure.describe())
                log.debug("[%s] cannot subscribe to %s again: %s", self.spec.name, uri, failure)

    async def _listen(self, client: Client) -> None:
        """Follow the changes that a stateless server announces; listen again whenever a resource is added.

        A stream that ended is opened again, after a backoff. A server that has never opened one is not asked again.
        """
        backoff, has_streams = FIRST_BACKOFF, False
        while True:
            self._watch_change, uris = anyio.Event(), frozenset(self.watched_uris)
            stream = client.listen(
                tools_list_changed=True,
                prompts_list_changed=True,
                resources_list_changed=True,
                resource_subscriptions=sorted(uris),
            )
            started = anyio.current_time()
            try:
                async with stream as events, anyio.create_task_group() as group:
                    self._announced, has_streams = _announced_lists(events.honored), True
                    self._set_followed(uris)

                    async def follow(events: Any = events, group: Any = group) -> None:
                        async for event in events:
                            uri = getattr(event, "uri", None)
                            self._stale.set() if uri is None else self._report_update(uri)
                        group.cancel_scope.cancel()

                    group.start_soon(follow)
                    await self._watch_change.wait()
                    group.cancel_scope.cancel()
            except (ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError, BaseExceptionGroup) as error:
                log.debug("[%s] no change notifications: %s", self.spec.name, error)
            self._announced = ()
            self._set_followed(frozenset())
            if self._watch_change.is_set():
                continue
            if not has_streams:
                await self._watch_change.wait()
                continue
            self._stale.set()  # changes since the stream ended were not announced
            backoff = FIRST_BACKOFF if anyio.current_time() - started > LONGEST_BACKOFF else backoff
            with anyio.move_on_after(backoff):
                await self._watch_change.wait()
            backoff = min(backoff * 2, LONGEST_BACKOFF)

    def _set_followed(self, uris: frozenset[str]) -> None:
        self._followed_uris = uris
        self._follow_change.set()
        self._follow_change = anyio.Event()

    async def _list(self, client: Client) -> None:
        listed_at = anyio.current_time()
        listed = await list_server(client.session, self.capabilities, self.spec.timeout, self.spec.name)
        offers = replace(listed, tools=tuple(tool for tool in listed.tools if self.spec.offers_tool(tool.get("name"))))
        has_changed = offers != self.offers
        self.offers = offers if has_changed else replace(self.offers, hints=offers.hints)
        self._listed_at = listed_at
        if has_changed:
            self._listeners.on_change()

    async def _on_message(self, message: types.ServerNotification | Exception) -> None:
        if isinstance(message, _LIST_CHANGES):
            self._stale.set()
        elif isinstance(message, types.ResourceUpdatedNotification):
            self._report_update(message.params.uri)

    def _report_update(self, uri: str) -> None:
        """Report the update of a resource that is watched here: a server cannot report those of another one."""
        if uri in self.watched_uris:
            self._listeners.on_update(uri)

    def _is_modern(self) -> bool:
        return self._connection is not None and self._connection.protocol_version in MODERN_PROTOCOL_VERSIONS

    def _set_state(self, state: State) -> None:
        """Set the state after the listeners have the offers: tasks that wait for the first try need them."""
        self.state = state
        self.first_try_over.set()
        if state == "up":
            self.came_up.set()


def _announced_lists(honored: types.SubscriptionFilter) -> Collection[OfferKind]:
    """The lists whose changes a server has agreed to announce. Skills are resources."""
    lists: dict[OfferKind, bool | None] = {
        "tools": honored.tools_list_changed,
        "prompts": honored.prompts_list_changed,
        **dict.fromkeys(_RESOURCE_LISTS, honored.resources_list_changed),
    }
    return [kind for kind, is_announced in lists.items() if is_announced]


def _describe_exit(code: int) -> str:
    return f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
