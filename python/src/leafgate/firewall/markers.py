"""Chat-template and role markers. In: a string without stray invisibles. Out: the same with inert markers, and a count.

A marker is found in a normalised shadow (compatibility forms, case, look-alikes, marks) and only its delimiters are
exchanged: `<|im_start|>` becomes `‹|im_start|›`. Never for nothing: its surroundings cannot close up into one. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

from leafgate.firewall.codepoints import COMBINING, char_class
from leafgate.firewall.invisibles import INVISIBLE
from leafgate.firewall.sieve import Needle, spelled

MARKER: Final = "chat-marker"
ANGLE: Final = "angle"
SQUARE: Final = "square"
LOW_LINE: Final = "low-line"
SHAPES: Final = (ANGLE, SQUARE, LOW_LINE)

# Delimiters and what stands for them: NFKC forms first, then look-alikes. ‹ › are ours and stand for nothing.
_OPEN: Final = "<＜﹤≮˂ᐸ❮⟨〈〈"
_CLOSE: Final = ">＞﹥≯˃ᐳ❯⟩〉〉"
_BAR: Final = "|｜￨∣│ǀ❘⏐׀।¦"
_SQUARE_OPEN: Final = "[［﹇❲"
_SQUARE_CLOSE: Final = "]］﹈❳"
_LOW_LINE: Final = "_＿﹍﹎﹏︳︴▁"
EXOTIC_OPENERS: Final = _OPEN[1:] + _SQUARE_OPEN[1:] + _LOW_LINE[1:]

# Names known between bars, in squashed form (no spaces, low lines, hyphens): these are found with inner spaces too.
_KNOWN_NAMES: Final = (
    "imstart imend imsep immiddle imuser imassistant imsystem endoftext endofprompt startoftext beginoftext"
    " startheaderid endheaderid headerstart headerend eotid eomid eot eom pythontag pythonstart pythonend"
    " finetunerightpadid user assistant system developer tool tools end start channel message call return"
    " constrain final analysis commentary fimprefix fimmiddle fimsuffix fimpad fimbegin fimhole fimend reponame"
    " filesep filename startofturntoken endofturntoken usertoken chatbottoken systemtoken startthinking"
    " endthinking startresponse endresponse startaction endaction starttoolresult endtoolresult startofturn"
    " endofturn startofrole endofrole beginofsentence endofsentence toolcallsbegin toolcallsend toolcallbegin"
    " toolcallend tooloutputsbegin tooloutputsend tooloutputbegin tooloutputend toolsep toolcallssectionbegin"
    " toolcallssectionend toolcallargumentbegin objectrefstart objectrefend boxstart boxend quadstart quadend"
    " visionstart visionend visionpad imagepad videopad toolcall toolresponse toolresult think endofthinking"
    " beginofimage endofimage bos eos pad unk sep mask cls bom prompter observation separator turn endofmessage"
    " endofdocument startofsystem interpreter actionstart actionend"
)
_BAR_NAMES: Final = frozenset(_KNOWN_NAMES.split())
# Names between plain angle brackets; a leading slash is allowed
_ANGLE_NAMES: Final = (
    "start_of_turn|end_of_turn|start_of_image|end_of_image|start_of_audio|end_of_audio|bos|eos|im_start|im_end|im_sep"
    "|endoftext|begin_of_text|end_of_text|start_header_id|end_header_id|eot_id|eom_id|end_of_sentence|begin_of_sentence"
    "|tool_call|tool_response|think|function_calls|function_results|sop|eop|eoh|eoa|eom|eot|gmask|extra_id_[0-9]{1,4}"
    "|special_[0-9]{1,4}|reserved_[0-9]{1,4}|unused[0-9]{1,4}|reserved_special_token_[0-9]{1,4}|system_prompt"
    "|antml:[a-z_]{1,32}"
)
# Names between square brackets
_SQUARE_NAMES: Final = (
    "inst|available_tools|tool_calls|tool_results|tool_content|system_prompt|model_settings|call_id|gmask|smask"
    r"|begin_audio|unused_token_[0-9]{1,4}|@bos@|\|(?:system|assistant|endofturn|tool|user)\|"
)

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

# The same shapes with every form of the delimiters and free names; what stands between is looked up in the shadow.
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
    # the closing lines may open the next one, so they are looked at and not taken
    rf"[{_LOW_LINE}]{_WIDE_GAP}[{_LOW_LINE}]"
    rf"(?=(?P<low>[^{_LOW_LINE}]{{3,24}})(?P<close>[{_LOW_LINE}]{_WIDE_GAP}[{_LOW_LINE}]))"
)
_STRIKE: Final = re.compile(r"<(/?)s((?:\s[^<>]{0,200})?)>", re.IGNORECASE | re.ASCII)

_TURN: Final = re.compile(r"((?:\A|\n)\s{0,8}\n\s{0,8})(Human|Assistant|System|User):", re.IGNORECASE)

_ANY_OPENER: Final = re.compile(rf"[<\[{EXOTIC_OPENERS}]|__")
_GENERIC_NAME: Final = re.compile(r"(?=.*[^\W\d_])[\w.:/+-]{2,72}")
_ANGLE_NAME: Final = re.compile(rf"/?\s*(?:{_ANGLE_NAMES}|s)")
_SQUARE_NAME: Final = re.compile(rf"/?\s*(?:{_SQUARE_NAMES})")
_SYS_NAME: Final = re.compile(r"/?\s*sys")
_SQUASH: Final = str.maketrans("", "", " \t\n\r\f\v_-\u00a0\u2000\u2001\u2002\u2003\u2009\u202f\u3000")
_RESERVED_NAME: Final = re.compile(r"(?:reservedspecialtoken|image|extra|dummy|unused|placeholder|audio|endofturn)\d*")

_DROP: Final[dict[int, str | None]] = {
    point: None for low, high in (*COMBINING, *INVISIBLE) for point in range(low, min(high, 0xE01EF) + 1)
}
_LOOK_ALIKES: Final = str.maketrans(
    "аɑαеёοоσрρсϲԁіıιїјӏкκмтτуүγхχνѵѕԛԝһпոɡ▁∕⁄", "aaaeeoooppccdiiiijlkkmttyyyxxvvsqwhnng_//"
)
_FOLD: Final = _DROP | _LOOK_ALIKES


def shadow(text: str) -> str:
    """What the text looks like: compatibility forms, case, look-alikes and marks folded away. Never shown."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold()).translate(_FOLD)


