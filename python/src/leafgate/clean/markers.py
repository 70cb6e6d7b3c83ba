"""Chat-template and role markers: find them in a text without stray invisible characters, and make them inert.

Which markers there are is in data/markers.toml, by families of models. They are searched for in a folded view of the
text (compatibility forms, case, look-alikes, marks), and once more in a view with its escapes decoded. Only delimiters
are replaced: `<|im_start|>` becomes `‹|im_start|›`. Nothing is removed, because the text on both sides of a removed
marker could form a new one; and no marker contains ‹ or ›, so none can form around an inert one.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

import numpy as np

from leafgate.clean.invisibles import COMBINING, INVISIBLE, char_class
from leafgate.clean.result import replace_spans
from leafgate.clean.sieve import Places, either, named, one_of, rest, sequence, utf8, without_ascii, words
from leafgate.data import check_types, load_table

MARKER: Final = "chat-marker"

_TABLE: Final = load_table("markers", {"families": list, "look_alikes": dict})


# Folding

_VARIANTS: Final = {
    line[0]: "".join(line[1:].split()) for line in _TABLE["look_alikes"]["delimiters"].split("\n") if line
}
_READ_AS: Final = {
    **{each: char for char, variants in _VARIANTS.items() for each in variants},
    **dict(zip(_TABLE["look_alikes"]["these"], _TABLE["look_alikes"]["letters"], strict=True)),
}
# U+FFFD stands for bytes that are not text; a reader may drop them.
_DROPPED: Final = frozenset(
    {"\ufffd", *(chr(point) for low, high in (*COMBINING, *INVISIBLE) for point in range(low, min(high, 0xE01EF) + 1))}
)

_DROPPED_CLASS: Final = re.compile(f"[\ufffd{char_class(COMBINING, INVISIBLE)}]")


def shadow(text: str) -> str:
    """Fold compatibility forms, case, look-alikes and marks. The result is only compared, never shown."""
    return text.lower() if text.isascii() else "".join(map(_fold, text))


@lru_cache(maxsize=8192)
def _fold(char: str) -> str:
    """Return what a character is read as: nothing, or one or more characters in lower case."""
    return _fold_form(char).lower()


def _fold_form(text: str) -> str:
    """Fold everything but the case."""
    folded: list[str] = []
    for char in unicodedata.normalize("NFKD", "".join(_READ_AS.get(each, each) for each in text)):
        if char not in _DROPPED:
            low = char.lower()
            letter = _READ_AS.get(low, low)
            folded.append(char if letter == low else letter if low == char else letter.upper())
    return "".join(folded)


class _View:
    """A text as a pattern reads it, and where the places of the view are in the text."""

    def __init__(self, text: str) -> None:
        self.source = text
        self._ends: np.ndarray[tuple[int], np.dtype[np.int64]] | None = None
        if text.isascii():
            self.text = text.lower()
            return
        folds = {ord(char): _fold(char) for char in set(text)}
        self.text = text.translate(folds)
        others = [point for point, fold in folds.items() if len(fold) != 1]
        if others:
            points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
            sizes = np.ones(max(folds) + 1, np.uint8)
            sizes[others] = [len(folds[point]) for point in others]
            self._ends = np.cumsum(sizes[points], dtype=np.int64)

    def spans(self, spans: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
        """Return the spans of the text that these spans of the view, none of them empty, were made of."""
        if self._ends is None or not spans:
            return spans
        places = np.array(spans) - (0, 1)
        return [(first, last + 1) for first, last in np.searchsorted(self._ends, places, "right").tolist()]


# The table of markers


@dataclass(frozen=True)
class _Token:
    """One marker of the table. `is_exact`: in this case only. `needs_company`: beside others of its families only."""

    text: str
    families: frozenset[str] = frozenset()
    is_exact: bool = False
    needs_company: bool = False


_DIGITS: Final = "0123456789"
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_KINDS: Final = {"{N}": one_of(_DIGITS, 5), "{WORD}": one_of(f"{_LETTERS}{_DIGITS}_.:-", 64)}
_STEP: Final = re.compile(r"\{N\}|\{WORD\}|.", re.DOTALL)
_BARRED: Final = re.compile(r"<\|(?P<name>[^\"]+)\|>")
_TAG: Final = re.compile(r"<(?P<name>[\w:.={}-]+)>")
_SQUASH: Final = str.maketrans("", "", " \t\n\r\f\v_-\u00a0\u2000\u2001\u2002\u2003\u2009\u202f\u3000")


def _read_tokens() -> Iterator[_Token]:
    for family in _TABLE["families"]:
        check_types("markers.toml", family, dict.fromkeys(("name", "source", "tokens", "exact", "beside"), str))
        for key in ("tokens", "exact", "beside"):
            for text in family.get(key, "").split():
                yield _Token(text, frozenset({family["name"]}), key != "tokens", key == "beside")


class _Tokens:
    """The tokens of one form, by their names."""

    def __init__(self, find_name: Callable[[_Token], str | None], key: Callable[[str], str] = str) -> None:
        self._key = key
        self._by_name: dict[str, _Token] = {}
        self.spellings: dict[tuple[str, ...], None] = {}
        for token in _read_tokens():
            name = find_name(token)
            if name is not None:
                steps = tuple(step if step in _KINDS else _fold(step) for step in _STEP.findall(name))
                self.spellings[steps] = None
                self._add("".join(step if step in _KINDS else key(step) for step in steps), token)
        self._patterns = [
            (re.compile("".join(_KINDS[s].regex if s in _KINDS else re.escape(s) for s in _STEP.findall(name))), token)
            for name, token in self._by_name.items()
            if "{" in name
        ]

    def _add(self, name: str, token: _Token) -> None:
        known = self._by_name.get(name)
        if known is not None:
            families = known.families | token.families
            needs_company = known.needs_company and token.needs_company
            token = replace(known, families=families, is_exact=needs_company, needs_company=needs_company)
        self._by_name[name] = token

    def find(self, name: str) -> _Token | None:
        """Return the token of this folded name."""
        name = self._key(name)
        token = self._by_name.get(name)
        if token is None:
            token = next((token for pattern, token in self._patterns if pattern.fullmatch(name)), None)
        return token


def _name_in(form: re.Pattern[str], token: _Token) -> str | None:
    match = form.fullmatch(token.text)
    return match["name"] if match else None


_BAR_TOKENS: Final = _Tokens(lambda token: _name_in(_BARRED, token), lambda name: name.translate(_SQUASH))
_TAG_TOKENS: Final = _Tokens(lambda token: _name_in(_TAG, token))
_LITERALS: Final = _Tokens(
    lambda token: None if _BARRED.fullmatch(token.text) or _TAG.fullmatch(token.text) else token.text
)
_SENTENCE: Final = "s"  # <s> and </s> are HTML too, and have rules of their own
_SENTENCE_MARK: Final = _Token("<s>")
_GENERIC: Final = _Token("<|{WORD}|>")
_SENTENCE_FAMILY: Final = "Llama 2 and Mistral"


# The pattern

_BLANKS: Final = " \t\n\r\f\v"
_GAP: Final = one_of(_BLANKS, 8, 0)
_OPEN, _BAR, _CLOSE = one_of("<"), one_of("|"), one_of(">")
_SLASH: Final = either(sequence(one_of("/"), _GAP), sequence())
_TAG_END: Final = rest(
    rf"(?:{_GAP.regex}/?{_GAP.regex}>|(?=[{_BLANKS}]{{1,64}}[a-z0-9_:.-]{{1,64}}[{_BLANKS}]{{0,8}}=))"
)
_BAR_WORDS: Final = words(_BAR_TOKENS.spellings, _KINDS)
_PATTERN: Final = either(
    sequence(
        _OPEN,
        _GAP,
        either(
            sequence(_BAR, named("bar", rest(r"[^<>|‹›]{1,80}")), _BAR, _GAP, _CLOSE),
            sequence(_BAR, named("half", _BAR_WORDS), _CLOSE),
            sequence(named("tail", _BAR_WORDS), _BAR, _CLOSE),
            sequence(named("tag", sequence(_SLASH, words([*_TAG_TOKENS.spellings, _SENTENCE], _KINDS))), _TAG_END),
        ),
    ),
    named("literal", words(_LITERALS.spellings, _KINDS)),
)
_MARKERS: Final = re.compile(_PATTERN.regex)
_BLANK: Final = re.compile(r"\s")
_BEFORE_NAME: Final = f"/{_BLANKS}"
_GENERIC_NAME: Final = re.compile(r"(?=.*[^\W\d_])[\w.:/+-]{2,72}")
# An unknown name with blanks around both bars. Without those outside, it can be two operators: f <| x |> g
_SPACED: Final = re.compile(r"<[ \t]{1,8}\|[ \t]{0,8}(?=.*[^\W\d_])[\w.:/+-]{2,72}[ \t]{0,8}\|[ \t]{1,8}>")
_JSON_OBJECT: Final = re.compile(r"\s?\{\s{0,4}\"")
_SENTENCE_MARKS: Final = re.compile(r"<(/?)s>", re.IGNORECASE | re.ASCII)
_STRIKE: Final = re.compile(r"<(/?)s(?:\s[^<>]{0,200})?>", re.IGNORECASE | re.ASCII)
_MOST_STRIKES: Final = 10_000  # in one text; beyond, pairs are not looked for
_PLACEHOLDER: Final = re.compile(r"<[c-hj-ortv-z]>")  # a letter that is not a tag of HTML
_LIST: Final = re.compile(r"(?:[=(,:]|\b(?:return|in|yield))\s?\Z")  # what precedes a list in a program
_TURN: Final = re.compile(r"((?:\A|\n)\s{0,8}\n\s{0,8})(Human|Assistant|System|User):", re.IGNORECASE)

_Span = tuple[int, int, str]


MARKER_NEEDLES: Final = _PATTERN.needles(_VARIANTS)


# Windows: the parts of a text in which a marker may stand. No marker, and nothing that decides about one, is longer.

_WINDOW: Final = 320

Window = tuple[int, int]


def find_windows(text: str, places: Places | None) -> Sequence[Window]:
    """Return the parts of a text around these places of its UTF-8 form; all of it if they are not known.

    All of it, too, if it holds characters that are read as nothing: among them, a marker can have any length.
    """
    if places is None or _DROPPED_CLASS.search(without_ascii(text)):
        return [(0, len(text))]
    if not text.isascii():
        continuations = np.flatnonzero((np.frombuffer(utf8(text), np.uint8) & 0xC0) == 0x80)
        places = places - np.searchsorted(continuations, places)
    first = np.flatnonzero(np.diff(places, prepend=-2 * _WINDOW - 1) > 2 * _WINDOW)
    last = np.append(first[1:], len(places)) - 1
    starts, ends = np.maximum(places[first] - _WINDOW, 0), np.minimum(places[last] + _WINDOW, len(text))
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def neutralise_markers(text: str, windows: Sequence[Window] | None = None) -> tuple[str, dict[str, int]]:
    """Replace the delimiters of every marker by ‹ and ›."""
    found = _find_in_windows(text, windows)
    spans, count = found.spans, len(found.spans)
    while spans:
        text = replace_spans(text, spans)
        # A free name may itself be a marker, which is visible now: <|__system__|>
        has_inner = any(_MARKERS.search(shadow(inert)) for inert in {inert for _, _, inert in spans})
        spans = _find_in_windows(text).spans if has_inner else []
        count += len(spans)
    if found.has_sentence_marks and (_SENTENCE_FAMILY in found.families or text.count("s>") > _MOST_STRIKES):
        text, more = _SENTENCE_MARKS.subn(r"‹\1s›", text)
        count += more
    elif found.has_sentence_marks:
        spans = list(_find_sentence_marks(text))
        text = replace_spans(text, spans)
        count += len(spans)
    return text, {MARKER: count} if count else {}


def find_markers(text: str, own: TokenFinder) -> Sequence[_Span]:
    """Return the spans of markers and of a reader's own tokens, with their inert forms. `<s>` is not among them."""
    return [*_find_in_windows(text).spans, *own.spans(text)]


