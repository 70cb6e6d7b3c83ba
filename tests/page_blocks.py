"""The fenced blocks of a Markdown page. In: the page's text. Out: blocks, with what a comment says about running each.

Touches nothing. A comment on the line above a block says how it is run; without one it is simply run:

    <!-- run: background -->                it serves, and is left running until the page ends
    <!-- run: in checkout -->               in the clone, with the caller's own environment; both may be joined
    <!-- not run: needs a Docker engine --> not at all; tests/docs keeps a list of all of these
    <!-- not leafgate's: Prometheus -->     YAML or JSON that is another program's

```python no-run``` means the second-last too. A comment that is none of these, or stands above no block, is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

FENCE = "```"
KINDS = frozenset({"", "text", "sh", "python", "yaml", "json", "js", "ts", "nginx"})
COMMENT = re.compile(r"<!-- (run|not run|not leafgate's): (.+?) -->")
MANNERS = {"background": (True, False), "in checkout": (False, True), "background in checkout": (True, True)}


class PageError(ValueError):
    """The page has a fence or a comment that nobody understands."""


@dataclass(frozen=True)
class Block:
    """What stands between two fences, and how it wants to be run."""

    kind: str
    line: int  # of the opening fence, from 1
    text: str
    background: bool = False
    in_checkout: bool = False
    not_run: str = ""  # the reason
    foreign: str = ""  # whose it is


def blocks_of(page: str) -> list[Block]:
    """All blocks of a page, in its order."""
    return [*_blocks(page.splitlines())]


def _blocks(lines: list[str]) -> Iterator[Block]:
    at = 0
    comment: tuple[str, str] | None = None
    while at < len(lines):
        line = lines[at]
        if line.startswith(FENCE):
            end = _end_of(lines, at)
            yield _block(lines[at].removeprefix(FENCE), at + 1, lines[at + 1 : end], comment)
            at, comment = end + 1, None
            continue
        if comment is not None and line.strip():
            raise PageError(f"line {at}: the comment stands above no block")
        comment = _comment(line, at) or comment
        at += 1
    if comment is not None:
        raise PageError("the last comment stands above no block")


def _end_of(lines: list[str], start: int) -> int:
    for at in range(start + 1, len(lines)):
        if lines[at].startswith(FENCE):
            if lines[at].strip() != FENCE:
                break
            return at
    raise PageError(f"line {start + 1}: the block has no end")


def _comment(line: str, at: int) -> tuple[str, str] | None:
    found = COMMENT.fullmatch(line.strip())
    if found:
        return found[1], found[2]
    if re.match(r"<!--\s*(run|not)\b", line.strip()):
        raise PageError(f"line {at + 1}: not a comment that is known: {line.strip()}")
    return None


def _block(info: str, line: int, lines: list[str], comment: tuple[str, str] | None) -> Block:
    kind, _, rest = info.strip().partition(" ")
    if kind not in KINDS or rest not in ("", "no-run"):
        raise PageError(f"line {line}: not a kind of block that is known: {info.strip()}")
    word, what = comment or ("not run" if rest else "", "no-run")
    background, in_checkout = False, False
    if word == "run":
        if what not in MANNERS or kind != "sh":
            raise PageError(f"line {line}: {kind} blocks cannot be run so: {what}")
        background, in_checkout = MANNERS[what]
    return Block(
        kind,
        line,
        "".join(f"{each}\n" for each in lines),
        background,
        in_checkout,
        not_run=what if word == "not run" else "",
        foreign=what if word == "not leafgate's" else "",
    )
