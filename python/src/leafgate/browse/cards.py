"""Cards: what a model reads about an item before it asks for more (spec 2.3 to 2.6, 2.9, 2.10).

Every card fits a budget in tokens, and the same input gives the same bytes. The caller passes the counter of tokens;
without one an upper bound is used, which never allows too much. A card never contains a schema, an example, free
metadata or an address.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol

from leafgate.model.errors import CatalogError, RouteError
from leafgate.model.tool import ChoiceCard, SelectableItem

Count = Callable[[str], int]
Provider = Literal["json_schema", "openai", "anthropic"]
Status = Literal["accepted", "repaired", "rejected"]

CARD_HARD_CAP: Final = 80
CARD_TARGET: Final = 57  # ten cards and a page's preamble are then within 600
MIN_DESCRIPTION: Final = 5  # a heavy id may push a card over the target, not over the cap

MAX_READ: Final = 1_024  # characters of a description that are considered
MAX_SHORTENED: Final = 512  # maximum characters of a shortened description: no card has room for more

ELLIPSIS: Final = "…"

# Cards
MAX_NAME: Final = 64
MAX_TAGS: Final = 5
MAX_TAG_LENGTH: Final = 24
TAG_TOKENS: Final = 6  # what the tags of one card may cost together, safety tags aside
NAME_TOKENS: Final = 8  # what a name costs that the id could not spell

DESTRUCTIVE: Final = "destructive"
READ_ONLY: Final = "read-only"

# Letters, digits and a few joining signs: no braces, quotes, slashes or colons, so no schema and no address fits in.
_TAG: Final = re.compile(r"\w[\w .+#-]*")

BREAKPOINT_ID: Final = "__cache_breakpoint__"
BREAKPOINT: Final = ChoiceCard(id=BREAKPOINT_ID, name="cache breakpoint", description="", kind="internal")

_SEAM: Final = 4  # tokens by which a whole text may count less than its beginning
_LONG_WORDS: Final = 6  # estimated characters of a token

_VIRAMA: Final = 9  # the combining class
_SENTENCE_END: Final = re.compile(r"[.!?](?=\s|$)")
_NOT_AN_END: Final = re.compile(r"(?:\b[A-Za-z]|\betc|\bvs|\bcf)\.$")
# Lower-case letters of which any two neighbours are one token; a space before them joins the token.
_WEIGHED: Final = re.compile(r"( ?[abcdehiklmnoprstuwy]+)|([0-9]+)|([^\x00-\x7f]+)|.", re.DOTALL)

# Cards without a score, by the id of their item and the counter of their budget. The ids are those of one catalog.
CardCache = MutableMapping[tuple[str, Count], ChoiceCard]


# Budgets: what a card may cost, and how a description is shortened to fit (spec 2.4, 2.5)


def token_upper_bound(text: str) -> int:
    """Return an upper bound of the cl100k_base tokens of a text: a counter for callers without a tokenizer."""
    bound = 0
    for run in _WEIGHED.finditer(text):
        if run[1]:
            bound += (2 * len(run[1]) + 1) // 3
        elif run[2]:
            bound += (len(run[2]) + 2) // 3
        elif run[3]:
            bound += len(run[3].encode("utf-8", "surrogatepass"))
        else:
            bound += 1
    return bound


def one_line(text: str, limit: int = MAX_READ) -> str:
    """Return the beginning of a text on one line, with spaces for controls and line breaks, without invisible signs."""
    line = " ".join(text[:limit].split())
    return line if line.isprintable() else " ".join("".join(map(_visible, line)).split())


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if category in ("Cc", "Zl", "Zp", "Cs"):
        return " "
    # Bidirectional overrides, zero-width spaces, tag characters; joiners stay, because words and emoji contain them.
    return "" if category == "Cf" and character not in "\u200c\u200d" else character


def fit_description(text: str, room: int, count: Count) -> str:
    """Return the text if it fits; else as many whole sentences as fit; else as much as fits and an ellipsis."""
    whole = one_line(text)
    if len(text) <= MAX_READ and not _is_hopeless(whole, room, count) and count(whole) <= room:
        return whole
    end = min(len(whole), MAX_SHORTENED)
    # The character after the cut decides whether a point at its end closes a sentence.
    fitting = ""
    for match in _SENTENCE_END.finditer(whole, 0, end + 1):
        sentences = whole[: match.end()]
        if match.end() > end or _NOT_AN_END.search(sentences):
            continue
        weight = count(sentences)
        if weight <= room:
            fitting = sentences
        elif weight > room + _SEAM:  # longer texts only cost more
            break
    if fitting:
        return fitting
    while end > 0 and not _is_boundary(whole, end):
        end -= 1
    return cut_with_ellipsis(whole[:end], room, count)


def _is_hopeless(text: str, room: int, count: Count) -> bool:
    """Is already the beginning of a long text too large? This saves counting all of it."""
    begin = _LONG_WORDS * max(room, 1)
    return len(text) > 2 * begin and count(text[:begin]) > room + _SEAM


def cut_with_ellipsis(text: str, room: int, count: Count) -> str:
    """Return the longest beginning that leaves one token for the ellipsis, never cut within a visible character."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if count(text[:middle]) + 1 <= room:
            low = middle
        else:
            high = middle - 1
    while low > 0 and (not _is_boundary(text, low) or count(_closed(text[:low])) > room):
        low -= 1
    return _closed(text[:low]) if low > 0 else ""


