"""The gateway as its servers see it: browse, hydrate, execute, view. In: whatever a client sent. Out: a result, always.

Awaits the ports it was given. Every request ends in `_answer`: one exit, one report, and no exception goes further.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Final

from leafgate.firewall.screen import DEFAULT_BUDGET
from leafgate.gateway import discover
from leafgate.gateway.deliver import Door, deliver_own, deliver_result
from leafgate.gateway.execute import execute
from leafgate.gateway.session import BrowseMemory
from leafgate.gateway.snapshot import Snapshot, build_snapshot
from leafgate.gateway.view import view
from leafgate.model.call import Asking
from leafgate.model.envelope import ENVELOPE_META_KEY, ResultEnvelope
from leafgate.model.errors import ErrorBody, GatewayError, UpstreamFailure
from leafgate.model.leaf import Level
from leafgate.ports import ArtifactStore, Recorder, ToolListing, Upstream
from leafgate.tokens.encoder import Encoder

log = logging.getLogger("leafgate.gateway")

BROWSE_META_KEY: Final = "leafgate/browse"

_UPSTREAM_MESSAGES: Mapping[str, str] = {
    "UPSTREAM_TIMEOUT": "the server did not answer in time",
    "UPSTREAM_UNAVAILABLE": "the server is not reachable at the moment",
    "AUTH_FAILED": "the server refused the gateway's credentials",
    "PERMISSION_DENIED": "the server refused this call",
    "RATE_LIMITED": "the server asks to slow down",
}


@dataclass(frozen=True)
class GatewayParts:
    """What a gateway is made of. The composition root fills it."""

    upstream: Upstream
    artifacts: ArtifactStore
    recorder: Recorder
    clean: Callable[[str], str]
    count: Callable[[str], int]
    encoder_of: Callable[[str], Encoder]
    budget: int = DEFAULT_BUDGET
    level: Level = "canonical"
    cache_stable: bool = False


class ProxyRuntime:
    """One gateway. Its catalog is a snapshot that is swapped whole."""

    def __init__(self, parts: GatewayParts) -> None:
        self._parts = parts
        self._door = Door(
            artifacts=parts.artifacts,
            recorder=parts.recorder,
            clean=parts.clean,
            count=parts.count,
            budget=parts.budget,
            level=parts.level,
            encoder_of=parts.encoder_of,
        )
        self._seen = BrowseMemory() if parts.cache_stable else None
        self._snapshot = build_snapshot((), parts.clean)

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    async def refresh_catalog(self) -> Snapshot:
        """Reads the upstreams' lists and swaps the new snapshot in; if anything fails, the old one stays whole."""
        return self.register_listings(await self._parts.upstream.list_tools())

    def register_listings(self, listings: Iterable[ToolListing]) -> Snapshot:
        """Builds the new snapshot in one synchronous step, so that no request sees half of it."""
        self._snapshot = build_snapshot(listings, self._parts.clean)
        if self._seen is not None:
            self._seen.forget_all()
        return self._snapshot

    async def browse(self, args: Mapping[str, Any], asking: Asking) -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            await self._parts.upstream.settled()
            top_k = args.get("top_k", discover.DEFAULT_TOP_K)
            page = discover.browse(self._snapshot, args.get("query"), args.get("path"), top_k, self._parts.count)
            if self._seen is not None:
                cards, state = self._seen.of(asking.owner).page(page.cards)
                self._seen.keep(asking.owner, state)
                page = replace(page, cards=cards)
            return await deliver_own(self._door, asking, page.text(), meta={BROWSE_META_KEY: page.as_json()})

        return await self._answer("tool_browse", asking, work)

    async def hydrate(self, args: Mapping[str, Any], asking: Asking) -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            await self._parts.upstream.settled()
            # Intake cleaned the prose of a schema, but not the values that its server compares with.
            text = self._parts.clean(discover.hydrate(self._snapshot, args.get("tool_id")))
            if self._seen is not None:
                self._seen.keep(asking.owner, self._seen.of(asking.owner).hydrated(str(args.get("tool_id"))))
            return await deliver_own(self._door, asking, text)

        return await self._answer("tool_hydrate", asking, work)

    async def execute(self, args: Mapping[str, Any], asking: Asking) -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            await self._parts.upstream.settled()
            done = await execute(self._snapshot, self._parts.upstream, args.get("tool_id"), args.get("args", {}))
            return await deliver_result(self._door, asking, done.origin, done.raw)

        return await self._answer("tool_execute", asking, work)

    async def view(self, args: Mapping[str, Any], asking: Asking) -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            selector = args.get("selector", {"type": "head"})
            text = await view(self._door, asking, args.get("handle"), selector)
            return await deliver_own(self._door, asking, text)

        return await self._answer("tool_view", asking, work)

    async def _answer(
        self, operation: str, asking: Asking, work: Callable[[], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        """The one exit: a result, or an error that says whose fault it is; reported once either way."""
        started = monotonic()
        error: ErrorBody | None = None
        try:
            return await work()
        except GatewayError as refused:
            error = refused.body
        except UpstreamFailure as failed:
            message = _UPSTREAM_MESSAGES.get(failed.code, "the server answered with an error")
            error = _logged(ErrorBody(failed.code, message), operation, failed.detail)
        except Exception as unexpected:
            log.exception("unexpected failure in %s", operation)
            body = ErrorBody("INTERNAL_ERROR", "the gateway failed on this request")
            error = _logged(body, operation, f"{type(unexpected).__name__}")
        finally:
            self._parts.recorder.call(operation, None if error is None else error.error, monotonic() - started)
        return await self._deliver_error(error, asking)

    async def _deliver_error(self, error: ErrorBody, asking: Asking) -> dict[str, Any]:
        text = self._parts.clean(json.dumps(error.as_json(), ensure_ascii=False, separators=(",", ":")))
        meta = {ENVELOPE_META_KEY: ResultEnvelope("error").as_json()}
        return await deliver_own(self._door, asking, text, is_error=True, meta=meta)


def _logged(body: ErrorBody, operation: str, detail: str) -> ErrorBody:
    """The error with an id that leads the operator to the detail, which only the log has."""
    correlation = secrets.token_hex(4)
    log.warning("%s failed, correlation id %s: %s: %s", operation, correlation, body.error, detail)
    return replace(body, details={**body.details, "correlation_id": correlation})
