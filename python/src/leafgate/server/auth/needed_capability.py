"""Which capability does a request need? In: an MCP method, its parameters, our own tools. Out: a capability, or none.

Touches nothing. A method that is not known here needs the most that a client can have.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from leafgate.model.principal import Capability

# The gateway's own methods tell how it does for everybody.
OWN_METHODS: Final = "leafgate/"

_METHODS: Final[Mapping[str, Capability | None]] = {
    "initialize": None,
    "ping": None,
    "server/discover": None,
    "logging/setLevel": None,
    "tools/list": "browse",
    "resources/list": "browse",
    "resources/templates/list": "browse",
    "prompts/list": "browse",
    "subscriptions/listen": "browse",
    "resources/subscribe": "browse",
    "resources/unsubscribe": "browse",
}
_OWN_TOOLS: Final[Mapping[str, Capability]] = {
    "tool_browse": "browse",
    "tool_hydrate": "browse",
    "resource_browse": "browse",
    "prompt_browse": "browse",
    "tool_view": "view",
}


def needed_for(method: str, params: Mapping[str, Any] | None, own_tools: Collection[str]) -> Capability | None:
    """`own_tools` are the gateway's: a server's tool of the same name, where those are listed, is executed."""
    if method.startswith("notifications/"):
        return None
    if method.startswith(OWN_METHODS):
        return "operate"
    if method == "tools/call":
        name = (params or {}).get("name")
        return _OWN_TOOLS.get(name, "execute") if isinstance(name, str) and name in own_tools else "execute"
    return _METHODS.get(method, "execute")
