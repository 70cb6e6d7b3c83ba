"""What operators and their machines ask of a gateway over HTTP. In: how it is. Out: routes. Touches nothing."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Endpoint = Callable[[Request], Awaitable[Response]]
Recent = Callable[[float], Awaitable[Mapping[str, Any]]]


def operator_routes(
    status: Callable[[], Mapping[str, Any]],
    *,
    missing: Callable[[], Sequence[str]] = tuple,
    page: Callable[[str], tuple[bytes, str]] | None = None,
    recent: Recent | None = None,
) -> list[Route]:
    """Each answer is made when it is asked for.

    /health: the process answers. /ready: it waits for nothing any more (`missing`). /status: what `leafgate status`
    shows. /metrics: `page`, from an Accept header to a text and its media type. /api/metrics: what is `recent`, since
    a moment. The last two are there where they are given.
    """

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(request: Request) -> Response:
        waits_for = [*missing()]
        state = "starting" if waits_for else "ready"
        return JSONResponse({"status": state, "missing": waits_for}, status_code=503 if waits_for else 200)

    async def tell_status(request: Request) -> Response:
        return _fresh(JSONResponse(dict(status())))

    routes = [Route("/health", health), Route("/ready", ready), Route("/status", tell_status)]
    routes += [] if page is None else [Route("/metrics", _metrics(page))]
    return routes + ([] if recent is None else [Route("/api/metrics", _recent(recent))])


def _metrics(page: Callable[[str], tuple[bytes, str]]) -> Endpoint:
    async def metrics(request: Request) -> Response:
        body, media_type = page(request.headers.get("accept", ""))
        return _fresh(Response(body, headers={"content-type": media_type, "vary": "Accept"}))

    return metrics


def _recent(recent: Recent) -> Endpoint:
    async def tell_recent(request: Request) -> Response:
        since = _moment(request.query_params.get("since", "0"))
        if since is None:
            return JSONResponse({"error": "since is a number of seconds since 1970"}, status_code=400)
        # A whole day is megabytes of JSON: no other client waits while they are written.
        return _fresh(await to_thread.run_sync(JSONResponse, dict(await recent(since))))

    return tell_recent


def _moment(given: str) -> float | None:
    try:
        moment = float(given)
    except ValueError:
        return None
    return moment if math.isfinite(moment) else None


def _fresh(response: Response) -> Response:
    response.headers["cache-control"] = "no-store"
    return response
