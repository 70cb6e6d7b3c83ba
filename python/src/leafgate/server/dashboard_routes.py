"""The dashboard's files over HTTP. In: nothing. Out: routes, `/` for the page and `/dashboard/` for what it loads.

Reads the files of `dashboard/` once, when the routes are made. They hold nothing that is anybody's, so they stand
before the layer that asks who comes: what the page shows it asks for elsewhere, with the token that a person enters.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from leafgate.model.leaf import digest_of

PAGE_PATH: Final = "/"
FILES_PATH: Final = "/dashboard/"
PAGE_FILE: Final = "page.html"
MEDIA_TYPES: Final[Mapping[str, str]] = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
# Trusted types without a policy: no text of a foreign server can become markup, even by a mistake of ours.
CONTENT_POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)
HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # A newer gateway may stand at this address at any time: its files are asked for anew, and rarely sent again.
    "cache-control": "no-cache",
}


def dashboard_routes() -> list[Route]:
    """One route a file."""
    bodies = {file.name: file.read_bytes() for file in files("leafgate.server").joinpath("dashboard").iterdir()}
    page = bodies.pop(PAGE_FILE)
    loaded = [Route(f"{FILES_PATH}{name}", _served(name, body)) for name, body in sorted(bodies.items())]
    return [Route(PAGE_PATH, _served(PAGE_FILE, page)), *loaded]


def _served(name: str, body: bytes) -> Callable[[Request], Awaitable[Response]]:
    etag = f'"{digest_of(body)}"'
    headers = {**HEADERS, "content-type": MEDIA_TYPES[name.rpartition(".")[2]], "etag": etag}

    async def serve(request: Request) -> Response:
        known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
        if etag in known or "*" in known:
            return Response(status_code=304, headers={**HEADERS, "etag": etag})
        return Response(body, headers=headers)

    return serve


class OpenPages:
    """An ASGI layer that answers for its own routes, to everybody; all else goes on to the layers behind it."""

    def __init__(self, app: ASGIApp, routes: Sequence[Route]) -> None:
        self._app = app
        self._pages = {route.path: route for route in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        page = self._pages.get(scope["path"]) if scope["type"] == "http" else None
        await (self._app if page is None else page.handle)(scope, receive, send)
