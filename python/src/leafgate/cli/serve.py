"""`leafgate serve`: run the gateway on stdio or HTTP. In: flags and a file. Runs until told to stop."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import click
from rich.console import Console

from leafgate.cli.compose import Gateway, compose
from leafgate.cli.config import Config, Transport, load_config
from leafgate.cli.embedded import embedded_config
from leafgate.server.http import MCP_PATH, bind, serve_http
from leafgate.server.stdio import ignore_signals, serve_stdio
from leafgate.version import __version__


@click.command()
@click.option("--config", "file", type=click.Path(dir_okay=False, path_type=Path), help="A YAML or JSON file.")
@click.option("--transport", type=click.Choice(["stdio", "http"]), help="How clients reach it. [default: stdio]")
@click.option("--host", help="The address to listen on. [default: 127.0.0.1]")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="The port to listen on; 0 finds a free one. [default: 8808]"
)
@click.option("--map", "map_name", help="The map that clients get ids of if they ask for none; 'none' for no ids.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="warning", show_default=True
)
def command(
    *,
    file: Path | None,
    transport: Transport | None,
    host: str | None,
    port: int | None,
    map_name: str | None,
    log_level: str,
) -> None:
    """Run the gateway.

    Without --config it stands in front of the two bundled demo servers. The file may be a leafgate.yaml, or the JSON
    file in which an MCP client keeps its `mcpServers`, as it is.

    \b
    leafgate serve                              for a client that starts it as a child (stdio)
    leafgate serve --transport http             at http://127.0.0.1:8808/mcp
    leafgate serve --config client-config.json  in front of your own servers
    """
    logging.basicConfig(level=log_level.upper(), stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    config = load_config(file) if file is not None else embedded_config()
    chosen_map = config.map if map_name is None else map_name
    config = replace(
        config,
        transport=transport or config.transport,
        host=host or config.host,
        port=config.port if port is None else port,
        map=None if chosen_map == "none" else chosen_map,
    )
    for notice in config.notices:
        click.echo(f"leafgate: {notice}", err=True)
    try:
        anyio.run(_serve, config)
    except BaseExceptionGroup as group:
        raise _cause(group) from group


def _cause(error: BaseException) -> BaseException:
    """The one error inside groups of one, which is how a failure comes out of nested tasks."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


async def _serve(config: Config) -> None:
    listener = bind(config.host, config.port) if config.transport == "http" else None
    gateway = compose(config)
    server = gateway.mcp_server()
    async with gateway.running(), gateway.announcing(server), gateway.insisting():
        if listener is None:
            await serve_stdio(server)
            ignore_signals()
            return
        host, port = listener.getsockname()[:2]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"

        async def ready() -> None:
            await gateway.fleet.settled()
            await gateway.refresher.caught_up()
            _announce(gateway, url)

        await serve_http(server, listener, gateway.web(), ready)
    click.echo("leafgate: stopped")


def _announce(gateway: Gateway, url: str) -> None:
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]leafgate {__version__}[/bold] is ready")
    for member in gateway.fleet.members():
        up = member.state == "up"
        state = (
            f"[green]up[/green], {len(member.offers.tools)} tools" if up else f"[red]down[/red]: {member.last_failure}"
        )
        console.print(f"  {member.spec.name:12} {state}")
    console.print(f"  MCP endpoint [bold]{url}{MCP_PATH}[/bold]")
    console.print(f"  status       {url}/status")
    over_http = {"mcpServers": {"leafgate": {"type": "http", "url": f"{url}{MCP_PATH}"}}}
    program = str(Path(sys.argv[0]).absolute())
    over_stdio = {"mcpServers": {"leafgate": {"command": program, "args": ["serve"]}}}
    console.print("\nPaste into your client's configuration, for HTTP:")
    console.print(json.dumps(over_http, indent=2), markup=False)
    console.print("or for a client that starts it as a child:")
    console.print(json.dumps(over_stdio, indent=2), markup=False)
    console.print("\nCtrl-C stops the gateway and the servers behind it.")
