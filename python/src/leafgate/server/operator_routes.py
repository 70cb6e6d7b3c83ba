"""What operators and their machines ask of a gateway over HTTP. In: how it is. Out: routes. Touches nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


def operator_routes(status: Callable[[], Mapping[str, Any]]) -> list[Route]:
    """/health says that the process answers; /status is what `leafgate status` shows."""

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def tell_status(request: Request) -> Response:
        return JSONResponse(dict(status()))

    return [Route("/health", health), Route("/status", tell_status)]
