"""Chat-template and role markers: find them in a text without stray invisible characters, and make them inert.

A marker is recognised by a normalised shadow of its name (compatibility forms, case, look-alikes, marks), and only its
delimiters are replaced: `<|im_start|>` becomes `‹|im_start|›`. Nothing is removed, because the text on both sides of a
removed marker could form a new one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

from leafgate.clean.invisibles import COMBINING, INVISIBLE, char_class
from leafgate.clean.result import replace_spans
from leafgate.clean.sieve import Needle, make_needle
from leafgate.data import load_table

MARKER: Final = "chat-marker"
ANGLE: Final = "angle"
SQUARE: Final = "square"
LOW_LINE: Final = "low-line"
SHAPES: Final = (ANGLE, SQUARE, LOW_LINE)

_TABLE: Final = load_table("markers", {"delimiters": dict, "names": dict, "look_alikes": dict})
_OPEN, _CLOSE, _BAR, _SQUARE_OPEN, _SQUARE_CLOSE, _LOW_LINE = (
    _TABLE["delimiters"][name] for name in ("open", "close", "bar", "square_open", "square_close", "low_line")
)
EXOTIC_OPENERS: Final = _OPEN[1:] + _SQUARE_OPEN[1:] + _LOW_LINE[1:]
_BAR_NAMES: Final = frozenset(_TABLE["names"]["bar"].split())
_ANGLE_NAMES, _SQUARE_NAMES = ("|".join(_TABLE["names"][shape].split()) for shape in (ANGLE, SQUARE))
_SQUARE_CAPITALS: Final = "THINK"  # a marker only in capitals: [think] is a word in brackets
_LOW_LINE_NAME: Final = "system"

_GAP: Final = r"\s{0,8}"
_ANGLE: Final = re.compile(
    rf"""
    <{_GAP}(?:
        \| (?P<bar>[^<>|]{{1,80}}) \|{_GAP}>
      | \| (?P<half>[a-z][a-z0-9_]{{2,40}}) >
      | (?P<tail>[a-z][a-z0-9_]{{2,40}}) \|>
      | (?P<angle>(?:/{_GAP})?(?:{_ANGLE_NAMES})){_GAP}>
      | <{_GAP}(?P<sys>(?:/{_GAP})?sys){_GAP}>{_GAP}>
    )
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_ANGLE_WITHOUT_BARS: Final = re.compile(
    # two classes first: most tags end there
    rf"<(?=[\s/<]|[abefgirstu][a-z_])(?=/[\s/<]|/[abefgirstu][a-z_]|[^/]){_GAP}(?:(?P<angle>(?:/{_GAP})?(?:{_ANGLE_NAMES})){_GAP}>|<{_GAP}(?P<sys>(?:/{_GAP})?sys){_GAP}>{_GAP}>)",
    re.IGNORECASE | re.ASCII,
)
_SQUARE: Final = re.compile(
    rf"\[{_GAP}(?P<square>(?:/{_GAP})?(?:{_SQUARE_NAMES}|(?-i:{_SQUARE_CAPITALS}))){_GAP}\]", re.IGNORECASE | re.ASCII
)
_LOW: Final = re.compile(rf"__{_GAP}(?P<low>{_LOW_LINE_NAME}){_GAP}__", re.IGNORECASE | re.ASCII)

# The same shapes with every form of the delimiters and free names; the name is then looked up by its shadow.
_WIDE_GAP: Final = rf"[\s{char_class(COMBINING, INVISIBLE)}]{{0,8}}"
_FREE: Final = rf"[^{_OPEN}{_CLOSE}{_BAR}]"
_WIDE_ANGLE: Final = re.compile(
    rf"""
    [{_OPEN}] {_WIDE_GAP} (?:
        [{_BAR}] (?P<bar>{_FREE}{{1,80}}) [{_BAR}] {_WIDE_GAP} [{_CLOSE}]
      | [{_BAR}] (?P<half>{_FREE}{{3,40}}) [{_CLOSE}]
      | (?P<tail>{_FREE}{{3,40}}) [{_BAR}] {_WIDE_GAP} [{_CLOSE}]
      | (?P<angle>{_FREE}{{1,48}}) [{_CLOSE}]
      | [{_OPEN}] {_WIDE_GAP} (?P<sys>{_FREE}{{3,24}}) [{_CLOSE}] {_WIDE_GAP} [{_CLOSE}]
    )
    """,
    re.VERBOSE,
)
_WIDE_SQUARE: Final = re.compile(
    rf"[{re.escape(_SQUARE_OPEN)}](?P<square>[^{re.escape(_SQUARE_OPEN + _SQUARE_CLOSE)}]{{3,40}})"
    rf"[{re.escape(_SQUARE_CLOSE)}]"
)
_WIDE_LOW: Final = re.compile(
    # the closing lines may open the next marker, so they are matched by a lookahead
    rf"[{_LOW_LINE}]{_WIDE_GAP}[{_LOW_LINE}]"
    rf"(?=(?P<low>[^{_LOW_LINE}]{{3,24}})(?P<close>[{_LOW_LINE}]{_WIDE_GAP}[{_LOW_LINE}]))"
)
_STRIKE: Final = re.compile(r"<(/?)s((?:\s[^<>]{0,200})?)>", re.IGNORECASE | re.ASCII)