def neutralise_markers(text: str, shapes: Sequence[str] = SHAPES) -> tuple[str, dict[str, int]]:
    """The text with every marker's delimiters exchanged for ‹ and ›. `shapes`: which delimiters the text may hold."""
    plain = text.isascii()
    spots = _Spots()
    if ANGLE in shapes:
        text = (_ANGLE if "|" in text else _ANGLE_WITHOUT_BARS).sub(spots.angle, text)
        text = text if plain else _WIDE_ANGLE.sub(spots.wide_angle, text)
    if SQUARE in shapes:
        text = _SQUARE.sub(spots.square, text)
        text = text if plain else _WIDE_SQUARE.sub(spots.wide_square, text)
    if LOW_LINE in shapes:
        text = _LOW.sub(spots.low, text)
        text = text if plain else _neutralise_wide_low_lines(text, spots)
    if ANGLE in shapes:
        text = _neutralise_sentence_marks(text, spots)
    return text, {MARKER: spots.count} if spots.count else {}


def may_hold_marker(text: str) -> bool:
    """Is there a delimiter at all?"""
    return _ANY_OPENER.search(text) is not None


def marker_needles(shape: str) -> Iterator[Needle]:
    """What the first bytes of a marker of this shape can be, for a sieve."""
    opener, extra, names, exotic = {
        ANGLE: ("<", "|<", _ANGLE_NAMES, _OPEN[1:]),
        SQUARE: ("[", "|@", f"{_SQUARE_NAMES}|think", _SQUARE_OPEN[1:]),
        LOW_LINE: ("__", "", _LOW_LINE_NAME, _LOW_LINE[1:]),
    }[shape]
    first = spelled(opener)
    above, spaces = range(0x80, 0x100), b" \t\n\r\f\v"
    yield from (spelled(char) for char in exotic)
    yield from ((*first, letter) for letter in (above, spaces, extra.encode()))
    slash = (b"/",)
    heads = {name[:3] for name in re.sub(r"[^a-z_|]", "", names).split("|") if name}
    for head in heads | ({"s"} if shape == ANGLE else set()):
        letters = spelled(head, any_case=True)
        if head == "s":
            letters = (*letters, b">")
        for lead in (first, (*first, *slash)):
            yield (*lead, *letters)
            yield (*lead, letters[0], above)
            if len(head) > 1:
                yield (*lead, *letters[:2], above)
    yield (*first, *slash, (*spaces, *above))