def neutralise_turns(text: str) -> tuple[str, int]:
    """Make the turn openings of plain-text templates inert. Only on request: they occur in prose too."""
    return _TURN.subn(r"\1\2‹:›", text)


@dataclass(frozen=True)
class _Found:
    """The markers' spans with their inert forms, and their families. `<s>` and `</s>` are not among them."""

    spans: Sequence[_Span]
    families: set[str]
    has_sentence_marks: bool


def _find_in_windows(text: str, windows: Sequence[Window] | None = None) -> _Found:
    """Find the markers in these parts of a text, or in all of it.

    Each different match is judged once: a hostile text may hold millions.
    """
    judged: dict[str, _Token | None] = {}
    inert_forms: dict[str, str | None] = {}
    families: set[str] = set()
    spans: list[_Span] = []
    lonely: list[tuple[_Span, _Token]] = []
    for offset, until in windows or [(0, len(text))]:
        view = _View(text[offset:until])
        tokens = list(_find_tokens(view, judged))
        places = view.spans([place for place, _ in tokens])
        for (place, token), (start, end) in zip(tokens, places, strict=True):
            raw = view.source[start:end]
            if raw not in inert_forms:
                inert_forms[raw] = inert = _write_inert(view, place, token)
                families |= token.families if inert and not token.needs_company else set()
            inert = inert_forms[raw]
            if inert is None or (
                raw[0] == "[" and raw.islower() and _LIST.search(view.text, max(0, place[0] - 8), place[0])
            ):
                continue
            span = start + offset, end + offset, inert
            if not token.needs_company or _JSON_OBJECT.match(view.text, place[1]):
                spans.append(span)
            else:
                lonely.append((span, token))
    company = [span for span, token in lonely if token.families & families]
    spans = sorted((*spans, *company)) if company else spans
    return _Found(spans, families, has_sentence_marks=_SENTENCE_MARK in judged.values())


