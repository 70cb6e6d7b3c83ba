"""Walking the tree by path: `/`, `/github`, `/github/issues`, `/github/issues/create_issue` (spec 2.8).

In: a tree and a path from a caller. Out: the cards of what is there; PATH_INVALID or PATH_NOT_FOUND with the nearest
path that exists. Touches nothing.
"""

from __future__ import annotations

import difflib
import re
from typing import Final

from leafgate.browse.budget import Count, one_line, token_upper_bound
from leafgate.browse.cards import make_card, make_node_card
from leafgate.catalog.tree import Leaf, Node, Tree
from leafgate.model.card import ChoiceCard
from leafgate.model.errors import GatewayError

MAX_PATH: Final = 1_024
_SEGMENT: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}|\*")
_NAMESPACE: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}|\*")
_SAID_LABELS: Final = 12


def list_path(tree: Tree, path: str, *, count: Count = token_upper_bound) -> list[ChoiceCard]:
    """The cards at a path: a node's children in their order, or a leaf's own card."""
    segments = parse_path(path, tree)
    if segments and segments[-1] == "*":
        segments = segments[:-1]
    found = tree.by_path.get("/" + "/".join(segments))
    if found is None:
        nearest = nearest_path(tree, segments)
        raise GatewayError(
            "PATH_NOT_FOUND",
            f"nothing is at this path; the nearest one is {nearest}",
            path=path,
            details={"nearest": nearest},
        )
    if isinstance(found, Leaf):
        return [make_card(found.item, count=count)]
    return [_card(child, count) for child in found.children.values()]


def parse_path(path: str, tree: Tree) -> list[str]:
    """The segments of a well-formed path; GatewayError PATH_INVALID otherwise."""
    wrong = _what_is_wrong(path)
    if wrong is None:
        return path[1:].split("/") if path != "/" else []
    shown = one_line(path, 120) if isinstance(path, str) else ""
    guessed = [part for part in re.split(r"[/\s]+", shown.lower()) if part and part != "*"]
    nearest = nearest_path(tree, guessed)
    raise GatewayError("PATH_INVALID", f"{wrong}; did you mean {nearest}", path=shown, details={"nearest": nearest})


def _what_is_wrong(path: object) -> str | None:
    if not isinstance(path, str) or not path.startswith("/"):
        return "a path is a string that begins with /"
    if len(path) > MAX_PATH:
        return f"a path has at most {MAX_PATH} characters"
    if path == "/":
        return None
    segments = path[1:].split("/")
    if "" in segments:
        return "a path does not end with / and has no empty segments"
    grammars = [_NAMESPACE] + [_SEGMENT] * (len(segments) - 1)
    if not all(grammar.fullmatch(segment) for grammar, segment in zip(grammars, segments, strict=True)):
        return "a segment is lower case: a letter or digit (a namespace: a letter), then letters, digits, _ and -"
    return None


def nearest_path(tree: Tree, segments: list[str]) -> str:
    """The existing path that these segments most probably mean."""
    node: Node | Leaf = tree.root
    for index, segment in enumerate(segments):
        if isinstance(node, Leaf):
            break
        child = node.children.get(segment)
        if child is None:
            guess = _nearest_child(tree, node, segments[index:])
            if guess is None:
                break
            child = guess
        node = child
    return node.path


def _nearest_child(tree: Tree, node: Node, rest: list[str]) -> Node | Leaf | None:
    # A tool that hangs deeper than the caller thought is found by its own segment, the last one given.
    below = node.path.rstrip("/") + "/"
    for path, found in tree.by_path.items():
        if isinstance(found, Leaf) and path.startswith(below) and path.endswith("/" + rest[-1]):
            return found
    alike = difflib.get_close_matches(rest[0], list(node.children)[:2_000], n=1, cutoff=0.6)
    if alike:
        return node.children[alike[0]]
    within = [name for name in node.children if rest[0] in name or name in rest[0]]
    return node.children[min(within, key=lambda name: (len(name), name))] if within else None


def _card(child: Node | Leaf, count: Count) -> ChoiceCard:
    if isinstance(child, Leaf):
        return make_card(child.item, count=count)
    return make_node_card(child.path, child.label, _said_of(child), count=count)


def _said_of(node: Node) -> str:
    """How much a node holds, and of what: `26 tools: issues, pull-requests, repositories`."""
    held = f"{node.size} {_noun(node, node.size)}"
    labels = list(node.children)
    more = f", and {len(labels) - _SAID_LABELS} more" if len(labels) > _SAID_LABELS else ""
    return f"{held}: {', '.join(labels[:_SAID_LABELS])}{more}"


def _noun(node: Node, size: int) -> str:
    child: Node | Leaf = node
    while isinstance(child, Node) and child.children:
        child = next(iter(child.children.values()))
    kind = child.item.kind if isinstance(child, Leaf) else "item"
    return kind if size == 1 else f"{kind}s"
