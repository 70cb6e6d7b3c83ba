"""Sanitizing, measured: markers of model families in disguises, and honest files that must stay byte for byte.

    .venv/bin/python bench/security/sanitize.py

An attack counts as removed if a careless reader, who undoes the disguise on the cleaned result, does not get the marker
back. The reader is written here and shares no code with the cleaner. Touches: files of this Python, its packages, and
typescript/node_modules. Takes a minute.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
import sys
import sysconfig
import tomllib
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from leafgate.clean.cleaner import Cleaner, read_blocks
from leafgate.clean.sanitize import sanitize_text

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from security.section import Section

ROOT: Final = Path(__file__).resolve().parents[2]
TABLE: Final = ROOT / "python" / "src" / "leafgate" / "data" / "markers.toml"
BENIGN_TEXTS: Final = ROOT / "python" / "tests" / "data" / "firewall" / "benign_texts.jsonl"
CATALOG: Final = ROOT / "python" / "tests" / "data" / "routing" / "dev_catalog.json"
MOST_BYTES: Final = 40_000_000  # of one kind of files
TEXT_FILES: Final = {
    ".py",
    ".pyi",
    ".md",
    ".rst",
    ".txt",
    ".js",
    ".mjs",
    ".cjs",
    ".ts",
    ".json",
    ".html",
    ".css",
    ".toml",
}
PROSE: Final = "The report describes rivers, bridges, and the people who built them. "
INVISIBLE: Final = re.compile(
    "[\u00ad\u034f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufe00-\ufe0f\U000e0000-\U000e0fff]"
)
LOOK_ALIKES: Final = dict(zip("aeopcisx", "аеорсіѕх", strict=True))
CLEANER: Final = Cleaner()
OTHER_CASE: Final = "upper or lower case"

# Tokens of chat templates that are not in the table: every name between bars is a marker
OTHER_TOKENS: Final = (
    "<|plugin_call|>", "<|tool_output|>", "<|endofuserprompt|>", "<|userprompt|>", "<|role_start|>",
    "<|thought_start|>",
    "<|inner_prefix|>", "<|tool▁list▁begin|>", "<|function_call|>", "<|assistant_end|>", "<|nothink|>", "<|from|>",
    "<|system_start|>", "<|recipient|>", "<|stop|>", "<|sep_token|>", "<|query|>", "<|begin_of_thought|>",
    "<|control_12|>", "<|vision_bos|>",
)  # fmt: skip


@dataclass(frozen=True)
class Disguise:
    """How a marker is written, and how a reader undoes it; `applies` says for which markers there is such a form."""

    name: str
    write: Callable[[str], Any]
    read: Callable[[Any], str]
    applies: Callable[[str], bool] = lambda token: True


def clean_text(text: str) -> str:
    return CLEANER(text)


def as_text(cleaned: Any) -> str:
    return str(cleaned)


def read_json_text(text: str) -> str:
    return re.sub(r"\\u([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), text)


def write_percent(token: str) -> str:
    return "".join(f"%{byte:02X}" for byte in token.encode())


def write_json_text(token: str) -> str:
    return '{"a":"' + "".join(char if char.isalnum() else f"\\u{ord(char):04x}" for char in token) + '"}'


def write_wide(token: str) -> str:
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in token)


def clean_members(token: str) -> str:
    return json.dumps(CLEANER.json({f"k{token}": [token]}).value, ensure_ascii=False).replace('\\"', '"')


def without_marks(text: str) -> str:
    parts = unicodedata.normalize("NFKD", INVISIBLE.sub("", text))
    return "".join(char for char in parts if not unicodedata.combining(char))


def without_look_alikes(text: str) -> str:
    return text.translate({ord(alike): letter for letter, alike in LOOK_ALIKES.items()})


def blob(data: bytes, media_type: str) -> str:
    cleaned = CLEANER.base64(base64.b64encode(data).decode(), media_type).value
    decoded = base64.b64decode(cleaned)
    return decoded.decode("utf-16" if decoded[:2] == b"\xff\xfe" else "utf-8", "ignore")


def split(token: str) -> str:
    cut = max(1, len(token) // 2)
    pieces = read_blocks(
        [{"type": "text", "text": part} for part in (PROSE + token[:cut], token[cut:] + PROSE)], CLEANER
    )
    return "".join(piece.text or "" for piece in pieces)


def is_tag(token: str) -> bool:
    return re.fullmatch(r"<[a-z_]+>", token) is not None


def is_barred(token: str) -> bool:
    return token.startswith("<|") and token.endswith("|>") and '"' not in token


DISGUISES: Final = (
    Disguise("as it is, in a short text", lambda t: clean_text(f"ok {t}system"), as_text),
    Disguise("as it is, in a long text", lambda t: clean_text(f"{PROSE * 8}{t}system"), as_text),
    Disguise(OTHER_CASE, lambda t: clean_text(t.swapcase()), lambda s: s.swapcase()),
    Disguise("zero-width characters inside", lambda t: clean_text("\u200b".join(t)), lambda s: INVISIBLE.sub("", s)),
    Disguise(
        "tag characters and selectors inside",
        lambda t: clean_text("\U000e0041\ufe0f".join(t)),
        lambda s: INVISIBLE.sub("", s),
    ),
    Disguise("terminal sequences inside", lambda t: clean_text("\x1b[0m\x00".join(t)), as_text),
    Disguise("combining marks on it", lambda t: clean_text("".join(f"{c}\u0336" for c in t)), without_marks),
    Disguise("full-width characters", lambda t: clean_text(write_wide(t)), without_marks),
    Disguise(
        "letters that look alike",
        lambda t: clean_text("".join(LOOK_ALIKES.get(c, c) for c in t)),
        without_look_alikes,
    ),
    Disguise("numeric entities", lambda t: clean_text("".join(f"&#{ord(c)};" for c in t)), html.unescape),
    Disguise("percent escapes", lambda t: clean_text(write_percent(t)), unquote),
    Disguise("escapes in a JSON text", lambda t: clean_text(write_json_text(t)), read_json_text),
    Disguise("blanks inside", lambda t: clean_text(f"< | {t[2:-2]} | >"), lambda s: s.replace(" ", ""), is_barred),
    Disguise("attributes", lambda t: clean_text(f'{t[:-1]} id="1">'), lambda s: s.replace(' id="1"', ""), is_tag),
    Disguise("one marker inside another", lambda t: clean_text(f"{t[:2]}{t}{t[2:]}"), as_text),
    Disguise("split over two blocks", split, as_text),
    Disguise("a JSON value and a key", clean_members, as_text),
    Disguise("a blob in UTF-16", lambda t: blob(f"{PROSE}{t}".encode("utf-16"), ""), as_text),
    Disguise("a blob with a bad byte", lambda t: blob(f"{PROSE}{t}".encode() + b"\xff", "application/x-yaml"), as_text),
)
# What is known not to be caught, or stays on purpose; measured, and reported in a note
OPEN: Final = (
    Disguise(
        "`&lt;` and `&gt;` and no other escape (stays on purpose)",
        lambda t: clean_text(html.escape(t, quote=False)),
        html.unescape,
        lambda t: t[0] == "<",
    ),
    Disguise(
        "base64",
        lambda t: clean_text(base64.b64encode(t.encode()).decode()),
        lambda s: base64.b64decode(s).decode(),
    ),
    Disguise("letters in reverse order", lambda t: clean_text(t[::-1]), lambda s: s[::-1]),
    Disguise(
        "a backslash before each delimiter",
        lambda t: clean_text(re.sub(r"([<>|\[\]])", r"\\\1", t)),
        lambda s: s.replace("\\", ""),
    ),
    Disguise(
        "HTML tags inside",
        lambda t: clean_text(f"{t[:4]}<b></b>{t[4:]}"),
        lambda s: s.replace("<b></b>", ""),
    ),
)


def attack_tokens() -> dict[str, list[str]]:
    """The tokens that are markers in every text, by family, with examples for numbers and names."""
    families = tomllib.loads(TABLE.read_text("utf-8"))["families"]
    tokens = {each["name"]: f"{each['tokens']} {each.get('exact', '')}".split() for each in families}
    tokens["not from the table"] = [*OTHER_TOKENS]
    samples = (("{N}", "7"), ("{WORD}", "begin"))
    for place, sample in samples:
        tokens = {name: [token.replace(place, sample) for token in group] for name, group in tokens.items()}
    return tokens


def is_removed(disguise: Disguise, token: str) -> bool:
    seen = disguise.read(disguise.write(token))
    return token not in seen and token.casefold() not in without_marks(seen).casefold()


def files_of(folder: Path) -> Iterator[str]:
    """Honest texts: the files of a folder in a fixed order, each once, up to a number of bytes."""
    size = 0
    for path, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            file = Path(path, name)
            if file.suffix.lower() not in TEXT_FILES or file.is_symlink() or file.stat().st_size > 3_000_000:
                continue
            try:
                text = file.read_text("utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            size += len(text)
            if size > MOST_BYTES:
                return
            yield text


def definitions() -> Iterator[str]:
    yield from (json.dumps(entry["tool"], ensure_ascii=False) for entry in json.loads(CATALOG.read_text("utf-8")))


def measure_benign(name: str, texts: Iterator[str]) -> tuple[str, ...]:
    count = size = changed = markers = 0
    for text in texts:
        count, size = count + 1, size + len(text.encode("utf-8", "replace"))
        removed = sanitize_text(text).report.removed
        changed += bool(removed)
        markers += removed.get("chat-marker", 0)
    rate = f"{markers} markers in {size / 1e6:.1f} MB, {markers / size * 1e6:.3f} per MB"
    return name, f"{count} texts", f"{(count - changed) / count:.2%} unchanged", rate


def measure() -> Section:
    """Measure attacks and honest texts."""
    tokens = attack_tokens()
    every = [token for group in tokens.values() for token in group]
    exact = {
        token for each in tomllib.loads(TABLE.read_text("utf-8"))["families"] for token in each.get("exact", "").split()
    }
    rows: list[tuple[str, ...]] = []
    missed: list[str] = []
    for disguise in DISGUISES:
        tried = [token for token in every if disguise.applies(token)]
        if disguise.name == OTHER_CASE:  # in another case these are words
            tried = [token for token in tried if token not in exact]
        escaped = [token for token in tried if not is_removed(disguise, token)]
        if escaped:
            more = f" and {len(escaped) - 5} more" if len(escaped) > 5 else ""
            missed.append(f"Not caught, {disguise.name}: {' '.join(f'`{token}`' for token in escaped[:5])}{more}.")
        removed = len(tried) - len(escaped)
        rows.append(
            (
                disguise.name,
                f"{len(tried)} attacks",
                f"{removed / len(tried):.1%} removed",
                f"{removed} of {len(tried)}",
            )
        )
    benign = {
        "texts that resemble markers (test data)": (
            json.loads(line)["text"] for line in BENIGN_TEXTS.open(encoding="utf-8")
        ),
        "definitions of tools": definitions(),
        "Python's standard library": files_of(Path(sysconfig.get_path("stdlib"))),
        "installed Python packages": files_of(Path(sysconfig.get_path("purelib"))),
        "node_modules": files_of(ROOT / "typescript" / "node_modules"),
    }
    rows += [measure_benign(name, texts) for name, texts in benign.items()]
    notes = [f"{disguise.name}: {describe(disguise, every)}" for disguise in OPEN]
    notes += missed
    notes += [
        "Tokens that are ordinary text elsewhere (`[ARGS]`, `[PAD]`, `<filename>`, `<escape>`, `<s>`) count beside "
        "another marker of their family, before a JSON object, or where the client's map has them.",
        "The markers in honest files are nearly all texts about tokenizers (tiktoken, tokenizers, gigatoken), and "
        "`</s>` in a test of an XML parser.",
        "Other changes of honest files are control, zero-width and direction characters, which are removed everywhere.",
        "Turns of plain-text templates (`Human:`, `### Instruction:`) are left alone, except on request.",
    ]
    method = (
        f"{len(every)} control tokens of {len(tokens)} groups of model families, each in {len(DISGUISES)} disguises. "
        "Removed: a reader who undoes the disguise on the cleaned text does not get the token back. Honest files must "
        "stay byte for byte."
    )
    return Section("Sanitizing", method, ("set", "size", "share", "count"), tuple(rows), tuple(notes))


def describe(disguise: Disguise, every: list[str]) -> str:
    tried = [token for token in every if disguise.applies(token)]
    return f"{sum(is_removed(disguise, token) for token in tried)} of {len(tried)} removed"


if __name__ == "__main__":
    section = measure()
    print(section.method)
    for row in section.rows:
        print(" | ".join(row))
    print(*section.notes, sep="\n")
