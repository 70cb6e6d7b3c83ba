"""`leafgate serve`: run the gateway on stdio or HTTP until it is stopped."""

from __future__ import annotations

import gc
import json
import shlex
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import anyio
import click

from leafgate.clean.redact import redact_json
from leafgate.cli.client_files import OWN_NAME, child_entry
from leafgate.cli.tokens import complete_map
from leafgate.compose.gateway import Gateway, compose, in_background
from leafgate.compose.policies import requires_token
from leafgate.compose.servers import embedded_config
from leafgate.config.load import find_config, load_config
from leafgate.config.models import Config, Transport
from leafgate.config.reload import Reloader
from leafgate.server.front import MCP_PATH
from leafgate.server.host_guard import url_host
from leafgate.server.http import bind, serve_http
from leafgate.server.record import SessionRecorder, recording
from leafgate.server.transports import SSE_PATH, serve_stdio, stop_signals
from leafgate.telemetry.audit import AuditFile, auditing
from leafgate.telemetry.log import redacted_line, setup_logging
from leafgate.version import __version__

SWITCH_SECONDS: Final = 0.001  # a fifth of Python's default
# The local address of a gateway that listens on all addresses.
_ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@click.command()
@click.option("--config", "file", type=click.Path(dir_okay=False, path_type=Path),
              help="YAML, TOML or JSON. [default: leafgate.yaml, if present; else the demo servers]")  # fmt: skip
@click.option("--demo", is_flag=True, help="Run the demo servers, whether or not there is a leafgate.yaml.")
@click.option("--transport", type=click.Choice(["stdio", "http", "sse"]), help="How clients connect. [default: stdio]")
@click.option("--host", help="The address to listen on. [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="The port; 0 chooses a free one. [default: 8808]")
@click.option("--insecure-bind", is_flag=True, help="Allow other machines to connect without auth.")
@click.option("--map", "map_name", shell_complete=complete_map,
              help="The map of the ids that clients get if they do not name one; 'none' for no ids.")  # fmt: skip
@click.option("--state", help="Where results and counters are stored: memory, sqlite:PATH or redis://HOST:PORT/0. "
              "[default: memory]")  # fmt: skip
@click.option("--record", type=click.Path(dir_okay=False, path_type=Path),
              help="Append the requests and results to this file, for `leafgate context`.")  # fmt: skip
@click.option("--audit", type=click.Path(dir_okay=False, path_type=Path),
              help="Write one line for each request to this file: who called what and how it ended.")  # fmt: skip
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]),
              help="The lowest level to log. [default: warning]")  # fmt: skip
def command(
    *,
    file: Path | None,
    demo: bool,
    transport: Transport | None,
    host: str | None,
    port: int | None,
    insecure_bind: bool,
    map_name: str | None,
    state: str | None,
    record: Path | None,
    audit: Path | None,
    log_level: str | None,
) -> None:
    """Run the gateway.

    Without --config it uses the leafgate.yaml of this folder, or else two bundled demo servers. The file may also be
    the JSON file in which an MCP client keeps its `mcpServers`, unchanged.

    \b
    leafgate serve                              for a client that starts it as a child process (stdio)
    leafgate serve --transport http             at http://127.0.0.1:8808/mcp
    leafgate serve --config client-config.json  with your own servers
    """
    if demo and file is not None:
        raise click.UsageError("give --config or --demo, not both")
    if file is None and not demo:
        file = find_config(None)
        used = f"{file}; --config names another file" if file is not None else "the demo servers; --config names yours"
        click.echo(f"leafgate: using {used}", err=True)

    def load() -> Config:
        config = load_config(file) if file is not None else embedded_config()
        chosen_map = config.map if map_name is None else map_name
        flags = {
            "transport": transport or config.transport,
            "host": host or config.host,
            "port": config.port if port is None else port,
            "insecure_bind": insecure_bind or config.insecure_bind,
            "state": config.state if state is None else state,
            "map": None if chosen_map == "none" else chosen_map,
            "audit": audit or config.audit,
        }
        return config.model_copy(update=flags)

    config = load()
    setup_logging(log_level or config.log.level, config.log.format)
    record = record or config.record
    for notice in config.notices:
        click.echo(f"leafgate: {notice}", err=True)
    # Threads that clean or build a catalog hold the interpreter for so long before requests get their turn.
    sys.setswitchinterval(SWITCH_SECONDS)
    # A call makes thousands of short-lived objects. Collecting every few hundred would cost a tenth of its time.
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    limits = {"max_bytes": config.audit_max_mb * 1024 * 1024, "keep": config.audit_keep}
    try:
        with (
            nullcontext()
            if record is None
            else recording(record, lambda message: redact_json(message).value) as recorder,
            nullcontext() if config.audit is None else auditing(config.audit, **limits) as audit_file,
        ):
            # The faster event loop of the extra `fast`; uvicorn finds that extra's parser itself.
            use_uvloop = sys.platform != "win32" and find_spec("uvloop") is not None
            anyio.run(_serve, config, load, recorder, audit_file, backend_options={"use_uvloop": use_uvloop})
    except BaseExceptionGroup as group:
        cause: BaseException = group
        while isinstance(cause, BaseExceptionGroup) and len(cause.exceptions) == 1:  # nested tasks raise nested groups
            cause = cause.exceptions[0]
        raise cause from group