def _find_tokens(view: _View, judged: dict[str, _Token | None]) -> Iterator[tuple[tuple[int, int], _Token]]:
    """Yield the tokens of a view with their places."""
    start: int | None = 0
    while start is not None:
        matches, start = _MARKERS.finditer(view.text, start), None
        for match in matches:
            marker = match[0]
            token = judged[marker] if marker in judged else judged.setdefault(marker, _judge(match))
            if token is None:
                start = match.start() + 1  # another marker may begin inside
                break
            yield match.span(), token


def _judge(match: re.Match[str]) -> _Token | None:
    """Return the token that a match stands for; None if it is not a marker."""
    kind = str(match.lastgroup)
    name = match[kind]
    match kind:
        case "tag":
            name = name.lstrip(_BEFORE_NAME)
            return _SENTENCE_MARK if name == _SENTENCE else _TAG_TOKENS.find(name)
        case "literal":
            return _LITERALS.find(name)
    token = _BAR_TOKENS.find(name) or _LITERALS.find(match[0])
    is_generic = kind == "bar" and (
        (_GENERIC_NAME.fullmatch(name) and not _BLANK.search(match[0])) or _SPACED.fullmatch(match[0])
    )
    return _GENERIC if token is None and is_generic else token


def _write_inert(view: _View, place: tuple[int, int], token: _Token) -> str | None:
    """Return the inert form of the marker at this place of the view; None if its case is another than its token's.

    `<s>` and `</s>` have none either. Of a tag with attributes, only the opening delimiter is part of the match.
    """
    if token is _SENTENCE_MARK:
        return None
    match = _MARKERS.match(view.text, place[0])
    assert match is not None
    kind = str(match.lastgroup)
    raw = view.source[slice(*view.spans([match.span(kind)])[0])]
    is_tag = kind == "tag"
    exact = token.text[1:-1] if is_tag else token.text
    if token.is_exact and _fold_form(raw.lstrip(_BEFORE_NAME) if is_tag else raw) != exact:
        return None
    is_double = kind == "literal" and match[0][:2] in ("<<", "__")
    name = raw.strip() if kind != "literal" else raw[2:-2] if is_double else raw[1:-1]
    if is_double and match[0][0] == "<":
        name = f"‹{name}›"
    before, after = "|" * (kind in ("bar", "half")), "|" * (kind in ("bar", "tail"))
    return f"‹{before}{name}{after}" + "›" * (not is_tag or match[0].endswith(">"))


