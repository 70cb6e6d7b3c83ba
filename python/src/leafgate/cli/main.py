"""The `leafgate` command: a table of subcommands, each imported only when it is used.

Late imports keep `leafgate tokens` quick: importing the MCP SDK alone takes a second.
"""

from __future__ import annotations

import difflib
import gc
import importlib
import os
import sys
from typing import Final

import click
from click.shell_completion import get_completion_class

from leafgate.model.errors import LeafgateError
from leafgate.version import __version__

# Read when numpy is imported. Its products of small matrices are quicker on one core: on a busy machine, threads that
# wait for each other took four times the CPU time of the check for instructions.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# name -> (module:attribute of the command, one line for `leafgate --help`)
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "serve": ("leafgate.cli.serve:command", "Run the gateway on stdio or HTTP."),
    "demo": ("leafgate.cli.demo:command", "Show every step of the gateway in the terminal, with real processes."),
    "import": ("leafgate.cli.import_command:command", "Make a leafgate.yaml of the servers in a client's file."),
    "add": ("leafgate.cli.add_command:command", "Add a server from the registry's server.json to leafgate.yaml."),
    "install": ("leafgate.cli.install:command", "Add leafgate to a client's file, or remove it."),
    "config": (
        "leafgate.cli.config_command:command",
        "Check a configuration file; print its JSON Schema or reference.",
    ),
    "doctor": ("leafgate.cli.doctor:command", "Check everything that a gateway needs, and suggest fixes."),
    "call": ("leafgate.cli.call:command", "Call one tool through a gateway."),
    "status": ("leafgate.cli.status:command", "Show the status of a running gateway."),
    "audit": ("leafgate.cli.audit:command", "Check or print an audit file."),
    "approvals": ("leafgate.cli.approvals:command", "List, approve and deny calls that wait for an operator."),
    "token": ("leafgate.cli.config_command:token", "Make bearer tokens for HTTP clients, and their hashes."),
    "route": ("leafgate.cli.routing:route", "Rank tools for a query, as tool_browse does."),
    "eval": ("leafgate.cli.routing:evaluate", "Measure routing on a file of queries and their right tools."),
    "bench": ("leafgate.cli.tokens:bench", "Measure the gateway: leaf against shim."),
    "catalog": ("leafgate.cli.catalog:command", "List, show, lint, save and pin a catalog."),
    "context": ("leafgate.cli.context:command", "Build prompts from recorded sessions."),
    "sanitize": ("leafgate.cli.clean:sanitize", "Clean JSON lines as the firewall does."),
    "redact": ("leafgate.cli.clean:redact", "Replace secrets in JSON lines as the firewall does."),
    "scan": ("leafgate.cli.clean:scan", "Scan tool definitions for hidden instructions."),
    "tokens": ("leafgate.cli.tokens:tokens", "Encode and decode text; describe a tokenizer map."),
    "maps": ("leafgate.cli.maps:command", "List, add, check and build tokenizer maps."),
    "leaf": ("leafgate.cli.tokens:leaf", "Check leaf tokenizations."),
    "tool-id": ("leafgate.cli.tool_id:command", "Make and parse the ids of tools, resources and prompts."),
    "completion": ("leafgate.cli.main:completion", "Print the completion script of a shell."),
}

EXIT_CODES: Final = "Exit codes: 0 success; 1 a problem was found, or a call failed; 2 wrong usage or input."


class LazyGroup(click.Group):
    """A group whose commands are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = load_command(COMMANDS[cmd_name][0])
        command.epilog = command.epilog or EXIT_CODES
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        similar = difflib.get_close_matches(args[0], COMMANDS)
        if args[0] not in COMMANDS and similar:  # click searches loaded commands only, and none is loaded
            ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(map(repr, similar))}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def load_command(name: str) -> click.Command:
    """Import the command `module:attribute`.

    Garbage collection is off meanwhile: imports make many objects and little garbage, and collecting would take a tenth
    of their time.
    """
    module, _, attribute = name.partition(":")
    gc.disable()
    try:
        command = getattr(importlib.import_module(module), attribute)
    finally:
        gc.enable()
    assert isinstance(command, click.Command)
    return command


@click.group(cls=LazyGroup, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="leafgate")
def cli() -> None:
    """leafgate is an MCP gateway that keeps a model's context small, clean and already tokenized.

    `leafgate COMMAND --help` explains a command.
    """


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print the completion script of SHELL, which completes commands, options, clients and maps.

    \b
    eval "$(leafgate completion bash)"                                   in ~/.bashrc
    eval "$(leafgate completion zsh)"                                    in ~/.zshrc
    leafgate completion fish > ~/.config/fish/completions/leafgate.fish
    """
    script = get_completion_class(shell)
    assert script is not None, "click supports every shell of the choice"
    click.echo(script(cli, {}, "leafgate", "_LEAFGATE_COMPLETE").source())


def main() -> None:
    """Run the command line. An error exits 2 with its message, without a traceback."""
    try:
        cli()
    except LeafgateError as error:
        click.echo(f"leafgate: {error}", err=True)
        sys.exit(2)
    except OSError as error:
        if error.filename is None:
            raise
        # The user named this file: the reason helps, a traceback does not.
        click.echo(f"leafgate: {error.filename}: {error.strerror or type(error).__name__}", err=True)
        sys.exit(2)
