"""The catalog as a tree of readable paths: namespaces, clusters by topic, and one leaf per tool (spec 2.8).

The tree is the same for the same items in any order. Every item is reachable by exactly one path, and only the root may
have more than MAX_CHILDREN children.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from leafgate.data import load_word_sets
from leafgate.model.tool import SelectableItem, id_weight, normalize_namespace

MAX_CHILDREN: Final = 20
FLAT: Final = 6  # up to this many tools are listed without clusters
MAX_SEGMENT: Final = 64
MAX_TOPICS: Final = 5  # topics within topics; below, only ranges of names
MAX_PATH_WEIGHT: Final = 36  # tokens, at most
OTHER: Final = "other"

_WORD: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\W\d_A-Za-z]+")
_SENTENCE: Final = re.compile(r"[.!?](?:\s|$)|\n")

_VERBS, _PLAIN_VERBS, _EMPTY, _PREPOSITIONS = load_word_sets(
    "topics", ("verbs", "plain_verbs", "empty", "prepositions")
)
_NO_TOPIC: Final = _VERBS | _EMPTY
_AFTER_A_NOUN: Final = "and|as|at|between|by|for|from|in|into|is|of|on|or|that|to|using|which|with"


@dataclass(frozen=True)
class Leaf:
    path: str
    item: SelectableItem


@dataclass(frozen=True)
class Node:
    """An inner node: children by segment, in the order of listing."""

    path: str
    label: str
    size: int
    children: Mapping[str, Node | Leaf] = field(repr=False)


@dataclass(frozen=True)
class Tree:
    """The whole tree; `by_path` has every node and leaf."""

    root: Node
    by_path: Mapping[str, Node | Leaf] = field(repr=False)


@dataclass(frozen=True)
class _Subject:
    """An item and the words that decide on its cluster."""

    item: SelectableItem
    nouns: tuple[str, ...]  # of the name up to a preposition, singular, in order
    pairs: tuple[tuple[str, str], ...]  # neighbours among them
    description_nouns: tuple[str, ...]  # nouns of the description's first sentence


@dataclass(frozen=True)
class _Group:
    """Subjects that belong together. A group with a label is a node; one without a label is a single leaf."""

    label: str
    subjects: tuple[_Subject, ...]
    spent: frozenset[str] = frozenset()  # words that cannot split this group again
    inner: tuple[_Group, ...] = ()  # its arrangement, if it already exists


def build_tree(items: Iterable[SelectableItem]) -> Tree:
    by_namespace: dict[str, list[SelectableItem]] = {}
    for item in sorted(items, key=lambda one: one.id):
        by_namespace.setdefault(normalize_namespace(item.namespace) if item.namespace else "mcp", []).append(item)
    by_path: dict[str, Node | Leaf] = {}
    children: dict[str, Node | Leaf] = {}
    for namespace in sorted(by_namespace):
        subjects = _subjects(namespace, by_namespace[namespace])
        groups = _arrange(subjects, frozenset(), 0)
        children[namespace] = _node(f"/{namespace}", namespace, groups, by_path)
    root = Node("/", "", sum(map(len, by_namespace.values())), MappingProxyType(children))
    by_path["/"] = root
    return Tree(root, MappingProxyType(by_path))


def _node(path: str, label: str, groups: Sequence[_Group], by_path: dict[str, Node | Leaf], depth: int = 0) -> Node:
    """Build the node of these groups, clusters first, each kind sorted by segment."""
    used: set[str] = set()
    clusters: dict[str, _Group] = {}
    leaves: dict[str, SelectableItem] = {}
    for group in sorted((group for group in groups if group.label), key=lambda group: group.label):
        # A node's path is the id of its card, so it must be as short as a tool's.
        is_light = id_weight(f"{path}/{group.label}") <= MAX_PATH_WEIGHT
        clusters[_free_segment(group.label if is_light else "part", used)] = group
    for group in groups:
        for subject in () if group.label else group.subjects:
            leaves[_free_segment(leaf_segment(subject.item.name, subject.item.id), used)] = subject.item
    children: dict[str, Node | Leaf] = {}
    for segment in sorted(clusters):
        group = clusters[segment]
        inner = group.inner or _arrange(group.subjects, group.spent, depth + 1)
        children[segment] = _node(f"{path}/{segment}", group.label, inner, by_path, depth + 1)
    for segment in sorted(leaves):
        leaf = Leaf(f"{path}/{segment}", leaves[segment])
        children[segment] = by_path[leaf.path] = leaf
    size = sum(len(group.subjects) for group in groups)
    node = Node(path, label, size, MappingProxyType(children))
    by_path[path] = node
    return node


def leaf_segment(name: str, item_id: str = "") -> str:
    """Return a name as a path segment: lower case, with dashes for other signs."""
    lowered = re.sub(r"[^a-z0-9_-]+", "-", name[:256].lower()).strip("-").lstrip("-_")[:MAX_SEGMENT]
    return lowered or "tool-" + (re.sub(r"[^a-z0-9]", "", item_id.lower())[-8:] or "unnamed")


def _free_segment(name: str, used: set[str]) -> str:
    """Add and return the segment, or the first of segment-2, segment-3, ... that is not used."""
    segment, number = name, 1
    while segment in used:
        number += 1
        segment = f"{name[: MAX_SEGMENT - 1 - len(str(number))]}-{number}"
    used.add(segment)
    return segment


def _arrange(subjects: Sequence[_Subject], spent: frozenset[str], depth: int) -> Sequence[_Group]:
    """Return clusters and single leaves, together at most MAX_CHILDREN."""
    leaves = [_Group("", (subject,)) for subject in subjects]
    if len(subjects) <= (MAX_CHILDREN if depth else FLAT):
        return leaves
    clusters, singles = _by_topic(subjects, spent) if depth < MAX_TOPICS else ([], list(subjects))
    # A cluster of nearly everything is one more step for the reader without a choice.
    if len(clusters) == 1 and len(singles) <= 2:
        return leaves if len(subjects) <= MAX_CHILDREN else _arrange(subjects, clusters[0].spent, depth + 1)
    groups = [*clusters, *(_Group("", (subject,)) for subject in singles)]
    if len(groups) > MAX_CHILDREN and clusters and len(singles) > 1:
        groups = [*clusters, _Group(OTHER, tuple(singles), spent)]
    return _ranges(groups)


def _by_topic(subjects: Sequence[_Subject], spent: frozenset[str]) -> tuple[list[_Group], list[_Subject]]:
    """Cluster greedily: the noun in most names collects them all, then the next among the rest, down to two."""
    members: dict[str, dict[int, None]] = {}
    for index, subject in enumerate(subjects):
        for noun in subject.nouns:
            if noun not in spent:
                members.setdefault(noun, {})[index] = None
    # A word in nearly every name does not distinguish them.
    for noun in [noun for noun, indexes in members.items() if len(indexes) > 0.8 * len(subjects)]:
        del members[noun]
    topics: list[tuple[str, list[int]]] = []
    free = dict.fromkeys(range(len(subjects)))
    sizes = {noun: len(indexes) for noun, indexes in members.items() if len(indexes) >= 2}
    while sizes:
        noun = min(sizes, key=lambda one: (-sizes[one], one))
        group = [index for index in members[noun] if index in free]
        if len(group) != sizes[noun]:
            sizes[noun] = len(group)
            if len(group) < 2:
                del sizes[noun]
            continue
        topics.append((noun, group))
        for index in group:
            del free[index]
        del sizes[noun]
    _place_by_description(subjects, topics, free, spent)
    clusters = [_cluster(noun, [subjects[index] for index in sorted(group)], spent) for noun, group in topics]
    return clusters, [subjects[index] for index in free]


def _place_by_description(
    subjects: Sequence[_Subject],
    topics: list[tuple[str, list[int]]],
    free: dict[int, None],
    spent: frozenset[str],
) -> None:
    """Move free subjects to the topic of their description; if many remain, they form further topics."""
    by_noun = dict(topics)
    for index in list(free):
        home = next((noun for noun in subjects[index].description_nouns if noun in by_noun), None)
        if home is not None:
            by_noun[home].append(index)
            del free[index]
    if len(topics) + len(free) <= MAX_CHILDREN // 2:
        return
    while True:
        counts = Counter(noun for index in free for noun in subjects[index].description_nouns if noun not in spent)
        noun = min(counts, key=lambda one: (-counts[one], one), default="")
        if not 3 <= counts[noun] <= 0.8 * len(subjects):
            return
        group = [index for index in free if noun in subjects[index].description_nouns]
        topics.append((noun, group))
        for index in group:
            del free[index]


def _cluster(noun: str, subjects: Sequence[_Subject], spent: frozenset[str]) -> _Group:
    """Return the cluster, with the noun as its label, or the pair of nouns if nearly all names use the noun in it."""
    pairs = Counter(pair for subject in subjects for pair in dict.fromkeys(subject.pairs) if noun in pair)
    with_noun = sum(1 for subject in subjects if noun in subject.nouns)
    pair, shared = min(pairs.items(), key=lambda one: (-one[1], one[0]), default=(("", ""), 0))
    words = pair if shared > 1 and shared >= 0.9 * with_noun else (noun,)
    label = leaf_segment("-".join((*words[:-1], _plural_if_used(words[-1], subjects))))
    return _Group(label, tuple(subjects), spent | set(words))


def _plural_if_used(noun: str, subjects: Sequence[_Subject]) -> str:
    """Return the plural if a name or description uses it or shows that the noun is countable (`a table in ...`)."""
    plural = _plural(noun)
    countable = re.compile(rf"\b(?:an?|each|every|another|new) {re.escape(noun)}(?=[.,;:)]|$| (?:{_AFTER_A_NOUN})\b)")
    for subject in subjects:
        description = subject.item.description[:400].lower()
        if plural in _words(subject.item.name) or plural in _prose_words(description) or countable.search(description):
            return plural
    return noun


def _ranges(groups: Sequence[_Group]) -> Sequence[_Group]:
    """Return the groups; if there are too many for one node, neighbours by label share a node `first-to-last`."""
    if len(groups) <= MAX_CHILDREN:
        return groups
    ordered = sorted(groups, key=lambda group: (_range_label(group), group.subjects[0].item.id))
    count = min(MAX_CHILDREN, -(-len(ordered) // MAX_CHILDREN))
    cuts = [index * len(ordered) // count for index in range(count + 1)]
    return [_range(ordered[start:stop]) for start, stop in pairwise(cuts)]


def _range(bucket: Sequence[_Group]) -> _Group:
    first, last = _range_label(bucket[0])[:30].rstrip("-_"), _range_label(bucket[-1])[:30].rstrip("-_")
    subjects = tuple(subject for group in bucket for subject in group.subjects)
    return _Group(first if first == last else f"{first}-to-{last}", subjects, inner=tuple(_ranges(bucket)))


def _range_label(group: _Group) -> str:
    return group.label or leaf_segment(group.subjects[0].item.name, group.subjects[0].item.id)


def _subjects(namespace: str, items: Sequence[SelectableItem]) -> list[_Subject]:
    own = {*_words(namespace), *namespace.split("-")} - {""}
    # `git_status`, `browser_click`: a first word of nearly all names is a prefix, not a topic.
    firsts = Counter(words[0] for words in (_words(item.name) for item in items) if words)
    prefix = next((word for word, count in firsts.items() if len(items) > 2 and count > 0.8 * len(items)), "")
    return [_subject(item, own | {prefix}) for item in items]


def _subject(item: SelectableItem, own: set[str]) -> _Subject:
    nouns = _name_nouns([word for word in _words(item.name) if word not in own])
    description_nouns = [
        noun
        for word in _prose_words(_SENTENCE.split(item.description[:400], maxsplit=1)[0])
        if (noun := singular(word)) not in _NO_TOPIC and word not in _NO_TOPIC and word not in own and len(word) > 2
    ]
    return _Subject(
        item=item,
        nouns=tuple(dict.fromkeys(nouns)),
        pairs=tuple(pairwise(nouns)),
        description_nouns=tuple(dict.fromkeys(description_nouns)),
    )


def _name_nouns(words: Sequence[str]) -> list[str]:
    """Return the topic nouns of a name by common forms: `create_pull_request`, `pods_list`, `reply_to_thread`."""
    verbs = 0
    while verbs < len(words) and (words[verbs] in _VERBS or (verbs > 0 and words[verbs] in ("or", "and"))):
        verbs += 1
        # After the first verb, `pull`, `merge` and `request` are nouns, unless `or` joins another verb.
        if verbs < len(words) and words[verbs] not in ("or", "and") and words[verbs - 1] not in ("or", "and"):
            break
    objects = list(words[verbs:])
    stop = next((index for index, word in enumerate(objects) if word in _PREPOSITIONS), len(objects))
    objects = objects[:stop] or objects[stop:]
    about = [word for word in objects if word not in _EMPTY and len(word) > 1 and not word.isdigit()]
    trails = len(about) == 1 and singular(about[0]) in _PLAIN_VERBS and words[0] not in _PLAIN_VERBS
    if verbs == 0 or trails or not about:
        # The name begins without a verb (`pods_list`), ends with one (`monitor_create`), or is all verbs: the first
        # word is the noun.
        about = [word for word in words if word not in _EMPTY and len(word) > 1 and not word.isdigit()]
        about = [word for index, word in enumerate(about) if index == 0 or singular(word) not in _VERBS]
    return [singular(word) for word in about]


@lru_cache(maxsize=1 << 14)
def _words(text: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(text[:400]))


def _prose_words(text: str) -> list[str]:
    # A proper name such as CircleCI remains one word.
    return [word.lower() for word in re.findall(r"[^\W\d_]+", text)]


@lru_cache(maxsize=1 << 14)
def singular(word: str) -> str:
    """Return the singular: `issues` -> issue, `repositories` -> repository; `status`, `class` do not change."""
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "zes", "ches", "shes")):
        return word[:-2]
    return word[:-1]


def _plural(word: str) -> str:
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "z", "ch", "sh")) else "s")
