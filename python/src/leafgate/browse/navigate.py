"""Navigation in the tree by path: `/`, `/github`, `/github/issues`, `/github/issues/create_issue` (spec 2.8).

A wrong path fails with PATH_INVALID or PATH_NOT_FOUND, and with the nearest path that exists.
"""

from __future__ import annotations

import difflib
import re
from typing import Final

from leafgate.browse.cards import Count, make_card, make_node_card, one_line, token_upper_bound
from leafgate.catalog.tree import Leaf, Node, Tree
from leafgate.model.errors import GatewayError
from leafgate.model.tool import ChoiceCard

MAX_PATH: Final = 1_024
_SEGMENT: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}|\*")
_NAMESPACE: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}|\*")
_MAX_LABELS: Final = 12


def list_path(tree: Tree, path: str, *, count: Count = token_upper_bound) -> list[ChoiceCard]:
    """Return the cards at a path: a node's children in their order, or a leaf's own card."""
    segments = parse_path(path, tree)
    if segments and segments[-1] == "*":
        segments = segments[:-1]
    place = tree.by_path.get("/" + "/".join(segments))
    if place is None:
        nearest = nearest_path(tree, segments)
        raise GatewayError(
            "PATH_NOT_FOUND",
            f"nothing is at this path; the nearest one is {nearest}",
            path=path,
            details={"nearest": nearest},
        )
    return [_card(child, count) for child in ((place,) if isinstance(place, Leaf) else place.children.values())]


def parse_path(path: str, tree: Tree) -> list[str]:
    """Return the segments of a path, or raise GatewayError PATH_INVALID."""
    problem = _find_problem(path)
    if problem is None:
        return path[1:].split("/") if path != "/" else []
    line = one_line(path, 120) if isinstance(path, str) else ""
    segments = [part for part in re.split(r"[/\s]+", line.lower()) if part and part != "*"]
    nearest = nearest_path(tree, segments)
    raise GatewayError("PATH_INVALID", f"{problem}; did you mean {nearest}", path=line, details={"nearest": nearest})


def _find_problem(path: object) -> str | None:
    if not isinstance(path, str) or not path.startswith("/"):
        return "a path is a string that begins with /"
    if len(path) > MAX_PATH:
        return f"a path has at most {MAX_PATH} characters"
    segments = path[1:].split("/") if path != "/" else []
    if "" in segments:
        return "a path does not end with / and has no empty segments"
    if not all((_SEGMENT if place else _NAMESPACE).fullmatch(segment) for place, segment in enumerate(segments)):
        return "a segment is lower case: a letter or digit (a namespace: a letter), then letters, digits, _ and -"
    return None


def nearest_path(tree: Tree, segments: list[str]) -> str:
    """Return the existing path that these segments most probably mean."""
    node: Node | Leaf = tree.root
    for index, segment in enumerate(segments):
        if isinstance(node, Leaf):
            break
        child = node.children.get(segment) or _nearest_child(tree, node, segments[index:])
        if child is None:
            break
        node = child
    return node.path


def _nearest_child(tree: Tree, node: Node, rest: list[str]) -> Node | Leaf | None:
    # A tool that is deeper than the caller assumed is recognised by its own segment, the last one.
    below = node.path.rstrip("/") + "/"
    for path, place in tree.by_path.items():
        if isinstance(place, Leaf) and path.startswith(below) and path.endswith("/" + rest[-1]):
            return place
    alike = difflib.get_close_matches(rest[0], list(node.children)[:2_000], n=1, cutoff=0.6)
    if alike:
        return node.children[alike[0]]
    within = [name for name in node.children if rest[0] in name or name in rest[0]]
    return node.children[min(within, key=lambda name: (len(name), name))] if within else None


def _card(child: Node | Leaf, count: Count) -> ChoiceCard:
    if isinstance(child, Leaf):
        return make_card(child.item, count=count)
    return make_node_card(child.path, child.label, _describe(child), count=count)


def _describe(node: Node) -> str:
    """Describe the content of a node: `26 tools: issues, pull-requests, repositories`."""
    child: Node | Leaf = node
    while isinstance(child, Node) and child.children:
        child = next(iter(child.children.values()))
    noun = (child.item.kind if isinstance(child, Leaf) else "item") + ("" if node.size == 1 else "s")
    labels = list(node.children)
    more = f", and {len(labels) - _MAX_LABELS} more" if len(labels) > _MAX_LABELS else ""
    return f"{node.size} {noun}: {', '.join(labels[:_MAX_LABELS])}{more}"
