"""`leafgate completion`: the completion script of a shell. In: the shell's name. Out: the script, on standard output.

Also what completes a map's id. Touches the folders of maps, and nothing when they cannot be read.
"""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem, get_completion_class

from leafgate.model.errors import LeafgateError
from leafgate.storage.map_files import MapFiles

SHELLS = ("bash", "zsh", "fish")
_PROGRAM = "leafgate"
_VARIABLE = "_LEAFGATE_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the completion script of SHELL, which completes commands, options, clients and maps.

    \b
    eval "$(leafgate completion bash)"                                   in ~/.bashrc
    eval "$(leafgate completion zsh)"                                    in ~/.zshrc
    leafgate completion fish > ~/.config/fish/completions/leafgate.fish
    """
    found = get_completion_class(shell)
    assert found is not None, "every shell of the choice is one that click knows"
    root = click.get_current_context().find_root().command
    click.echo(found(root, {}, _PROGRAM, _VARIABLE).source())


def complete_map(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The ids of the maps that can be found."""
    try:
        known = MapFiles().list()
    except LeafgateError:
        return []
    return [CompletionItem(entry.id) for entry in known if entry.id.startswith(incomplete)]