def _find_sentence_marks(text: str) -> Iterator[_Span]:
    """Find `<s>` and `</s>` where they are Llama's sentence marks and not HTML's strike-through.

    A pair is HTML and stays. A `</s>` that closes nothing is a mark, and so is a `<s>` that nothing closes, unless it
    reads as a parameter: `<S>`, `Box<s>`, `(?P<s>`, `<h>, <s>, <l>`.
    """
    may_be_placeholder = _PLACEHOLDER.search(text) is not None
    tags = list(_STRIKE.finditer(text))
    is_mark = [False] * len(tags)
    open_tags: list[int] = []
    for number, tag in enumerate(tags):
        if tag[1] and open_tags:
            is_mark[open_tags.pop()] = False
        elif tag[1]:
            is_mark[number] = True
        elif not _is_parameter(text, tag, may_be_placeholder=may_be_placeholder):
            open_tags.append(number)
            is_mark[number] = tag[0] == "<s>"
    yield from ((*tag.span(), f"‹{tag[1]}s›") for tag, is_one in zip(tags, is_mark, strict=True) if is_one)


def _is_parameter(text: str, tag: re.Match[str], *, may_be_placeholder: bool) -> bool:
    before = text[tag.start() - 1 : tag.start()] if tag.start() else ""
    after = text[tag.end() : tag.end() + 1]
    if before.isalnum() or before in ("_", ":", "\\"):
        return True
    if tag[0] == "<S>" and after in ("(", "", " ", ">", ",", ";", "{"):
        return True
    if not may_be_placeholder:
        return False
    line = text[max(0, tag.start() - 80) : tag.start()].rpartition("\n")[2]
    line += text[tag.start() : tag.end() + 80].partition("\n")[0]
    return _PLACEHOLDER.search(line) is not None


