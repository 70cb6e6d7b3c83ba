"""`leafgate context`: build prompts from a session file, once or at every step of a session."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import click

from leafgate.cli.json_lines import AS_JSON_OPTION
from leafgate.embed.context import ContextManager, load_mcp_session_jsonl
from leafgate.model.context import ContextItem, ContextPack, ItemKind, Phase

MAX_LISTED: Final = 20

COLUMNS: Final = " events      raw   pack  saved  items stable    new  asked after"

Ask = Callable[[str], ContextPack]
Command = Callable[..., None]


def _session_options(command: Command) -> Command:
    """Add the options of a session. The command gets its items, a manager, `ask` to build a prompt, and the query."""

    @functools.wraps(command)
    def with_session(
        *, session: Path, phase: str, budget: int | None, map_name: str | None, skip_bad_lines: bool, **others: Any
    ) -> None:
        items = load_mcp_session_jsonl(session, on_error="skip" if skip_bad_lines else "raise")
        manager = ContextManager(map=map_name)
        ask = functools.partial(manager.build_sync, Phase(phase), budget=budget)
        command(manager=manager, items=manager.ingesting(items), ask=ask, **others)
        for bad in items.bad_lines:
            click.echo(f"leafgate: {bad.file}, line {bad.line}: {bad.reason}", err=True)

    options = (
        click.argument("session", type=click.Path(path_type=Path, dir_okay=False)),
        click.option("--phase", type=click.Choice([phase.value for phase in Phase]), default="answer",
                     show_default=True, help="What the model does next."),
        click.option("--query", default="", help="The subject of the prompt."),
        click.option("--budget", type=click.IntRange(min=1), help="Tokens of the prompt. [default: the phase's own]"),
        click.option("--map", "map_name", metavar="MAP",
                     help="The tokenizer map to count with and to make ids with. [default: cl100k_base, without ids]"),
        click.option("--skip-bad-lines", is_flag=True, help="Report lines that are not events, and continue."),
        AS_JSON_OPTION,
    )  # fmt: skip
    return functools.reduce(lambda inner, option: option(inner), reversed(options), with_session)


@click.group()
def command() -> None:
    """Build prompts from recorded sessions: within a budget, with what is relevant to a query.

    SESSION has one event per line, {"id", "type", "text" or "content", "parent_id"?, "metadata"?}, or is a recording
    of `leafgate serve --record`.

    \b
    leafgate context build session.jsonl --phase answer --query "open invoices" --budget 4000
    """


@command.command()
@_session_options
def build(*, items: Iterator[ContextItem], ask: Ask, query: str, as_json: bool, **_: object) -> None:
    """Print the next prompt; items that were left out are listed on standard error.

    The query is the last user turn unless --query gives one.
    """
    question = ""
    for item in items:
        question = item.text if item.kind is ItemKind.user_turn else question
    pack = ask(query or question)
    if as_json:
        click.echo(json.dumps(pack.as_json(), ensure_ascii=False))
        return
    click.echo(pack.prompt)
    sections = ", ".join(f"{name} {tokens}" for name, tokens in pack.sections.items())
    click.echo(
        f"{pack.tokens} of {pack.budget} tokens ({sections or 'nothing'}), {pack.stable_tokens} before the cache "
        f"breakpoint; {len(pack.taken)} of {len(pack.items)} items",
        err=True,
    )
    best_first = sorted(pack.left, key=lambda each: -each.score)
    for each in best_first[:MAX_LISTED]:
        click.echo(f"  left out: {each.item.kind.value} {each.item.id}: {each.reason}", err=True)
    if len(best_first) > MAX_LISTED:
        click.echo(f"  left out: {len(best_first) - MAX_LISTED} more; --json lists them", err=True)


@command.command()
@_session_options
@click.option("--every", type=click.IntRange(min=1), default=1, show_default=True, help="Build only every Nth prompt.")
def replay(
    *, manager: ContextManager, items: Iterator[ContextItem], ask: Ask, query: str, as_json: bool, every: int
) -> None:
    """Build a prompt at every step of a session where a model is called: one line for each.

    That is after every user turn and every tool result. The query is the last user turn unless --query gives one.
    """
    if not as_json:
        click.echo(COLUMNS)
    for step in _steps(manager, items, ask, query, every):
        click.echo(json.dumps(step) if as_json else _step_line(step))


def _steps(
    manager: ContextManager, items: Iterator[ContextItem], ask: Ask, query: str, every: int
) -> Iterator[dict[str, Any]]:
    """Yield the cost of each prompt of a session, and of the whole transcript up to it."""
    raw, question, prompts = 0, "", 0
    for number, item in enumerate(items, 1):
        raw += manager.count(item.text)
        if item.kind is ItemKind.user_turn:
            question = item.text
        elif item.kind is not ItemKind.tool_result:
            continue
        prompts += 1
        if prompts % every:
            continue
        pack = ask(query or question)
        yield {
            "events": number,
            "raw_tokens": raw,
            "pack_tokens": pack.tokens,
            "taken": len(pack.taken),
            "stable_tokens": pack.stable_tokens,
            "new_tokens": pack.tokenized.new,
            "after": item.id,
        }


def _step_line(step: dict[str, Any]) -> str:
    saved = 1 - step["pack_tokens"] / step["raw_tokens"] if step["raw_tokens"] else 0.0
    return (
        f"{step['events']:>7} {step['raw_tokens']:>8} {step['pack_tokens']:>6} {saved:>6.0%} {step['taken']:>6} "
        f"{step['stable_tokens']:>6} {step['new_tokens']:>6}  {step['after']}"
    )