class _Spots:
    """Judges each find of one text and counts the markers among them."""

    def __init__(self) -> None:
        self.count = 0
        self.instructions = False  # does the text speak Llama 2 or Mistral, where <s> and </s> are markers too?

    def _inert(self, opening: str, name: str, closing: str) -> str:
        self.count += 1
        return f"‹{opening}{name.strip()}{closing}›"

    def angle(self, found: re.Match[str]) -> str:
        kind = found.lastgroup
        raw = found[kind or 0]
        match kind:
            case "bar" if _is_bar_name(raw, tight=not any(map(str.isspace, found[0]))):
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
        return found[0]

    def wide_angle(self, found: re.Match[str]) -> str:
        if found[0].isascii():
            return found[0]
        kind = found.lastgroup
        name = _ANGLE_NAME if kind == "angle" else _SYS_NAME
        if kind in ("angle", "sys") and not name.fullmatch(shadow(found[kind]).strip()):
            return found[0]
        return self.angle(found)

    def square(self, found: re.Match[str]) -> str:
        self.instructions = True
        return self._inert("", found["square"], "")

    def wide_square(self, found: re.Match[str]) -> str:
        if found[0].isascii() or not _SQUARE_NAME.fullmatch(shadow(found["square"]).strip()):
            return found[0]
        return self.square(found)

    def low(self, found: re.Match[str]) -> str:
        return self._inert("", found["low"], "")

    def sentence(self, found: re.Match[str]) -> str:
        return self._inert("", f"{found[1]}s", "")


def neutralise_turns(text: str) -> tuple[str, int]:
    """The text with the turn openings of plain-text templates made inert. A matter of policy: they are prose too."""
    return _TURN.subn(r"\1\2‹:›", text)


def _is_bar_name(raw: str, *, tight: bool) -> bool:
    """Unknown names count only without spaces: `f <| x |> g` is a program."""
    if tight and _GENERIC_NAME.fullmatch(shadow(raw)):
        return True
    return _is_known_bar_name(raw)


def _is_known_bar_name(raw: str) -> bool:
    name = shadow(raw).translate(_SQUASH)
    return name in _BAR_NAMES or _RESERVED_NAME.fullmatch(name) is not None


def _neutralise_wide_low_lines(text: str, spots: _Spots) -> str:
    pieces: list[str] = []
    done = 0
    for found in _WIDE_LOW.finditer(text):
        if found.start() >= done and shadow(found["low"]).strip() == _LOW_LINE_NAME:
            pieces += (text[done : found.start()], spots.low(found))
            done = found.end("close")
    return "".join((*pieces, text[done:])) if pieces else text


def _neutralise_sentence_marks(text: str, spots: _Spots) -> str:
    """`<s>` and `</s>` are Llama's sentence marks and HTML's strike-through.

    Beside [INST] or <<SYS>> they are marks. Elsewhere a pair is HTML and stays; a `</s>` that closes nothing is a mark,
    and so is a `<s>` that nothing closes, unless it reads as a type parameter: `<S>`, `Box<s>`, `<s>(`.
    """
    found = list(_STRIKE.finditer(text))
    if not found:
        return text
    marks: list[re.Match[str]] = []
    open_pairs: list[re.Match[str]] = []
    for tag in found:
        if spots.instructions and not tag[2]:
            marks.append(tag)
        elif not tag[1]:
            if not _is_type_parameter(text, tag):
                open_pairs.append(tag)
        elif open_pairs:
            open_pairs.pop()
        else:
            marks.append(tag)
    marks += (tag for tag in open_pairs if tag[0] == "<s>")
    if not marks:
        return text
    pieces: list[str] = []
    done = 0
    for tag in sorted(marks, key=re.Match.start):
        pieces += (text[done : tag.start()], spots.sentence(tag))
        done = tag.end()
    return "".join((*pieces, text[done:]))


def _is_type_parameter(text: str, tag: re.Match[str]) -> bool:
    before = text[tag.start() - 1 : tag.start()] if tag.start() else ""
    after = text[tag.end() : tag.end() + 1]
    word_before = before.isalnum() or before in ("_", ":")
    return (tag[0] == "<S>" and (word_before or after in ("(", "", " ", ">", ",", ";", "{"))) or (
        word_before and after in ("(", ">", ",", ";", "{", ")")
    )
