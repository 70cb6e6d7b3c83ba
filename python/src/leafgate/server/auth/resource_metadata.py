"""Tells OAuth clients where tokens for this gateway come from (RFC 9728). In: the operator's settings. Out: routes.

Touches nothing. Without a configured URL the gateway is known by the name that the request used, which the host guard
has let through.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Scope

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")


@dataclass(frozen=True)
class ResourceMetadata:
    """What clients are told. `path` is that of the MCP endpoint."""

    authorization_servers: Sequence[str]
    scopes: Sequence[str] = ()
    resource: str | None = None
    path: str = "/mcp"

    def url(self, scope: Scope) -> str | None:
        """Where the metadata is; None where the request's own host cannot be told."""
        resource = self.resource_for(scope)
        if resource is None:
            return None
        parts = urlsplit(resource)
        return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path.rstrip('/')}"

    def resource_for(self, scope: Scope) -> str | None:
        """What this gateway is called."""
        if self.resource is not None:
            return self.resource
        host = Headers(scope=scope).get("host", "")
        return f"{scope.get('scheme', 'http')}://{host}{self.path}" if _HOST.fullmatch(host) else None

    @property
    def own_path(self) -> str:
        """The path of the URL that the operator gave, as it stands behind the well-known one."""
        return urlsplit(self.resource or "").path.rstrip("/")

    def document(self, scope: Scope) -> dict[str, Any]:
        told = {
            "resource": self.resource_for(scope),
            "authorization_servers": [*self.authorization_servers],
            "bearer_methods_supported": ["header"],
        }
        return told | ({"scopes_supported": [*self.scopes]} if self.scopes else {})


def metadata_routes(present: Callable[[], ResourceMetadata | None], path: str) -> list[Route]:
    """The document at the root, and at the paths that clients make of the endpoint's URL. What is told is asked for
    each time: the operator's settings may be exchanged."""

    async def tell(request: Request) -> Response:
        metadata = present()
        below = request.path_params.get("below", "")
        if metadata is None or below not in ("", path, metadata.own_path):
            return PlainTextResponse("Not Found", 404)
        return JSONResponse(metadata.document(request.scope), headers={"Access-Control-Allow-Origin": "*"})

    return [Route(WELL_KNOWN, tell), Route(f"{WELL_KNOWN}{{below:path}}", tell)]