# Escapes: %3C \u003c &#60;, also escaped again. A text that holds them is often decoded before a model reads it. Text
# that was escaped for HTML by the book (&lt; and &gt;, nothing else) stays: it shows a marker, and is not one.

_HEX: Final = f"{_DIGITS}abcdef"
_CODE: Final = either(  # of the characters of markers; not of a blank, comma, ampersand, ..., which fill URLs
    sequence(one_of("4567"), one_of(_HEX)),
    sequence(one_of("3"), one_of(f"{_DIGITS}acde")),
    sequence(one_of("2"), one_of("12def")),
)
_WIDE_CODE: Final = either(
    sequence(one_of("0"), one_of("0"), either(_CODE, sequence(one_of("2"), one_of("56")))),  # & and % begin others
    rest("(?:ff|fe|20|22|25|27)[0-9a-f]{2}"),
)
_BACKSLASHED: Final = either(sequence(one_of("u"), _WIDE_CODE), sequence(one_of("x"), _CODE))
_ENTITY: Final = either(
    sequence(one_of("#"), rest("(?:x0{0,6}[0-9a-f]{2,5}|0{0,6}[0-9]{2,6});?")),
    words(("vert;", "verbar;", "lbrack;", "lsqb;", "rbrack;", "rsqb;", "lowbar;", "sol;", "colon;"), {}),
)
_ESCAPE: Final = either(
    sequence(one_of("%"), either(sequence(one_of("2"), one_of("5"), rest(f"(?:25){{0,3}}{_CODE.regex}")), _CODE)),
    sequence(one_of("%"), one_of("cdef"), one_of(_HEX), rest("(?:%[89ab][0-9a-f]){1,3}")),  # UTF-8
    sequence(one_of("\\"), either(_BACKSLASHED, sequence(one_of("\\"), rest(rf"\\{{0,6}}{_BACKSLASHED.regex}")))),
    sequence(one_of("&"), either(_ENTITY, sequence(*map(one_of, "amp;"), rest(rf"(?:amp;){{0,3}}{_ENTITY.regex}")))),
)
_ESCAPES: Final = re.compile(_ESCAPE.regex, re.IGNORECASE)
_ALL_ESCAPES: Final = re.compile(f"{_ESCAPE.regex}|&(?:amp;){{0,4}}[lg]t;", re.IGNORECASE)
ESCAPE_NEEDLES: Final = _ESCAPE.needles({})


