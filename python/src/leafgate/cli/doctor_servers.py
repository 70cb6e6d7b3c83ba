"""Checks of `leafgate doctor` on servers and addresses.

All servers are started or contacted at the same time and asked for their tools; what they write to stderr is shown
without secrets. An address is free, served by leafgate already, or used by another program.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any, Final

import anyio
import httpx2

from leafgate.clean.redact import redact_text
from leafgate.clean.sanitize import sanitize_text
from leafgate.cli.doctor_config import Finding, Group, collect_log
from leafgate.cli.gateway_client import TOKEN_VARIABLE, root_of, token_headers
from leafgate.compose.secrets import HIDDEN, secrets_of
from leafgate.ports import OfferKind
from leafgate.server.definitions import fit_for_lists
from leafgate.server.host_guard import url_host
from leafgate.upstream import HttpServer, ServerSpec
from leafgate.upstream.fleet import Fleet
from leafgate.upstream.raw_session import ServerOffers
from leafgate.upstream.supervise import SupervisedServer

SECONDS: Final = 5.0
MISFITS: Final = 5  # definitions that are named
MOMENT: Final = 0.2  # seconds for the last lines of an ended child to arrive through its pipe
_SERVERS: Final = Group("servers")
_GATEWAY: Final = Group("gateway")
_LOGGER: Final = "leafgate.upstream"
_TOKEN_FIX: Final = f"set {TOKEN_VARIABLE} to a token that it accepts"


async def check_servers(
    specs: Sequence[ServerSpec], seconds: float | None, progress: Callable[[str], None]
) -> list[Finding]:
    """Start all servers, wait for each, and stop them. `progress` is called with the state."""
    adjusted = [spec if seconds is None else replace(spec, start_timeout=seconds, timeout=seconds) for spec in specs]
    fleet = Fleet(adjusted)
    findings: dict[str, Finding] = {}

    async def judge(member: SupervisedServer) -> None:
        start = anyio.current_time()
        # Starting and listing tools have separate time limits.
        with anyio.move_on_after(member.spec.start_timeout + member.spec.timeout):
            await member.first_try_over.wait()
        seconds_used = anyio.current_time() - start
        if member.state != "up":
            await anyio.sleep(MOMENT)
        name = member.spec.name
        stderr = [line.removeprefix(f"[{name}] ") for line in log.lines(f"stderr-{name}")]
        findings[member.spec.label] = await _finding(member, seconds_used, [line for line in stderr if line.strip()])
        progress(f"{len(findings)} of {len(specs)} servers answered")

    with collect_log(_LOGGER, logging.INFO) as log:
        async with fleet.running(), anyio.create_task_group() as group:
            for member in fleet.members():
                group.start_soon(judge, member)
    return [findings[spec.label] for spec in specs]


async def _finding(member: SupervisedServer, seconds: float, lines: Sequence[str]) -> Finding:
    spec = member.spec
    if member.state == "up":
        tools = len(member.offers.tools)
        if tools == 0 and not member.offers.resources and not member.offers.prompts:
            message = f"answers in {seconds:.1f} s, and offers nothing"
            return _SERVERS.warn(spec.name, message, "check include and exclude")
        misfits = _misfits(member.offers)
        if misfits:
            message = f"answers in {seconds:.1f} s, {tools} tools; definitions that break MCP's types: {len(misfits)}"
            fix = "report them to its author; lists leave out what is wrong: " + ", ".join(misfits[:MISFITS])
            return _SERVERS.warn(spec.name, message, fix)
        return _SERVERS.ok(spec.name, f"answers in {seconds:.1f} s, {tools} tools")
    code, _, detail = (member.last_failure or "UPSTREAM_TIMEOUT: no answer").partition(": ")
    if isinstance(spec.reach, HttpServer):
        message, fix = await _http_trouble(spec.reach, code)
    else:
        message, fix = _child_trouble(spec, code, detail, member.exit_code)
    text = "\n".join([message, *(f"  | {line}" for line in lines)])
    for secret in sorted(secrets_of(spec.reach), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    # Neither secrets nor terminal control sequences.
    return _SERVERS.fail(spec.name, redact_text(sanitize_text(text).value).value, fix)


def _misfits(offers: ServerOffers) -> list[str]:
    """The definitions that are not listed as they are: the name of each, and the place of what is wrong."""
    kinds: tuple[OfferKind, ...] = ("tools", "resources", "templates", "prompts")
    misfits: list[str] = []
    for kind in kinds:
        for definition in getattr(offers, kind):
            form = fit_for_lists(kind, definition)
            name = definition.get("name") or definition.get("uri") or definition.get("uriTemplate")
            misfits += [f"{sanitize_text(str(name)[:60]).value} {form.removed[0][0]}".strip()] if form.removed else []
    return misfits


def _child_trouble(spec: ServerSpec, code: str, detail: str, exit_code: int | None) -> tuple[str, str]:
    if code == "UPSTREAM_TIMEOUT":
        fix = "run its command by hand; a package that is downloaded first needs a longer start_timeout"
        return f"does not answer within {spec.start_timeout:g} s", fix
    if "FileNotFoundError" in detail or "PermissionError" in detail:
        return "its command cannot be run", "see the check of its command"
    if exit_code is not None:
        ends = f"with exit code {exit_code}" if exit_code >= 0 else f"by signal {-exit_code}"
        return f"ends {ends} instead of answering", "run its command by hand, and read its output"
    return "ends, or does not speak MCP", "run its command by hand, and read its output"


async def _http_trouble(reach: HttpServer, code: str) -> tuple[str, str]:
    """Send a plain HTTP request, to distinguish a wrong address from a server that refuses."""
    try:
        async with httpx2.AsyncClient(headers=dict(reach.headers), timeout=10) as client:
            answer = await client.get(reach.url, headers={"Accept": "text/event-stream"}, follow_redirects=False)
    except httpx2.ConnectError:
        return f"nothing listens at {_host(reach)}", "start the server, or correct host and port in its url"
    except httpx2.TimeoutException:
        return f"{_host(reach)} does not answer in time", "check the network between this machine and the server"
    except httpx2.HTTPError as error:
        return f"{_host(reach)} does not speak HTTP as expected ({type(error).__name__})", "correct its url"
    return _by_status(answer.status_code, bool(reach.headers), code)


def _by_status(status: int, has_headers: bool, code: str) -> tuple[str, str]:
    if status == 401 or code == "AUTH_FAILED":
        fix = "renew the credential in its headers" if has_headers else "give it headers: {Authorization: Bearer …}"
        return "refuses the credentials (401)", fix
    if status == 403 or code == "PERMISSION_DENIED":
        return "accepts the credentials, but denies access (403)", "request access for these credentials"
    if status == 404:
        return "has nothing at this path (404)", "correct the path of its url; /mcp and /sse are usual"
    if 300 <= status < 400:
        return f"redirects ({status})", "give the url that it redirects to"
    if code == "UPSTREAM_TIMEOUT":
        return "answers HTTP, but not MCP in time", "give it a longer start_timeout, or read the server's log"
    return f"answers HTTP ({status}), but not MCP", "correct its url, or set type: sse for the older transport"


def _host(reach: HttpServer) -> str:
    parts = httpx2.URL(reach.url)
    return f"{parts.host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def needs_node(specs: Iterable[ServerSpec]) -> bool:
    """Return whether a server is run by Node.js."""
    commands = [spec.reach.command for spec in specs if not isinstance(spec.reach, HttpServer)]
    return any(PurePath(command.replace("\\", "/")).stem in ("node", "npx", "npm") for command in commands)


def check_url(url: str) -> list[Finding]:
    """Check a running gateway."""
    root = root_of(url)
    try:
        answer = httpx2.get(f"{root}/status", headers=token_headers(), timeout=SECONDS)
    except httpx2.ConnectError:
        return [_GATEWAY.fail(root, "nothing listens there", "start it: leafgate serve --transport http")]
    except httpx2.HTTPError as error:
        return [_GATEWAY.fail(root, f"does not answer ({type(error).__name__})", "read the gateway's log")]
    except ValueError as error:
        return [_GATEWAY.fail(root, f"is not a URL: {error}", "such as http://127.0.0.1:8808")]
    if answer.status_code in (401, 403):
        return [_GATEWAY.fail(root, f"requires a token ({answer.status_code})", _TOKEN_FIX)]
    status = _status(answer)
    if status is None:
        return [_GATEWAY.fail(root, f"answers ({answer.status_code}), but is not leafgate", "correct the address")]
    findings = [_GATEWAY.ok(root, f"leafgate {status['version']}, {status.get('tools', 0)} tools")]
    for upstream in status["upstreams"]:
        name = f"its server {upstream.get('name')}"
        if upstream.get("state") == "up":
            findings.append(_GATEWAY.ok(name, f"up, {upstream.get('tools')} tools"))
        elif upstream.get("state") == "starting":
            findings.append(_GATEWAY.warn(name, "is still starting", "check again in a few seconds"))
        else:
            why = upstream.get("last_failure")
            fix = "run leafgate doctor --config FILE for details"
            state = str(upstream.get("state")) + ("" if why is None else f": {why}")
            findings.append(_GATEWAY.fail(name, sanitize_text(state).value, fix))
    return findings


def check_port(host: str, port: int, *, is_used: bool) -> Finding:
    """Check the address of `serve --transport http`. `is_used`: whether the configuration uses it."""
    name = f"{host}:{port}"
    if port == 0:
        return _GATEWAY.ok(name, "a free port is chosen at start")
    if not _listens(host, port):
        return _GATEWAY.ok(name, "free")
    try:
        answer = httpx2.get(f"http://{url_host(host)}:{port}/status", headers=token_headers(), timeout=SECONDS)
    except httpx2.HTTPError:
        answer = None
    if answer is not None and answer.status_code in (401, 403):
        return _GATEWAY.warn(name, f"the program there requires a token ({answer.status_code})", _TOKEN_FIX)
    status = None if answer is None else _status(answer)
    if status is not None:
        return _GATEWAY.ok(name, f"leafgate {status['version']} already runs there")
    judge = _GATEWAY.fail if is_used else _GATEWAY.warn
    return judge(name, "another program listens there", "choose another port: --port, or `port` in the file")


def _status(answer: httpx2.Response) -> dict[str, Any] | None:
    try:
        status = answer.json()
    except ValueError:
        return None
    is_ours = isinstance(status, dict) and "version" in status and isinstance(status.get("upstreams"), list)
    return status if answer.status_code == 200 and is_ours else None


def _listens(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=SECONDS):
            return True
    except OSError:
        return False
