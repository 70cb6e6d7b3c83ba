"""Checks of the address: free, or served by leafgate already. In: a URL, or a host and port. Out: a Finding.

Touches the network. A 401 is told apart from a refused connection, and another program from a gateway.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any, Final

import httpx2

from leafgate.cli.doctor_checks.finding import Finding, fail, ok, warn
from leafgate.cli.gateway_address import TOKEN_VARIABLE, root_of, token_headers

GROUP: Final = "gateway"
SECONDS: Final = 5.0
_TOKEN_FIX: Final = f"put a token that it knows into {TOKEN_VARIABLE}"


def check_url(url: str) -> Iterator[Finding]:
    """A gateway that is said to run."""
    root = root_of(url)
    try:
        answer = httpx2.get(f"{root}/status", headers=token_headers(), timeout=SECONDS)
    except httpx2.ConnectError:
        yield fail(GROUP, root, "nothing listens there", "start it: leafgate serve --transport http")
        return
    except httpx2.HTTPError as error:
        yield fail(GROUP, root, f"does not answer ({type(error).__name__})", "look at the gateway's log")
        return
    except ValueError as error:
        yield fail(GROUP, root, f"is no URL: {error}", "such as http://127.0.0.1:8808")
        return
    if answer.status_code in (401, 403):
        yield fail(GROUP, root, f"wants a token ({answer.status_code})", _TOKEN_FIX)
        return
    status = _status(answer)
    if status is None:
        yield fail(GROUP, root, f"answers ({answer.status_code}), but is no leafgate", "correct the address")
        return
    yield ok(GROUP, root, f"leafgate {status['version']}, {status.get('tools', 0)} tools")
    yield from _upstreams(status)


def check_port(host: str, port: int, *, is_used: bool) -> Finding:
    """The address that `serve --transport http` would take. `is_used` says whether the configuration wants it."""
    name = f"{host}:{port}"
    if port == 0:
        return ok(GROUP, name, "a free port is chosen at the start")
    if not _listens(host, port):
        return ok(GROUP, name, "free")
    try:
        answer = httpx2.get(f"http://{_bracketed(host)}:{port}/status", headers=token_headers(), timeout=SECONDS)
    except httpx2.HTTPError:
        answer = None
    if answer is not None and answer.status_code in (401, 403):
        return warn(GROUP, name, f"what listens there wants a token ({answer.status_code})", _TOKEN_FIX)
    status = None if answer is None else _status(answer)
    if status is not None:
        return ok(GROUP, name, f"leafgate {status['version']} runs there already")
    judge = fail if is_used else warn
    return judge(GROUP, name, "another program listens there", "choose another port: --port, or `port` in the file")


def _upstreams(status: dict[str, Any]) -> Iterator[Finding]:
    for upstream in status["upstreams"]:
        name = f"its server {upstream.get('name')}"
        if upstream.get("state") == "up":
            yield ok(GROUP, name, f"up, {upstream.get('tools')} tools")
        else:
            yield fail(GROUP, name, str(upstream.get("state")), "leafgate doctor --config FILE says more")


def _status(answer: httpx2.Response) -> dict[str, Any] | None:
    try:
        found = answer.json()
    except ValueError:
        return None
    is_ours = isinstance(found, dict) and "version" in found and isinstance(found.get("upstreams"), list)
    return found if answer.status_code == 200 and is_ours else None


def _listens(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=SECONDS):
            return True
    except OSError:
        return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