_TURN: Final = re.compile(r"((?:\A|\n)\s{0,8}\n\s{0,8})(Human|Assistant|System|User):", re.IGNORECASE)

MARKER_OPENER: Final = re.compile(rf"[<\[{EXOTIC_OPENERS}]|__")
_GENERIC_NAME: Final = re.compile(r"(?=.*[^\W\d_])[\w.:/+-]{2,72}")
_ANGLE_NAME: Final = re.compile(rf"/?\s*(?:{_ANGLE_NAMES}|s)")
_SQUARE_NAME: Final = re.compile(rf"/?\s*(?:{_SQUARE_NAMES})")
_SYS_NAME: Final = re.compile(r"/?\s*sys")
_SQUASH: Final = str.maketrans("", "", " \t\n\r\f\v_-\u00a0\u2000\u2001\u2002\u2003\u2009\u202f\u3000")
_RESERVED_NAME: Final = re.compile(r"(?:reservedspecialtoken|image|extra|dummy|unused|placeholder|audio|endofturn)\d*")

_DROP: Final[dict[int, str | None]] = {
    point: None for low, high in (*COMBINING, *INVISIBLE) for point in range(low, min(high, 0xE01EF) + 1)
}
_LOOK_ALIKES: Final = str.maketrans(_TABLE["look_alikes"]["these"], _TABLE["look_alikes"]["letters"])
_FOLD: Final = _DROP | _LOOK_ALIKES


