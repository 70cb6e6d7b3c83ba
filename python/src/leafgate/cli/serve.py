"""`leafgate serve`: run the gateway on stdio or HTTP. In: flags and a file. Runs until told to stop."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import anyio
import click

from leafgate.cli.auth import asks_everybody
from leafgate.cli.completion import complete_map
from leafgate.cli.compose import Gateway, compose
from leafgate.cli.embedded import embedded_config
from leafgate.cli.own_entry import OWN_NAME, child_entry
from leafgate.cli.reload import Reloader
from leafgate.config.load import load_config
from leafgate.config.settings import Config, Transport
from leafgate.firewall.redact import redact_json
from leafgate.server.host_guard import written
from leafgate.server.http import MCP_PATH, bind, serve_http
from leafgate.server.record import Recorder, recording
from leafgate.server.sse import SSE_PATH
from leafgate.server.stdio import serve_stdio
from leafgate.server.stop_signals import stop_signals
from leafgate.telemetry.log import setup_logging, without_secrets
from leafgate.version import __version__

# Where a gateway is found from this machine that listens on all its addresses.
_ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@click.command()
@click.option("--config", "file", type=click.Path(dir_okay=False, path_type=Path), help="A YAML, TOML or JSON file.")
@click.option("--transport", type=click.Choice(["stdio", "http", "sse"]), help="How clients reach it. [default: stdio]")
@click.option("--host", help="The address to listen on. [default: 127.0.0.1]")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="The port to listen on; 0 finds a free one. [default: 8808]"
)
@click.option("--insecure-bind", is_flag=True, help="Listen where other machines can come in, without auth.")
@click.option(
    "--map",
    "map_name",
    shell_complete=complete_map,
    help="The map that clients get ids of if they ask for none; 'none' for no ids.",
)
@click.option(
    "--state",
    help="Where results, counts and counters are kept: memory, sqlite:PATH or redis://HOST:PORT/0. [default: memory]",
)
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append what clients ask and get to this file, for `leafgate context`.",
)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="What is told. [default: warning]"
)
def command(
    *,
    file: Path | None,
    transport: Transport | None,
    host: str | None,
    port: int | None,
    insecure_bind: bool,
    map_name: str | None,
    state: str | None,
    record: Path | None,
    log_level: str | None,
) -> None:
    """Run the gateway.

    Without --config it stands in front of the two bundled demo servers. The file may be a leafgate.yaml, or the JSON
    file in which an MCP client keeps its `mcpServers`, as it is.

    \b
    leafgate serve                              for a client that starts it as a child (stdio)
    leafgate serve --transport http             at http://127.0.0.1:8808/mcp
    leafgate serve --config client-config.json  in front of your own servers
    """

    def load() -> Config:
        config = load_config(file) if file is not None else embedded_config()
        chosen_map = config.map if map_name is None else map_name
        return replace(
            config,
            transport=transport or config.transport,
            host=host or config.host,
            port=config.port if port is None else port,
            insecure_bind=insecure_bind or config.insecure_bind,
            state=config.state if state is None else state,
            map=None if chosen_map == "none" else chosen_map,
        )

    config = load()
    setup_logging(log_level or config.log["level"], config.log["format"])
    record = record or config.record
    for notice in config.notices:
        click.echo(f"leafgate: {notice}", err=True)
    _spare_the_collector()
    try:
        with nullcontext() if record is None else recording(record, lambda said: redact_json(said).value) as recorder:
            anyio.run(_serve, config, load, recorder, backend_options={"use_uvloop": _has_uvloop()})
    except BaseExceptionGroup as group:
        raise _cause(group) from group


def _spare_the_collector() -> None:
    """A call makes thousands of small objects that are gone with it. Looked at every few hundred, and with all that the
    imports left behind, they cost a tenth of its time."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _has_uvloop() -> bool:
    """Whether the faster event loop of the extra `fast` is there; uvicorn finds that extra's parser by itself."""
    return sys.platform != "win32" and find_spec("uvloop") is not None


def _cause(error: BaseException) -> BaseException:
    """The one error inside groups of one, which is how a failure comes out of nested tasks."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


async def _serve(config: Config, load: Callable[[], Config], recorder: Recorder | None) -> None:
    open_to_others = asks_everybody(config.auth) or config.insecure_bind
    over_http = config.transport in ("http", "sse")
    listener = bind(config.host, config.port, open_to_others=open_to_others) if over_http else None
    gateway = compose(config)
    server = gateway.mcp_server()
    if recorder is not None:
        server.middleware.append(recorder)
    following = Reloader(config, load, gateway.prepare, gateway.adopt)
    async with (
        stop_signals() as stopping,
        gateway.running(),
        gateway.announcing(server),
        gateway.insisting(),
        _in_background(following.run),
    ):
        if listener is None:
            await serve_stdio(server, stopping)
            return
        host, port = listener.getsockname()[:2]
        url = f"http://{written(_ANY.get(host, host))}:{port}"

        async def ready() -> None:
            await gateway.fleet.settled()
            await gateway.refresher.caught_up()
            _announce(gateway, url)

        await serve_http(server, listener, gateway.web(), ready, stopping)
    click.echo("leafgate: stopped")


@asynccontextmanager
async def _in_background(work: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        group.start_soon(work)
        yield
        group.cancel_scope.cancel()


def _announce(gateway: Gateway, url: str) -> None:
    """In plain words with a few colours: a library that draws tables would make every start later."""
    bold = partial(click.style, bold=True)
    click.echo(f"{bold(f'leafgate {__version__}')} is ready")
    for member in gateway.fleet.members():
        name = f"{member.spec.name:12}"
        if member.state == "up":
            click.echo(f"  {name} {click.style('up', fg='green')}, {len(member.offers.tools)} tools")
        else:
            click.echo(f"  {name} {click.style('down', fg='red')}: {without_secrets(str(member.last_failure))}")
    kind, path = ("sse", SSE_PATH) if gateway.config.transport == "sse" else ("http", MCP_PATH)
    click.echo(f"  MCP endpoint {bold(f'{url}{path}')}")
    if gateway.config.dashboard:
        click.echo(f"  dashboard    {url}/")
    click.echo(f"  status       {url}/status")
    asked = {} if gateway.config.auth is None else {"headers": {"Authorization": "Bearer YOUR-TOKEN"}}
    file = next(iter(gateway.config.files), None)
    for title, entry in (
        ("\nPaste into your client's configuration, for HTTP:", {"type": kind, "url": f"{url}{path}", **asked}),
        ("or for a client that starts it as a child:", child_entry(None, file)),
    ):
        click.echo(title)
        click.echo(json.dumps({"mcpServers": {OWN_NAME: entry}}, indent=2))
    click.echo("\nCtrl-C stops the gateway and the servers behind it.")
