"""Terminal escape sequences and control characters. In: a string. Out: the string without them, and counts.

Pure. Afterwards the text holds no control character but TAB LF CR, so a second pass finds nothing.
"""

from __future__ import annotations

import re
from typing import Final

from leafgate.firewall.codepoints import CONTROLS, char_class

SEQUENCE: Final = "escape-sequence"
CONTROL: Final = "control"

_CONTROL = char_class(CONTROLS)
# A string sequence (OSC, DCS, ...) ends at its terminator or is not one: its body holds no control character and no
# line break. So an unterminated opening takes no text with it, and no character is looked at twice.
_BODY = r"[^\x00-\x1f\x7f-\x9f]*"
_STRING_END = r"(?:\x1b\\|\x9c)"
_SEQUENCE = rf"""
    (?:\x1b\[|\x9b(?=[0-?])) [0-?]{{0,64}} [\ -/]{{0,16}} [@-~]   # CSI; its bare 8-bit form only with parameters
  | (?:\x1b\]|\x9d) {_BODY} (?:\x07|{_STRING_END})                # OSC
  | (?:\x1b[PX^_]|[\x90\x98\x9e\x9f]) {_BODY} {_STRING_END}       # DCS SOS PM APC
  | \x1b\[                                                        # CSI that goes nowhere
  | \x1b[\ -/]{{1,4}}[0-~]                                        # character sets
  | \x1b[0-Z\\\]^_`cno|}}~]                                       # two-character functions
"""
_FOUND: Final = re.compile(rf"(?P<sequence>{_SEQUENCE})|[{_CONTROL}]+", re.VERBOSE)


def strip_escapes(text: str) -> tuple[str, dict[str, int]]:
    """The text without terminal sequences and control characters."""
    sequences = controls = 0

    def drop(found: re.Match[str]) -> str:
        nonlocal sequences, controls
        if found["sequence"] is not None:
            sequences += 1
        else:
            controls += len(found[0])
        return ""

    cleaned = _FOUND.sub(drop, text)
    return cleaned, {kind: count for kind, count in ((SEQUENCE, sequences), (CONTROL, controls)) if count}