def neutralise_escaped_markers(text: str, windows: Sequence[Window] | None = None) -> tuple[str, dict[str, int]]:
    """Make the markers inert that are written with escapes. Other escapes stay as they are."""
    spans = [
        (start + offset, end + offset, inert)
        for offset, until in windows or [(0, len(text))]
        for start, end, inert in _find_escaped_markers(text[offset:until])
    ]
    return replace_spans(text, spans), {MARKER: len(spans)} if spans else {}


def _has_nested(text: str) -> bool:
    """Is there an escape of a character with which escapes begin?"""
    return any(_decode(match[0]) in "&%\\" for match in _ALL_ESCAPES.finditer(text))


def _find_escaped_markers(text: str, *, is_outer: bool = True) -> Iterator[_Span]:
    """Find the markers in a text that is decoded once, and a second time where that yields other escapes."""
    if not _ESCAPES.search(text):
        return
    decoded = _ALL_ESCAPES.sub(lambda match: _decode(match[0]), text)
    found = list(_find_in_windows(decoded).spans)
    if is_outer and _has_nested(text):
        found = sorted(found + list(_find_escaped_markers(decoded, is_outer=False)))
    if not found:
        return
    views, sources = _align(text)

    def locate(place: int) -> tuple[int, int]:
        """Return the span of the text that one character of the view was made of."""
        part = bisect_right(views, place) - 1
        if part % 2:
            return sources[part], sources[part + 1]
        start = sources[part] + place - views[part]
        return start, start + 1

    candidates = ((locate(start)[0], locate(end - 1)[1], inert) for start, end, inert in found)
    yield from (span for span in candidates if _ESCAPES.search(text, *span[:2]))


def _align(text: str) -> tuple[list[int], list[int]]:
    """Return where the plain parts (even) and the escapes (odd) begin in the decoded text and in the text itself."""
    views, sources = [0], [0]
    for match in _ALL_ESCAPES.finditer(text):
        views.append(views[-1] + match.start() - sources[-1])
        sources.append(match.start())
        views.append(views[-1] + len(_decode(match[0])))
        sources.append(match.end())
    return views, [*sources, len(text)]


@lru_cache(maxsize=4096)
def _decode(escape: str) -> str:
    """Return the character of an escape; the escape itself if it has none."""
    if escape[0] == "&":
        plain = html.unescape("&" + re.sub("(?i)amp;", "", escape[1:]))
        return plain if len(plain) == 1 else escape
    if escape.count("%") > 1:
        plain = unquote(escape, errors="ignore")
        return plain if len(plain) == 1 else escape
    digits = re.sub(r"(?i)^%(?:25)*|^\\+[ux]", "", escape)
    return chr(int(digits, 16))


# The special tokens of a client's own map


class TokenFinder:
    """Searches for the special tokens of one map, literally.

    Tokens of letters, digits and blanks alone are words of ordinary text, and are left out.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        searched = {
            token for token in tokens if len(token) > 1 and not re.fullmatch(r"[\w\s]*|.*[‹›].*", token, re.DOTALL)
        }
        self._regex = re.compile(words(sorted(searched), {}).regex) if searched else None

    def find_texts(self, texts: Sequence[str]) -> set[str]:
        """Return those of the texts that hold a token."""
        return set() if self._regex is None else set(filter(self._regex.search, texts))

    def spans(self, text: str) -> Iterator[_Span]:
        """Yield the spans of the tokens, with their inert forms."""
        if self._regex is not None:
            yield from ((*match.span(), _break(match)) for match in self._regex.finditer(text))

    def neutralise(self, text: str) -> tuple[str, dict[str, int]]:
        """Make each token inert: its first and last characters become ‹ and ›, in tokens inside tokens too."""
        count = found = 0
        if self._regex is not None:
            text, found = self._regex.subn(_break, text)
            while found:
                count += found
                text, found = self._regex.subn(_break, text)
        return text, {MARKER: count} if count else {}


def _break(match: re.Match[str]) -> str:
    token = match[0]
    if not token[0].isalnum():
        return f"‹{token[1:-1]}›" if not token[-1].isalnum() else f"‹{token[1:]}"
    return re.sub(r"[^\w\s]", "‹", token, count=1)