def _closed(text: str) -> str:
    return text.rstrip(" .,;:(-") + ELLIPSIS


def _is_boundary(text: str, index: int) -> bool:
    """May a visible character end at this index, without a mark, joiner or half of a flag on either side?"""
    if index >= len(text):
        return True
    after, before = text[index], text[index - 1]
    is_tone = "\U0001f3fb" <= after <= "\U0001f3ff"
    if unicodedata.category(after) in ("Mn", "Me", "Mc") or is_tone or after in "\u200c\u200d" or before == "\u200d":
        return False
    if unicodedata.combining(before) == _VIRAMA:  # it ties the next consonant to this one
        return False
    if _is_flag_half(after) and _is_flag_half(before):
        begin = index
        while begin > 0 and _is_flag_half(text[begin - 1]):
            begin -= 1
        return (index - begin) % 2 == 0
    return True


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


# Cards (spec 2.3, 2.6)


def make_choice_cards(
    items: Iterable[SelectableItem],
    *,
    scores: Mapping[str, float] | None = None,
    max_cards: int | None = None,
    count: Count = token_upper_bound,
    cache: CardCache | None = None,
) -> list[ChoiceCard]:
    """Make cards by falling score, equal ones by rising id. `cache` saves cards for later calls."""
    score_of = scores or {}
    ordered = sorted(items, key=lambda item: (-_finite(score_of.get(item.id)), item.id))
    chosen = ordered if max_cards is None else ordered[: max(0, max_cards)]
    cards = {} if cache is None else cache
    return [replace(_cached_card(item, count, cards), score=score_of.get(item.id)) for item in chosen]


def _cached_card(item: SelectableItem, count: Count, cache: CardCache) -> ChoiceCard:
    card = cache.get((item.id, count))
    if card is None:
        card = cache[item.id, count] = make_card(item, count=count)
    return card


def make_card(item: SelectableItem, *, score: float | None = None, count: Count = token_upper_bound) -> ChoiceCard:
    """Make the card of one item, or raise CatalogError if even the shortest description exceeds the hard cap."""
    bare = ChoiceCard(
        id=item.id,
        name=_short_name(item.name, count),
        description="",
        tags=_choose_tags(item.tags, count),
        kind=item.kind,
        namespace=item.namespace,
        has_schema=bool(item.args_schema),
        score=score,
        cost_hint=item.cost_hint,
        side_effects=item.side_effects,
        safety="destructive" if DESTRUCTIVE in item.tags else "read_only" if READ_ONLY in item.tags else "",
    )
    return _describe(bare, item.description, count)