async def _serve(
    config: Config, load: Callable[[], Config], recorder: SessionRecorder | None, audit: AuditFile | None
) -> None:
    open_to_others = requires_token(config.auth) or config.insecure_bind
    over_http = config.transport in ("http", "sse")
    listener = bind(config.host, config.port, open_to_others=open_to_others) if over_http else None
    gateway = compose(config, audit)
    server = gateway.mcp_server()
    if recorder is not None:
        server.middleware.append(recorder)
    reloader = Reloader(config, load, gateway.prepare, gateway.adopt)
    async with (
        stop_signals() as stopping,
        gateway.running(),
        gateway.announcing(server),
        gateway.requiring_servers(),
        in_background(reloader.run),
    ):
        if listener is None:
            await serve_stdio(server, stopping, config.drain_seconds)
            return
        host, port = listener.getsockname()[:2]
        url = f"http://{url_host(_ANY.get(host, host))}:{port}"

        async def ready() -> None:
            await gateway.wait_until_ready()
            _announce(gateway, url)

        await serve_http(server, listener, gateway.web(), ready, stopping)
    click.echo("leafgate: stopped")


def _announce(gateway: Gateway, url: str) -> None:
    """Print where the gateway is. Plain text: importing a table library would delay every start."""
    bold = partial(click.style, bold=True)
    click.echo(f"{bold(f'leafgate {__version__}')} is ready")
    file = next(iter(gateway.config.files), None)
    for member in gateway.fleet.members():
        name = f"{member.spec.name:12}"
        if member.state == "up":
            click.echo(f"  {name} {click.style('up', fg='green')}, {len(member.offers.tools)} tools")
        elif member.last_failure is None:
            click.echo(f"  {name} {click.style('starting', fg='yellow')}")
        else:
            click.echo(f"  {name} {click.style('down', fg='red')}: {redacted_line(member.last_failure)}")
    if any(member.last_failure for member in gateway.fleet.members() if member.state != "up"):
        words = "leafgate doctor" if file is None else f"leafgate doctor --config {shlex.quote(str(file))}"
        click.echo(f"  {bold(words)} says what is wrong and how to fix it")
    kind, path = ("sse", SSE_PATH) if gateway.config.transport == "sse" else ("http", MCP_PATH)
    click.echo(f"  MCP endpoint {bold(f'{url}{path}')}")
    if gateway.config.dashboard:
        click.echo(f"  dashboard    {url}/")
    click.echo(f"  status       {url}/status")
    headers = {} if gateway.config.auth is None else {"headers": {"Authorization": "Bearer YOUR-TOKEN"}}
    for title, entry in (
        ("\nPaste into your client's configuration, for HTTP:", {"type": kind, "url": f"{url}{path}", **headers}),
        ("or for a client that starts it as a child process:", child_entry(None, file)),
    ):
        click.echo(title)
        click.echo(json.dumps({"mcpServers": {OWN_NAME: entry}}, indent=2))
    click.echo("\nCtrl-C stops the gateway and the servers behind it.")
