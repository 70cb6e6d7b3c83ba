"""How requests are addressed in each era of the protocol. In: a request. Out: headers and `_meta`. Touches nothing."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from leafgate.version import __version__

STATELESS_VERSION: Final = "2026-07-28"
HANDSHAKE_VERSION: Final = "2025-11-25"
CLIENT_INFO: Final = {"name": "leafgate-client", "version": __version__}

# What a request without a session says of itself, each time.
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": STATELESS_VERSION,
    "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
    "io.modelcontextprotocol/clientCapabilities": {},
}
_NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PLAIN = re.compile(r"(?!=\?)[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


@dataclass(frozen=True)
class Stateless:
    """2026-07-28: each request says who asks and in which version; there is no session."""

    @property
    def meta(self) -> Mapping[str, Any]:
        return _META

    def headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        named = params.get(_NAMED_BY.get(method, ""))
        name = {"mcp-name": _header_value(named)} if isinstance(named, str) else {}
        return {"mcp-protocol-version": STATELESS_VERSION, "mcp-method": method, **name}


@dataclass(frozen=True)
class Session:
    """2025-11-25 and before: the handshake has settled the version, and perhaps a session."""

    version: str = HANDSHAKE_VERSION
    session_id: str | None = None

    @property
    def meta(self) -> Mapping[str, Any]:
        return {}

    def headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        session = {"mcp-session-id": self.session_id} if self.session_id else {}
        return {"mcp-protocol-version": self.version, **session}


Era = Stateless | Session


def _header_value(value: str) -> str:
    """A header holds visible ASCII; any other name is written in base64."""
    if _PLAIN.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="
