"""The outermost layer of the HTTP side. In: a request. Out: it, if it was meant for this gateway, or a refusal.

Touches nothing. A page in a browser can make its own host name point here (DNS rebinding); its Host or Origin gives it
away: 421 for a foreign Host, 403 for a foreign Origin.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class HostRules:
    """The Host and Origin headers that are taken; `name:*` stands for any port."""

    hosts: Sequence[str]
    origins: Sequence[str]

    def settings(self) -> TransportSecuritySettings:
        """The same, as the SDK wants it for its own endpoint."""
        return TransportSecuritySettings(allowed_hosts=[*self.hosts], allowed_origins=[*self.origins])


def host_rules(bound: str, hosts: Sequence[str] = (), origins: Sequence[str] = ()) -> HostRules:
    """The rules of a gateway that listens on an address: that address, and the names that the operator adds.

    A name without a port stands for itself on any port. Pages of the gateway itself, and of a proxy before it, have
    its names in their Origin.
    """
    names = [*(LOOPBACK_NAMES if _reaches_loopback(bound) else ()), *(() if _is_any(bound) else (written(bound),))]
    taken = [*dict.fromkeys(form for name in (*names, *hosts) for form in _forms(name))]
    own = [f"{scheme}://{host}" for host in taken for scheme in ("http", "https")]
    return HostRules(hosts=taken, origins=[*own, *(origin.lower() for origin in origins)])


def written(host: str) -> str:
    """A host as it stands in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if _address(host) is not None and ":" in host else host


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _forms(name: str) -> tuple[str, ...]:
    name = written(name).lower()
    has_port = name.rpartition("]")[2].count(":") == 1
    return (name,) if has_port else (name, f"{name}:*")


def _reaches_loopback(bound: str) -> bool:
    return is_loopback(bound) or _is_any(bound)


def _is_any(bound: str) -> bool:
    address = _address(bound)
    return address is not None and address.is_unspecified


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


LOOPBACK_RULES: Final = host_rules("127.0.0.1")


class HostGuard:
    """An ASGI layer round everything that is served.

    Behind it, Host and Origin are in lower case, as browsers have them: the SDK looks at them again, letter by letter.
    And no header has blanks round its value, which are no part of it: the faster parser leaves those behind it.
    """

    def __init__(self, app: ASGIApp, rules: HostRules) -> None:
        self._app = app
        self._hosts = frozenset(rules.hosts)
        self._origins = frozenset(rules.origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        named = {**scope, "headers": [_normal(*header) for header in scope["headers"]]}
        refused = self._refused(Headers(scope=named))
        await (self._app if refused is None else refused)(named, receive, send)

    def _refused(self, headers: Headers) -> Response | None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or not _is_among(hosts[0], self._hosts):
            return PlainTextResponse("Invalid Host header", 421)
        if not all(_is_among(origin, self._origins) for origin in origins):
            return PlainTextResponse("Invalid Origin header", 403)
        return None


def _normal(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    value = value.strip(b" \t")
    return name, value.lower() if name in (b"host", b"origin") else value


def _is_among(given: str, taken: Collection[str]) -> bool:
    """Whether it is taken as it is, or with any port; and a port is a number."""
    name, _, port = given.rpartition(":")
    return given in taken or (port.isascii() and port.isdigit() and f"{name}:*" in taken)