def shadow(text: str) -> str:
    """Fold compatibility forms, case, look-alikes and marks. The result is only compared, never shown."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold()).translate(_FOLD)


def neutralise_markers(text: str, shapes: Sequence[str] = SHAPES) -> tuple[str, dict[str, int]]:
    """Replace the delimiters of every marker by ‹ and ›. `shapes`: which delimiters the text may hold."""
    plain = text.isascii()
    markers = _Markers()
    if ANGLE in shapes:
        text = (_ANGLE if "|" in text else _ANGLE_WITHOUT_BARS).sub(markers.angle, text)
        text = text if plain else _WIDE_ANGLE.sub(markers.wide_angle, text)
    if SQUARE in shapes:
        text = _SQUARE.sub(markers.square, text)
        text = text if plain else _WIDE_SQUARE.sub(markers.wide_square, text)
    if LOW_LINE in shapes:
        text = _LOW.sub(markers.low, text)
        text = text if plain else _neutralise_wide_low_lines(text, markers)
    if ANGLE in shapes:
        text = _neutralise_sentence_marks(text, markers)
    return text, {MARKER: markers.count} if markers.count else {}


def marker_needles(shape: str) -> Iterator[Needle]:
    """Yield what the first bytes of a marker of this shape can be, for a sieve."""
    opener, extra, names, exotic = {
        ANGLE: ("<", "|<", _ANGLE_NAMES, _OPEN[1:]),
        SQUARE: ("[", "|@", f"{_SQUARE_NAMES}|think", _SQUARE_OPEN[1:]),
        LOW_LINE: ("__", "", _LOW_LINE_NAME, _LOW_LINE[1:]),
    }[shape]
    first = make_needle(opener)
    above, spaces = range(0x80, 0x100), b" \t\n\r\f\v"
    yield from (make_needle(char) for char in exotic)
    yield from ((*first, letter) for letter in (above, spaces, extra.encode()))
    slash = (b"/",)
    heads = {name[:3] for name in re.sub(r"[^a-z_|]", "", names).split("|") if name}
    for head in heads | ({"s"} if shape == ANGLE else set()):
        letters = make_needle(head, any_case=True)
        if head == "s":
            letters = (*letters, b">")
        for lead in (first, (*first, *slash)):
            yield (*lead, *letters)
            yield (*lead, letters[0], above)
            if len(head) > 1:
                yield (*lead, *letters[:2], above)
    yield (*first, *slash, (*spaces, *above))


class _Markers:
    """Checks each match in one text and counts the markers among them."""

    def __init__(self) -> None:
        self.count = 0
        self.instructions = False  # does the text use Llama 2 or Mistral markers, where <s> and </s> are markers too?

    def _inert(self, opening: str, name: str, closing: str) -> str:
        self.count += 1
        return f"‹{opening}{name.strip()}{closing}›"

    def angle(self, spot: re.Match[str]) -> str:
        kind = spot.lastgroup
        raw = spot[kind or 0]
        match kind:
            case "bar" if _is_bar_name(raw, tight=not any(map(str.isspace, spot[0]))):
                return self._inert("|", raw, "|")
            case "half" if _is_known_bar_name(raw):
                return self._inert("|", raw, "")
            case "tail" if _is_known_bar_name(raw):
                return self._inert("", raw, "|")
            case "angle":
                return self._inert("", raw, "")
            case "sys":
                self.instructions = True
                return self._inert("‹", raw, "›")
        return spot[0]

    def wide_angle(self, spot: re.Match[str]) -> str:
        if spot[0].isascii():
            return spot[0]
        kind = spot.lastgroup
        name = _ANGLE_NAME if kind == "angle" else _SYS_NAME
        if kind in ("angle", "sys") and not name.fullmatch(shadow(spot[kind]).strip()):
            return spot[0]
        return self.angle(spot)

    def square(self, spot: re.Match[str]) -> str:
        self.instructions = True
        return self._inert("", spot["square"], "")

    def wide_square(self, spot: re.Match[str]) -> str:
        if spot[0].isascii() or not _SQUARE_NAME.fullmatch(shadow(spot["square"]).strip()):
            return spot[0]
        return self.square(spot)

    def low(self, spot: re.Match[str]) -> str:
        return self._inert("", spot["low"], "")

    def sentence(self, spot: re.Match[str]) -> str:
        return self._inert("", f"{spot[1]}s", "")


def neutralise_turns(text: str) -> tuple[str, int]:
    """Make the turn openings of plain-text templates inert. Only on request: they occur in prose too."""
    return _TURN.subn(r"\1\2‹:›", text)


def _is_bar_name(raw: str, *, tight: bool) -> bool:
    """Is this the name of a marker? Unknown names count only without spaces: `f <| x |> g` is a program."""
    return (tight and _GENERIC_NAME.fullmatch(shadow(raw)) is not None) or _is_known_bar_name(raw)


def _is_known_bar_name(raw: str) -> bool:
    name = shadow(raw).translate(_SQUASH)
    return name in _BAR_NAMES or _RESERVED_NAME.fullmatch(name) is not None


def _neutralise_wide_low_lines(text: str, markers: _Markers) -> str:
    pieces: list[str] = []
    done = 0
    for match in _WIDE_LOW.finditer(text):
        if match.start() >= done and shadow(match["low"]).strip() == _LOW_LINE_NAME:
            pieces += (text[done : match.start()], markers.low(match))
            done = match.end("close")
    return "".join((*pieces, text[done:])) if pieces else text


def _neutralise_sentence_marks(text: str, markers: _Markers) -> str:
    """Make `<s>` and `</s>` inert where they are Llama's sentence marks and not HTML's strike-through.

    Beside [INST] or <<SYS>> they are marks. Elsewhere a pair is HTML and stays; a `</s>` that closes nothing is a mark,
    and so is a `<s>` that nothing closes, unless it reads as a type parameter: `<S>`, `Box<s>`, `<s>(`.
    """
    tags = list(_STRIKE.finditer(text))
    if not tags:
        return text
    marks: list[re.Match[str]] = []
    open_pairs: list[re.Match[str]] = []
    for tag in tags:
        if markers.instructions and not tag[2]:
            marks.append(tag)
        elif not tag[1]:
            if not _is_type_parameter(text, tag):
                open_pairs.append(tag)
        elif open_pairs:
            open_pairs.pop()
        else:
            marks.append(tag)
    marks += (tag for tag in open_pairs if tag[0] == "<s>")
    marks.sort(key=re.Match.start)
    return replace_spans(text, ((*tag.span(), markers.sentence(tag)) for tag in marks)) if marks else text


def _is_type_parameter(text: str, tag: re.Match[str]) -> bool:
    before = text[tag.start() - 1 : tag.start()] if tag.start() else ""
    after = text[tag.end() : tag.end() + 1]
    word_before = before.isalnum() or before in ("_", ":")
    return (tag[0] == "<S>" and (word_before or after in ("(", "", " ", ">", ",", ";", "{"))) or (
        word_before and after in ("(", ">", ",", ";", "{", ")")
    )
