"""The catalog as a tree of readable paths: namespaces, clusters of what tools are about, a leaf a tool (spec 2.8).

In: catalog items. Out: an immutable tree, the same for the same items in any order. Touches nothing. Owns the rules
that every item is reachable by exactly one path, and that no node but the root has more than MAX_CHILDREN children.
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

from leafgate.model.tool import SelectableItem
from leafgate.model.tool_id import id_weight, normalize_namespace

MAX_CHILDREN: Final = 20
FLAT: Final = 6  # up to this many tools are listed as they are
MAX_SEGMENT: Final = 64
MAX_TOPICS: Final = 5  # topics within topics; below, only ranges of names
MAX_PATH_WEIGHT: Final = 36  # tokens, at most
OTHER: Final = "other"

_WORD: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\W\d_A-Za-z]+")
_SENTENCE: Final = re.compile(r"[.!?](?:\s|$)|\n")


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


# What tools do, rather than what they do it to. A closed list of common words: it steers labels, never reachability.
_VERBS: Final = _set_of(
    """
    abort accept activate add allow analyze answer append apply approve archive ask assign attach authenticate
    auto bind browse build calculate call cancel capture change check clear click clone close compare complete
    compute configure confirm connect convert copy count create customize deactivate debug decode decrement
    delete deny deploy describe destroy detach detect dial disable disconnect discover download drag drop
    duplicate edit emulate enable encode end ensure enter evaluate exec execute expand explain export extract
    fetch fill filter find finish fit fix focus follow fork format generate get give grant handle hide highlight
    hover import increment init initialize insert inspect install invite invoke join kill launch leave like link
    list load lock lookup make map mark merge modify monitor mount move mute navigate new notify open parse
    paste patch pause perform pin ping play post predict press preview print process protect provide publish
    pull push put query queue read rebuild receive refresh register reindex reject release reload remove rename
    render reorder replace reply request rerun reschedule reset resize resolve restart restore resume retrieve
    retry return revert revoke rollback rotate run save scale scan schedule scrape scroll search select send set
    share show shut sign sort split start stop store stream submit subscribe suggest summarize suspend switch
    sync tag take test toggle top track transfer transform translate trash trigger type unarchive unassign undo
    unfollow uninstall unlink unlock unmount unpin unprotect unshare unsubscribe untag unwatch update upgrade
    upload upsert use validate verify view wait warm watch write
    """
)
_PLAIN_VERBS: Final = _set_of(
    """
    add check create delete find get list put read remove run search set start stop update view write
    """
)
# Words that say nothing of a topic: function words, and adjectives that tool names are fond of.
_EMPTY: Final = _set_of(
    """
    a able about above after all allow allowed also an and another any api are around as available base based
    basic be been before below best between both but by can current custom data default details different direct
    each either enhanced every existing false first following for free from full given global has have helper
    how id ids if in info information input instead into is it its json last latest least less level local long
    manual many may mcp me more most much multiple must my name near need next no non not now null number of off
    on once one only optional or other our out output over own per possible previous provided raw recent
    related result results robust same second several should simple single so some specific specified status
    string such summary support supported than that the their them then there these they this those through tiny
    to tool tools true two under underused unique until up url used user-provided using value values various via
    way web what when where whether which while who whole will with within without you your
    """
)
_NO_TOPIC: Final = _VERBS | _EMPTY
_AFTER_A_NOUN: Final = "and|as|at|between|by|for|from|in|into|is|of|on|or|that|to|using|which|with"
_PREPOSITIONS: Final = _set_of(
    """
    about above after as at before below between by for from in into near of on over per to under via with
    """
)


@dataclass(frozen=True)
class Leaf:
    """One item and where it hangs."""

    path: str
    item: SelectableItem


@dataclass(frozen=True)
class Node:
    """An inner node: children by segment, in the order in which they are listed."""

    path: str
    label: str
    size: int
    children: Mapping[str, Node | Leaf] = field(repr=False)


@dataclass(frozen=True)
class Tree:
    """The whole; `by_path` finds any node or leaf at once."""

    root: Node
    by_path: Mapping[str, Node | Leaf] = field(repr=False)


@dataclass(frozen=True)
class _Subject:
    """An item and the words that may place it."""

    item: SelectableItem
    nouns: tuple[str, ...]  # of the name up to a preposition, singular, in order
    pairs: tuple[tuple[str, str], ...]  # neighbours among them
    said: tuple[str, ...]  # nouns of the description's first sentence


@dataclass(frozen=True)
class _Group:
    """Subjects that belong together; a label that is not empty makes them a node, an empty one a single leaf."""

    label: str
    subjects: tuple[_Subject, ...]
    spent: frozenset[str] = frozenset()  # words that cannot split this group again
    inner: tuple[_Group, ...] = ()  # its arrangement, where that is already known


def build_tree(items: Iterable[SelectableItem]) -> Tree:
    """The tree of these items."""
    by_namespace: dict[str, list[SelectableItem]] = {}
    for item in sorted(items, key=lambda one: one.id):
        by_namespace.setdefault(_root_segment(item.namespace), []).append(item)
    by_path: dict[str, Node | Leaf] = {}
    children: dict[str, Node | Leaf] = {}
    for namespace in sorted(by_namespace):
        subjects = _subjects(namespace, by_namespace[namespace])
        groups = _arranged(subjects, frozenset(), 0)
        children[namespace] = _node(f"/{namespace}", namespace, groups, by_path)
    root = Node("/", "", sum(len(found) for found in by_namespace.values()), MappingProxyType(children))
    by_path["/"] = root
    return Tree(root, MappingProxyType(by_path))


def _root_segment(namespace: str) -> str:
    return normalize_namespace(namespace) if namespace else "mcp"


def _node(path: str, label: str, groups: Sequence[_Group], by_path: dict[str, Node | Leaf], depth: int = 0) -> Node:
    """Hang the groups below a path, clusters first, each kind by its segment."""
    taken: set[str] = set()
    clusters: dict[str, _Group] = {}
    leaves: dict[str, SelectableItem] = {}
    for group in sorted((group for group in groups if group.label), key=lambda group: group.label):
        # A node's path is its card's id, so it has to stay as light as a tool's.
        is_light = id_weight(f"{path}/{group.label}") <= MAX_PATH_WEIGHT
        clusters[_free_segment(group.label if is_light else "part", taken)] = group
    for group in groups:
        for subject in () if group.label else group.subjects:
            leaves[_free_segment(leaf_segment(subject.item.name, subject.item.id), taken)] = subject.item
    children: dict[str, Node | Leaf] = {}
    for segment in sorted(clusters):
        group = clusters[segment]
        inner = group.inner or _arranged(group.subjects, group.spent, depth + 1)
        children[segment] = _node(f"{path}/{segment}", group.label, inner, by_path, depth + 1)
    for segment in sorted(leaves):
        leaf = Leaf(f"{path}/{segment}", leaves[segment])
        children[segment] = by_path[leaf.path] = leaf
    size = sum(len(group.subjects) for group in groups)
    node = Node(path, label, size, MappingProxyType(children))
    by_path[path] = node
    return node


def leaf_segment(name: str, item_id: str = "") -> str:
    """A name as a path segment: lower case, other signs as dashes."""
    lowered = re.sub(r"[^a-z0-9_-]+", "-", name[:256].lower()).strip("-").lstrip("-_")[:MAX_SEGMENT]
    return lowered or "tool-" + (re.sub(r"[^a-z0-9]", "", item_id.lower())[-8:] or "unnamed")


def _free_segment(wanted: str, taken: set[str]) -> str:
    """The segment, or the first of segment-2, segment-3, ... that no sibling has."""
    segment, number = wanted, 1
    while segment in taken:
        number += 1
        segment = f"{wanted[: MAX_SEGMENT - 1 - len(str(number))]}-{number}"
    taken.add(segment)
    return segment


def _arranged(subjects: Sequence[_Subject], spent: frozenset[str], depth: int) -> Sequence[_Group]:
    """Clusters and single leaves, together at most MAX_CHILDREN."""
    leaves = [_Group("", (subject,)) for subject in subjects]
    if len(subjects) <= (MAX_CHILDREN if depth else FLAT):
        return leaves
    clusters, singles = _by_topic(subjects, spent) if depth < MAX_TOPICS else ([], list(subjects))
    # A cluster that holds nearly everything is one more step for the reader, and no choice.
    if len(clusters) == 1 and len(singles) <= 2:
        return leaves if len(subjects) <= MAX_CHILDREN else _arranged(subjects, clusters[0].spent, depth + 1)
    groups = [*clusters, *(_Group("", (subject,)) for subject in singles)]
    if len(groups) > MAX_CHILDREN and clusters and len(singles) > 1:
        groups = [*clusters, _Group(OTHER, tuple(singles), spent)]
    return _ranges(groups)


def _by_topic(subjects: Sequence[_Subject], spent: frozenset[str]) -> tuple[list[_Group], list[_Subject]]:
    """Greedy: the noun that most names share takes them all, then the next among the rest, down to two."""
    members: dict[str, dict[int, None]] = {}
    for index, subject in enumerate(subjects):
        for noun in subject.nouns:
            if noun not in spent:
                members.setdefault(noun, {})[index] = None
    # A word of nearly every name tells none of them apart.
    for noun in [noun for noun, found in members.items() if len(found) > 0.8 * len(subjects)]:
        del members[noun]
    picked: list[tuple[str, list[int]]] = []
    free = dict.fromkeys(range(len(subjects)))
    sizes = {noun: len(found) for noun, found in members.items() if len(found) >= 2}
    while sizes:
        noun = min(sizes, key=lambda one: (-sizes[one], one))
        found = [index for index in members[noun] if index in free]
        if len(found) != sizes[noun]:
            sizes[noun] = len(found)
            if len(found) < 2:
                del sizes[noun]
            continue
        picked.append((noun, found))
        for index in found:
            del free[index]
        del sizes[noun]
    _place_by_description(subjects, picked, free, spent)
    clusters = [_cluster(noun, [subjects[index] for index in sorted(found)], spent) for noun, found in picked]
    return clusters, [subjects[index] for index in free]


def _place_by_description(
    subjects: Sequence[_Subject],
    picked: list[tuple[str, list[int]]],
    free: dict[int, None],
    spent: frozenset[str],
) -> None:
    """Singles go to the cluster that their description speaks of; if many are left, they form clusters of their own."""
    known = dict(picked)
    for index in list(free):
        home = next((noun for noun in subjects[index].said if noun in known), None)
        if home is not None:
            known[home].append(index)
            del free[index]
    if len(picked) + len(free) <= MAX_CHILDREN // 2:
        return
    while True:
        said = Counter(noun for index in free for noun in subjects[index].said if noun not in spent)
        noun = min(said, key=lambda one: (-said[one], one), default="")
        if not 3 <= said[noun] <= 0.8 * len(subjects):
            return
        found = [index for index in free if noun in subjects[index].said]
        picked.append((noun, found))
        for index in found:
            del free[index]


def _cluster(noun: str, subjects: Sequence[_Subject], spent: frozenset[str]) -> _Group:
    """Named by the noun, or by the pair of nouns in which all of them use it."""
    pairs = Counter(pair for subject in subjects for pair in dict.fromkeys(subject.pairs) if noun in pair)
    named = sum(1 for subject in subjects if noun in subject.nouns)
    pair, shared = min(pairs.items(), key=lambda one: (-one[1], one[0]), default=(("", ""), 0))
    words = pair if shared > 1 and shared >= 0.9 * named else (noun,)
    label = leaf_segment("-".join((*words[:-1], _as_written(words[-1], subjects))))
    return _Group(label, tuple(subjects), spent | set(words))


def _as_written(noun: str, subjects: Sequence[_Subject]) -> str:
    """The plural, if anyone here writes it or counts the noun (`a table in ...`)."""
    plural = _plural(noun)
    counted = re.compile(rf"\b(?:an?|each|every|another|new) {re.escape(noun)}(?=[.,;:)]|$| (?:{_AFTER_A_NOUN})\b)")
    for subject in subjects:
        description = subject.item.description[:400].lower()
        if plural in _words(subject.item.name) or plural in _prose_words(description) or counted.search(description):
            return plural
    return noun


def _ranges(groups: Sequence[_Group]) -> Sequence[_Group]:
    """The groups; if they are too many for one node, neighbours by label share a node named after first and last."""
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
    # `git_status`, `browser_click`: a first word that nearly all names share is a prefix, not a topic.
    firsts = Counter(words[0] for words in (_words(item.name) for item in items) if words)
    prefix = next((word for word, found in firsts.items() if len(items) > 2 and found > 0.8 * len(items)), "")
    return [_subject(item, own | {prefix}) for item in items]


def _subject(item: SelectableItem, own: set[str]) -> _Subject:
    nouns = _name_nouns([word for word in _words(item.name) if word not in own])
    said = [
        noun
        for word in _prose_words(_first_sentence(item.description))
        if (noun := singular(word)) not in _NO_TOPIC and word not in _NO_TOPIC and word not in own and len(word) > 2
    ]
    return _Subject(
        item=item,
        nouns=tuple(dict.fromkeys(nouns)),
        pairs=tuple(pairwise(nouns)),
        said=tuple(dict.fromkeys(said)),
    )


def _name_nouns(words: Sequence[str]) -> list[str]:
    """What a name is about, by the shapes names have: `create_pull_request`, `pods_list`, `reply_to_thread`."""
    verbs = 0
    while verbs < len(words) and (words[verbs] in _VERBS or (verbs > 0 and words[verbs] in ("or", "and"))):
        verbs += 1
        # Behind the first verb `pull`, `merge` and `request` are nouns, unless `or` joins another verb on.
        if verbs < len(words) and words[verbs] not in ("or", "and") and words[verbs - 1] not in ("or", "and"):
            break
    objects = list(words[verbs:])
    stop = next((index for index, word in enumerate(objects) if word in _PREPOSITIONS), len(objects))
    objects = objects[:stop] or objects[stop:]
    about = [word for word in objects if word not in _EMPTY and len(word) > 1 and not word.isdigit()]
    trails = len(about) == 1 and singular(about[0]) in _PLAIN_VERBS and words[0] not in _PLAIN_VERBS
    if verbs == 0 or trails or not about:
        # No verb leads (`pods_list`), one trails (`monitor_create`), or all is verb: the first word is the noun.
        about = [word for word in words if word not in _EMPTY and len(word) > 1 and not word.isdigit()]
        about = [word for index, word in enumerate(about) if index == 0 or singular(word) not in _VERBS]
    return [singular(word) for word in about]


@lru_cache(maxsize=1 << 14)
def _words(text: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(text[:400]))


def _prose_words(text: str) -> list[str]:
    # A proper name such as CircleCI stays one word here.
    return [word.lower() for word in re.findall(r"[^\W\d_]+", text)]


def _first_sentence(text: str) -> str:
    return _SENTENCE.split(text[:400], maxsplit=1)[0]


@lru_cache(maxsize=1 << 14)
def singular(word: str) -> str:
    """`issues` -> issue, `repositories` -> repository; `status`, `analysis` and `class` are left alone."""
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
