"""Shows what would change in a file, and asks. In: a change and the flags. Out: whether to go on.

Touches the terminal.
"""

from __future__ import annotations

import sys

import click
from rich.console import Console
from rich.syntax import Syntax

from leafgate.cli.file_change import FileChange, preview
from leafgate.model.errors import ConfigError

YES_OPTION = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
DRY_RUN_OPTION = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")


def agreed(change: FileChange, *, yes: bool, dry_run: bool, quiet: bool) -> bool:
    """Whether the change is to be made. `quiet` shows nothing on standard output, which then belongs to JSON."""
    show_diff(change, Console(stderr=quiet, highlight=False, soft_wrap=True))
    if dry_run:
        return False
    if yes:
        return True
    if not sys.stdin.isatty():
        raise ConfigError("nothing was changed: there is nobody to ask; --yes goes on without asking")
    return click.confirm("Change it so?", err=quiet)


def show_diff(change: FileChange, console: Console) -> None:
    shown = preview(change)
    if console.is_terminal:
        console.print(Syntax(shown, "diff", background_color="default"))
    else:
        console.print(shown, markup=False)
