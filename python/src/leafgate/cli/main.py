"""The `leafgate` command: a table of subcommands, each in a file of its own, loaded only when it is asked for.

In: argv. Out: an exit code. Loading late is what keeps `leafgate tokens` quick: the MCP SDK alone takes a second.
"""

from __future__ import annotations

import difflib
import gc
import importlib
import sys
from types import ModuleType
from typing import Final

import click

from leafgate.model.errors import LeafgateError
from leafgate.version import __version__

# name -> (module whose `command` it is, one line for `leafgate --help`)
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "serve": ("leafgate.cli.serve", "Run the gateway on stdio or HTTP."),
    "demo": ("leafgate.cli.demo", "Walk the whole path in the terminal, through real processes."),
    "import": ("leafgate.cli.import_command", "Make a leafgate.yaml of the servers that a client already has."),
    "install": ("leafgate.cli.install", "Write leafgate into a client's file, or take it out."),
    "config": ("leafgate.cli.config_command", "Check a configuration file; print its JSON Schema or reference."),
    "doctor": ("leafgate.cli.doctor", "Check everything that a gateway needs, with the fix."),
    "call": ("leafgate.cli.call", "Call one tool through a gateway."),
    "status": ("leafgate.cli.status", "Ask a running gateway how it is."),
    "token": ("leafgate.cli.token", "Make tokens for clients over HTTP, and their hashes."),
    "route": ("leafgate.cli.route", "Rank tools for a query, as tool_browse would."),
    "eval": ("leafgate.cli.evaluate", "Measure routing on a file of queries with known answers."),
    "bench": ("leafgate.cli.bench", "Measure the gateway: leaf against shim."),
    "catalog": ("leafgate.cli.catalog", "List, show, lint, save and pin a catalog."),
    "context": ("leafgate.cli.context", "Make prompts of recorded sessions."),
    "sanitize": ("leafgate.cli.sanitize", "Clean JSON lines as the firewall does."),
    "redact": ("leafgate.cli.redact", "Replace secrets in JSON lines as the firewall does."),
    "scan": ("leafgate.cli.scan", "Look for poison in tool definitions."),
    "tokens": ("leafgate.cli.tokens", "Encode, decode, and look at tokenizer maps."),
    "maps": ("leafgate.cli.maps", "List, add, check and build tokenizer maps."),
    "leaf": ("leafgate.cli.leaf", "Judge leaf tokenizations."),
    "tool-id": ("leafgate.cli.tool_id", "Make and parse the ids of tools, resources and prompts."),
    "completion": ("leafgate.cli.completion", "Print the completion script of a shell."),
}


EXIT_CODES: Final = "Exit codes: 0 all is well; 1 something was found, or a call failed; 2 wrong words or wrong input."


class LazyGroup(click.Group):
    """A group whose commands are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        loaded = _imported(COMMANDS[cmd_name][0]).command
        assert isinstance(loaded, click.Command)
        loaded.epilog = loaded.epilog or EXIT_CODES
        return loaded

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        near = difflib.get_close_matches(args[0], COMMANDS)
        if args[0] not in COMMANDS and near:  # click looks among commands that are loaded, and none is
            ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(map(repr, near))}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def _imported(module: str) -> ModuleType:
    """Without the collector: imports make very many objects and hardly any waste, and a tenth of their time is its."""
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        gc.enable()


@click.group(cls=LazyGroup, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="leafgate")
def cli() -> None:
    """leafgate stands between an agent and its MCP servers, and keeps the model's context small, clean and tokenized.

    `leafgate COMMAND --help` explains a command.
    """


def main() -> None:
    try:
        cli()
    except LeafgateError as error:
        click.echo(f"leafgate: {error}", err=True)
        sys.exit(2)
    except OSError as error:
        if error.filename is None:
            raise
        # A file that somebody named: the reason helps, where it happened does not.
        click.echo(f"leafgate: {error.filename}: {error.strerror or type(error).__name__}", err=True)
        sys.exit(2)