def make_node_card(path: str, label: str, description: str, *, count: Count = token_upper_bound) -> ChoiceCard:
    """Make the card of an inner node of the tree. Its id is its path."""
    namespace = path.split("/")[1] if "/" in path else ""
    bare = ChoiceCard(id=path, name=label[:MAX_NAME], description="", kind="internal", namespace=namespace)
    return _describe(bare, description, count)


def _describe(bare: ChoiceCard, description: str, count: Count) -> ChoiceCard:
    # The upper bound overstates by half: a card under the cap by it is nearly always under the target.
    target = CARD_HARD_CAP if count is token_upper_bound else CARD_TARGET
    room = max(target - count(render_card(bare)) - 2, MIN_DESCRIPTION)  # a dash before it, the line's end behind it
    while True:
        card = replace(bare, description=fit_description(description, room, count))
        # The tokens of the parts do not add up exactly, so the whole line is counted.
        weight = count(render_card(card))
        if not card.description or weight < (target if room > MIN_DESCRIPTION else CARD_HARD_CAP + 1):
            break
        room -= 1
    if (count(bare.id) if count is token_upper_bound else weight) > CARD_HARD_CAP:
        raise CatalogError(f"the card of {bare.id} does not fit into {CARD_HARD_CAP} tokens")
    return card


def render_card(card: ChoiceCard) -> str:
    """Return the line that a model reads. The id contains namespace and name; marks appear only where they apply.

    `github:create_issue#3a91c7d2 — Create a new issue in a repository. [effects]`
    """
    line = card.id
    is_spelled_by_id = card.name.isascii() or card.kind == "internal"
    parts = [part for part in ("" if is_spelled_by_id else card.name, card.description) if part]
    if parts:
        line += f" — {': '.join(parts)}"
    marks = _marks(card)
    return f"{line} [{', '.join(marks)}]" if marks else line


def render_page(cards: Sequence[ChoiceCard], *, note: str = "") -> str:
    """Return the text of tool_browse: an optional note, then one line per card."""
    lines = [render_card(card) for card in cards]
    return "\n".join([one_line(note), *lines] if note else lines)


def _marks(card: ChoiceCard) -> list[str]:
    marks: list[str] = [card.kind] if card.kind in ("agent", "skill") else []
    if card.safety == "destructive":
        marks.append(DESTRUCTIVE)
    elif card.safety == "read_only":
        marks.append(READ_ONLY)
    if card.side_effects:
        marks.append("effects")
    if card.cost_hint > 0:
        marks.append(f"cost {_short_cost(card.cost_hint)}")
    return marks + [tag for tag in card.tags if tag not in (DESTRUCTIVE, READ_ONLY)]


def _short_cost(cost: float) -> str:
    if cost < 0.01:
        return "<0.01"
    if cost >= 100:
        return str(round(cost)) if cost < 99_999.5 else ">99999"
    return f"{cost:.2f}".rstrip("0").rstrip(".")


def _short_name(name: str, count: Count) -> str:
    line = one_line(name, 4 * MAX_NAME)
    if len(line) > MAX_NAME:
        line = cut_with_ellipsis(line[: MAX_NAME - 1], 4 * MAX_NAME, count)
    # Only a name that the line shows has a budget.
    return line if line.isascii() or count(line) <= NAME_TOKENS else cut_with_ellipsis(line, NAME_TOKENS, count)


def _choose_tags(tags: Sequence[str], count: Count) -> tuple[str, ...]:
    """Return all safety tags and others in order, at most five in all, within their budget."""
    safety = {tag for tag in tags if tag in (DESTRUCTIVE, READ_ONLY)}
    chosen = set(safety)
    room = TAG_TOKENS
    for tag in sorted({one_line(tag, MAX_TAG_LENGTH)[:MAX_TAG_LENGTH].strip() for tag in tags} - safety):
        cost = count(f", {tag}")
        if len(chosen) < MAX_TAGS and cost <= room and _TAG.fullmatch(tag):
            chosen.add(tag)
            room -= cost
    return tuple(sorted(chosen))


