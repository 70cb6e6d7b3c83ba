"""`leafgate context`: prompts made of a session file. In: events or a recording. Out: a prompt, JSON, or a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from leafgate.embed.context import ContextManager
from leafgate.embed.session_file import SessionItems, load_mcp_session_jsonl
from leafgate.model.context import ContextItem, ContextPack, ItemKind, Phase

MOST_NAMED: Final = 20

COLUMNS: Final = " events      raw   pack  saved  items stable    new  asked after"

Command = Callable[..., None]


def _session_options(command: Command) -> Command:
    options = (
        click.argument("session", type=click.Path(path_type=Path, dir_okay=False)),
        click.option("--phase", type=click.Choice([phase.value for phase in Phase]), default="answer",
                     show_default=True, help="What the model is asked to do next."),
        click.option("--query", default="", help="What the prompt is about."),
        click.option("--budget", type=click.IntRange(min=1), help="Tokens of the prompt. [default: the phase's own]"),
        click.option("--map", "map_name", metavar="MAP",
                     help="The tokenizer map to count in, and to give ids of. [default: cl100k_base, without ids]"),
        click.option("--skip-bad-lines", is_flag=True, help="Tell of lines that are no events, and go on."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@click.group()
def command() -> None:
    """Make prompts of recorded sessions: within a budget, with what bears on a query.

    SESSION has one event per line, {"id", "type", "text" or "content", "parent_id"?, "metadata"?}, or is a recording
    of `leafgate serve --record`.

    \b
    leafgate context build session.jsonl --phase answer --query "open invoices" --budget 4000
    """


@command.command()
@_session_options
def build(
    *,
    session: Path,
    phase: str,
    query: str,
    budget: int | None,
    map_name: str | None,
    skip_bad_lines: bool,
    as_json: bool,
) -> None:
    """Print the prompt for what comes next; what was left out is told on standard error.

    The query is the last user turn unless --query gives one.
    """
    items = load_mcp_session_jsonl(session, on_error="skip" if skip_bad_lines else "raise")
    manager = ContextManager(map=map_name)
    asked = ""
    for item in manager.ingesting(items):
        asked = item.text if item.kind is ItemKind.user_turn else asked
    pack = manager.build_sync(Phase(phase), query or asked, budget)
    _tell_bad_lines(items)
    if as_json:
        click.echo(json.dumps(pack.as_json(), ensure_ascii=False))
        return
    click.echo(pack.prompt)
    click.echo(_summary(pack), err=True)
    best_first = sorted(pack.left, key=lambda each: -each.score)
    for each in best_first[:MOST_NAMED]:
        click.echo(f"  left out: {each.item.kind.value} {each.item.id}: {each.reason}", err=True)
    if len(best_first) > MOST_NAMED:
        click.echo(f"  left out: {len(best_first) - MOST_NAMED} more; --json names them", err=True)


@command.command()
@_session_options
@click.option("--every", type=click.IntRange(min=1), default=1, show_default=True, help="Of so many prompts, one.")
def replay(
    *,
    session: Path,
    phase: str,
    query: str,
    budget: int | None,
    map_name: str | None,
    skip_bad_lines: bool,
    as_json: bool,
    every: int,
) -> None:
    """Go through a session, and build a prompt wherever a model would be asked: one line for each.

    That is behind every user turn and every tool result. The query is the last user turn unless --query gives one.
    """
    items = load_mcp_session_jsonl(session, on_error="skip" if skip_bad_lines else "raise")
    if not as_json:
        click.echo(COLUMNS)
    manager = ContextManager(map=map_name)
    ask = partial(manager.build_sync, Phase(phase), budget=budget)
    for step in _steps(manager, manager.ingesting(items), ask, query, every):
        click.echo(json.dumps(step) if as_json else _step_line(step))
    _tell_bad_lines(items)


def _steps(
    manager: ContextManager, items: Iterator[ContextItem], ask: Callable[[str], ContextPack], query: str, every: int
) -> Iterator[dict[str, Any]]:
    """What each prompt of a session would have cost, and what the whole transcript so far costs."""
    raw, asked, prompts = 0, "", 0
    for number, item in enumerate(items, 1):
        raw += manager.count(item.text)
        if item.kind is ItemKind.user_turn:
            asked = item.text
        elif item.kind is not ItemKind.tool_result:
            continue
        prompts += 1
        if prompts % every:
            continue
        pack = ask(query or asked)
        yield {
            "events": number,
            "raw_tokens": raw,
            "pack_tokens": pack.tokens,
            "taken": len(pack.taken),
            "stable_tokens": pack.stable_tokens,
            "new_tokens": pack.tokenized.new,
            "after": item.id,
        }


def _tell_bad_lines(items: SessionItems) -> None:
    for bad in items.bad_lines:
        click.echo(f"leafgate: {bad.file}, line {bad.line}: {bad.reason}", err=True)


def _summary(pack: ContextPack) -> str:
    sections = ", ".join(f"{name} {tokens}" for name, tokens in pack.sections.items())
    return (
        f"{pack.tokens} of {pack.budget} tokens ({sections or 'nothing'}), {pack.stable_tokens} before the cache "
        f"breakpoint; {len(pack.taken)} of {len(pack.items)} items"
    )


def _step_line(step: dict[str, Any]) -> str:
    saved = 1 - step["pack_tokens"] / step["raw_tokens"] if step["raw_tokens"] else 0.0
    return (
        f"{step['events']:>7} {step['raw_tokens']:>8} {step['pack_tokens']:>6} {saved:>6.0%} {step['taken']:>6} "
        f"{step['stable_tokens']:>6} {step['new_tokens']:>6}  {step['after']}"
    )
