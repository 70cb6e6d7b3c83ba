"""Checks of the servers: each is started or reached, and asked for its tools. In: ServerSpecs. Out: a Finding for each.

Touches processes and the network; all servers at the same time. What a server wrote to stderr is said without secrets.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import PurePath
from typing import Final

import anyio
import httpx2

from leafgate.cli.doctor_checks.finding import Finding, fail, ok, warn
from leafgate.cli.server_secrets import HIDDEN, secrets_of
from leafgate.firewall.redact import redact_text
from leafgate.firewall.sanitize import sanitize_text
from leafgate.upstream.fleet import Fleet
from leafgate.upstream.server_spec import HttpServer, ServerSpec
from leafgate.upstream.supervise import Supervised

GROUP: Final = "servers"
LAST_LINES: Final = 5
MOMENT: Final = 0.2  # for the last lines of a child that has just ended to come through its pipe
_LOGGER: Final = "leafgate.upstream"


async def check_servers(
    specs: Sequence[ServerSpec], seconds: float | None, tell: Callable[[str], None]
) -> list[Finding]:
    """Starts them all, waits for each, and ends them. `tell` hears how far it is."""
    patient = [spec if seconds is None else replace(spec, start_timeout=seconds, timeout=seconds) for spec in specs]
    fleet = Fleet(patient)
    found: dict[str, Finding] = {}

    async def judge(member: Supervised) -> None:
        began = anyio.current_time()
        # Starting has a time limit of its own; listing its tools has another.
        with anyio.move_on_after(member.spec.start_timeout + member.spec.timeout):
            await member.first_try_over.wait()
        took = anyio.current_time() - began
        if member.state != "up":
            await anyio.sleep(MOMENT)
        found[member.spec.label] = await _finding(member, took, heard.lines(member.spec.name))
        tell(f"{len(found)} of {len(specs)} servers answered")

    with _hearing() as heard:
        async with fleet.running(), anyio.create_task_group() as group:
            for member in fleet.members():
                group.start_soon(judge, member)
    return [found[spec.label] for spec in specs]


async def _finding(member: Supervised, took: float, lines: Sequence[str]) -> Finding:
    spec = member.spec
    if member.state == "up":
        tools = len(member.offers.tools)
        if tools == 0 and not member.offers.resources and not member.offers.prompts:
            return warn(GROUP, spec.name, f"answers in {took:.1f} s, and offers nothing", "look at include and exclude")
        return ok(GROUP, spec.name, f"answers in {took:.1f} s, {tools} tools")
    code, _, detail = (member.last_failure or "UPSTREAM_TIMEOUT: no answer").partition(": ")
    if isinstance(spec.reach, HttpServer):
        said, fix = await _http_trouble(spec.reach, code)
    else:
        said, fix = _child_trouble(spec, code, detail)
    return fail(GROUP, spec.name, _fit_to_show(spec, "\n".join([said, *(f"  | {line}" for line in lines)])), fix)


def _child_trouble(spec: ServerSpec, code: str, detail: str) -> tuple[str, str]:
    if code == "UPSTREAM_TIMEOUT":
        return (
            f"does not answer within {spec.start_timeout:g} s",
            "run its command by hand; a package that is fetched first needs a longer start_timeout",
        )
    if "FileNotFoundError" in detail or "PermissionError" in detail:
        return "its command cannot be run", "see the check of its command"
    return "ends, or does not speak MCP", "run its command by hand, and read what it says"


async def _http_trouble(reach: HttpServer, code: str) -> tuple[str, str]:
    """Asks once more without MCP, to tell an address that is wrong from a server that refuses."""
    try:
        async with httpx2.AsyncClient(headers=dict(reach.headers), timeout=10) as client:
            answer = await client.get(reach.url, headers={"Accept": "text/event-stream"}, follow_redirects=False)
    except httpx2.ConnectError:
        return f"nothing listens at {_host(reach)}", "start the server, or correct host and port in its url"
    except httpx2.TimeoutException:
        return f"{_host(reach)} does not answer in time", "look at the network between here and there"
    except httpx2.HTTPError as error:
        return f"{_host(reach)} does not speak HTTP as expected ({type(error).__name__})", "correct its url"
    return _by_status(answer.status_code, bool(reach.headers), code)


def _by_status(status: int, has_headers: bool, code: str) -> tuple[str, str]:
    if status == 401 or code == "AUTH_FAILED":
        fix = "renew the credential in its headers" if has_headers else "give it headers: {Authorization: Bearer …}"
        return "refuses who asks (401)", fix
    if status == 403 or code == "PERMISSION_DENIED":
        return "knows who asks, and does not allow it (403)", "ask for the rights of this credential"
    if status == 404:
        return "has nothing at this path (404)", "correct the path of its url; /mcp and /sse are usual"
    if 300 <= status < 400:
        return f"sends elsewhere ({status})", "give the url that it sends to"
    if code == "UPSTREAM_TIMEOUT":
        return "answers HTTP, but not MCP in time", "give it a longer start_timeout, or look at the server's own log"
    return f"answers HTTP ({status}), but not MCP", "correct its url, or set type: sse for the older transport"


def _host(reach: HttpServer) -> str:
    parts = httpx2.URL(reach.url)
    return f"{parts.host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def _fit_to_show(spec: ServerSpec, text: str) -> str:
    """Without secrets, and without what would move the cursor of a terminal."""
    for secret in sorted(secrets_of(spec.reach), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return redact_text(sanitize_text(text).text).text


class _Heard(logging.Handler):
    """Keeps the last lines that each server wrote to its stderr."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._guard = threading.Lock()
        self._lines: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=LAST_LINES))

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno == logging.INFO and record.threadName and record.threadName.startswith("stderr-"):
            name = record.threadName.removeprefix("stderr-")
            line = record.getMessage().removeprefix(f"[{name}] ")
            with self._guard:
                self._lines[name].append(line)

    def lines(self, name: str) -> list[str]:
        with self._guard:
            return [line for line in self._lines.get(name, ()) if line.strip()]


@contextmanager
def _hearing() -> Iterator[_Heard]:
    """Inside this context what servers write to stderr is kept, and printed nowhere."""
    heard, logger = _Heard(), logging.getLogger(_LOGGER)
    level, propagate = logger.level, logger.propagate
    logger.addHandler(heard)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield heard
    finally:
        logger.removeHandler(heard)
        logger.setLevel(level)
        logger.propagate = propagate


def needs_node(specs: Iterable[ServerSpec]) -> bool:
    """Whether some server is run by Node.js."""
    commands = [spec.reach.command for spec in specs if not isinstance(spec.reach, HttpServer)]
    return any(PurePath(command.replace("\\", "/")).stem in ("node", "npx", "npm") for command in commands)
