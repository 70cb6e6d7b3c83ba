"""The outermost HTTP layer: refuses requests that were meant for another host.

A page in a browser can make its own host name point to this gateway (DNS rebinding); the headers Host and Origin show
it: 421 for a foreign Host, 403 for a foreign Origin.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from leafgate.server.auth.layer import ReportRefusal, ignore_refusal

LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class HostRules:
    """The Host and Origin headers that are taken; `name:*` stands for any port."""

    hosts: Sequence[str]
    origins: Sequence[str]


def host_rules(bound: str, hosts: Sequence[str] = (), origins: Sequence[str] = ()) -> HostRules:
    """The rules of a gateway that listens on an address: that address, and the names that the operator adds.

    A name without a port stands for itself on any port. Pages of the gateway itself, and of a proxy before it, have
    its names in their Origin.
    """
    address = _address(bound)
    is_any = address is not None and address.is_unspecified
    names = [*(LOOPBACK_NAMES if is_any or is_loopback(bound) else ()), *(() if is_any else (url_host(bound),)), *hosts]
    allowed: list[str] = []
    for name in (url_host(name).lower() for name in names):
        has_port = name.rpartition("]")[2].count(":") == 1
        allowed += [name] if has_port else [name, f"{name}:*"]
    allowed = [*dict.fromkeys(allowed)]
    own = [f"{scheme}://{host}" for host in allowed for scheme in ("http", "https")]
    return HostRules(hosts=allowed, origins=[*own, *(origin.lower() for origin in origins)])


def url_host(host: str) -> str:
    """A host as it stands in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if _address(host) is not None and ":" in host else host


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


LOOPBACK_RULES: Final = host_rules("127.0.0.1")


class HostGuard:
    """An ASGI layer round everything that is served: the only one that checks Host and Origin.

    Behind it they are in lower case, as browsers have them. Blanks round the value of a header, which the faster parser
    leaves in place at its end, are removed.
    """

    def __init__(self, app: ASGIApp, rules: HostRules, report_refusal: ReportRefusal = ignore_refusal) -> None:
        self._app = app
        self._report_refusal = report_refusal
        self._hosts = frozenset(rules.hosts)
        self._origins = frozenset(rules.origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        normal = {**scope, "headers": [_normal(*header) for header in scope["headers"]]}
        refused = self._refused(Headers(scope=normal))
        if refused is not None:
            self._report_refusal(None, scope.get("path", ""), bytes(refused.body).decode())
        await (self._app if refused is None else refused)(normal, receive, send)

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


def _is_among(value: str, allowed: Collection[str]) -> bool:
    """Whether it is taken as it is, or with any port; and a port is a number."""
    name, _, port = value.rpartition(":")
    return value in allowed or (port.isascii() and port.isdigit() and f"{name}:*" in allowed)