def _finite(score: float | None) -> float:
    return -math.inf if score is None or math.isnan(score) else score


# Pages whose beginning stays the same bytes, for clients that cache prompts (spec 2.10)


@dataclass(frozen=True)
class StableBrowse:
    """The ids that a session has browsed or hydrated, each with the card of its first page, or None if hydrated only.

    A state is a value: `page` and `after_hydration` return the next one, and the session stores it.
    """

    cards: Mapping[str, ChoiceCard | None] = field(default_factory=lambda: MappingProxyType({}))

    def page(self, cards: Iterable[ChoiceCard]) -> tuple[list[ChoiceCard], StableBrowse]:
        """Return earlier cards as they first were, a marker and new cards; and the state after this page."""
        by_id = {card.id: card for card in cards if card.id != BREAKPOINT_ID}
        earlier = [self.cards[item_id] or by_id[item_id] for item_id in sorted(by_id) if item_id in self.cards]
        fresh = [by_id[item_id] for item_id in sorted(by_id) if item_id not in self.cards]
        marker = [BREAKPOINT] if earlier and fresh else []
        page = {card.id: card for card in (*earlier, *fresh)}
        return [*earlier, *marker, *fresh], StableBrowse(MappingProxyType({**self.cards, **page}))

    def after_hydration(self, item_id: str) -> StableBrowse:
        if item_id in self.cards:
            return self
        return StableBrowse(MappingProxyType({**self.cards, item_id: None}))


# The turn in which a model selects one card: a schema limits the selection, and a check validates it (spec 2.9)


class HasId(Protocol):
    """A card, an item, or any other candidate with an id."""

    @property
    def id(self) -> str: ...


@dataclass(frozen=True)
class SelectionValidation:
    """The result for a selection; `id` is the candidate's id that it means, None if it was rejected."""

    status: Status
    id: str | None
    reason: str


def selection_schema(candidates: Iterable[str | HasId], provider: Provider = "json_schema") -> dict[str, Any]:
    """Return a schema that only the candidates' ids satisfy, in the envelope of a provider's API."""
    ids = _ids(candidates)
    if not ids:
        raise RouteError("no candidates to select from")
    schema = {
        "type": "object",
        "properties": {
            "selection": {"type": "string", "enum": ids, "description": "The id of the one item to use."},
        },
        "required": ["selection"],
        "additionalProperties": False,
    }
    if provider == "json_schema":
        return schema
    if provider == "openai":
        return {"type": "json_schema", "json_schema": {"name": "selection", "strict": True, "schema": schema}}
    if provider == "anthropic":
        return {"name": "select", "description": "Select one of the offered items.", "input_schema": schema}
    raise RouteError(f"no provider variant: {provider!r}")


def validate_selection(selected: object, candidates: Iterable[str | HasId]) -> SelectionValidation:
    """Match exactly, then by case, then by prefix. A selection that matches several candidates is rejected."""
    ids = _ids(candidates)
    text = selected.strip() if isinstance(selected, str) else ""
    if not text:
        return SelectionValidation("rejected", None, "the selection is not a string, or empty")
    if text in ids:
        exact = text == selected
        return SelectionValidation("accepted" if exact else "repaired", text, "exact" if exact else "white space")
    folded = text.casefold()
    for reason, matches in (
        ("case", [candidate for candidate in ids if candidate.casefold() == folded]),
        ("prefix", [candidate for candidate in ids if candidate.casefold().startswith(folded)]),
    ):
        if len(matches) == 1:
            return SelectionValidation("repaired", matches[0], reason)
        if matches:
            return SelectionValidation("rejected", None, f"ambiguous {reason}: {len(matches)} candidates match")
    return SelectionValidation("rejected", None, "not one of the candidates")


def _ids(candidates: Iterable[str | HasId]) -> list[str]:
    ids = (candidate if isinstance(candidate, str) else candidate.id for candidate in candidates)
    return [each for each in dict.fromkeys(ids) if each != BREAKPOINT_ID]
