"""A faster encoder for a map, where there is one and it proves itself. In: an Encoder. Out: the same, or a faster one.

Touches a temporary file, because gigatoken (the extra `fast`) reads its ranks from one; threads; /proc. gigatoken is
young, and knows pretokenizers by name and not by pattern: it serves a map only after it agreed with tiktoken on texts
that tell pretokenizers apart, and whatever it cannot take goes to tiktoken.
"""

from __future__ import annotations

import base64
import logging
import mmap
import random
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from leafgate.model.errors import TextError
from leafgate.tokens.encoder import Encoder
from leafgate.tokens.token_map import TokenMap

try:
    import gigatoken
except ImportError:  # an extra
    gigatoken = None  # type: ignore[assignment]

log = logging.getLogger("leafgate.maps")

# Of text, after which a faster encoder is looked for.
PATIENCE_BYTES: Final = 256 * 1024

# It remembers every piece it ever saw and cannot be told to forget: ten bytes for each byte of text at worst (words of
# chance), next to nothing on what tools say. So a new one is made only where the process has grown: that takes 0.1 s,
# during which no other thread of the process runs.
LOOK_AFTER: Final = 16 * 1024 * 1024
RENEW_GROWN: Final = 64 * 1024 * 1024
# Of ids: while an array becomes a list, every other thread of the process waits.
AT_ONCE: Final = 1 << 16
# One thread for all of them, and always the same: each new thread may keep megabytes of what was freed in it.
_RENEWERS: Final = ThreadPoolExecutor(1, thread_name_prefix="renew-encoder")

_TAIL: Final = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_WORDS: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED: Final = r"[^\r\n\p{L}\p{N}]?%s%s(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"

# Its names for the patterns that it knows, as maps spell them. Any other pattern goes without.
_SCHEMES: Final[Mapping[str, str]] = {
    _WORDS + r"\p{N}{1,3}" + _TAIL: "cl100k",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|"
    r"\s+(?!\S)|\s": "cl100k",
    _WORDS + r"\p{N}" + _TAIL: "qwen2",
    _CASED % (f"{_UPPER}*", f"{_LOWER}+")
    + _CASED % (f"{_UPPER}+", f"{_LOWER}*")
    + r"\p{N}{1,3}"
    + _TAIL.replace("[\\r\\n]*", "[\\r\\n/]*", 1): "o200k",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s": "gpt2",
}

_SCRIPTS: Final = (
    "etaoinshrdlu ETAOIN'",
    "0123456789 .,-",
    " \t\n\r\x0b\x0c\x85\xa0\u2003\u3000",
    "(){}[]<>;:=+*/\\\"'`~!@#$%^&|?_-",
    "äöüßéèñçøåÄÖÜŉſİıǅΐﬁ",
    "абвгдеАБВёЇ",
    "的一是不了人我在中日本語한국어",
    "ابتثجحखगघङกขฃ\u0301\u0308\u200d\u200b\ufe0f",
    "😀👩🏽‍💻🇩🇪½²Ⅷ٣४\ue000\ufeff\x00\x1b",
)
_PHRASES: Final = (
    "don't I'LL we've 'S 's'T it’s",
    "<|endoftext|><|im_start|>system<|im_end|>",
    "def f(x):\n\treturn x ** 2  # 12345678\r\n\r\n",
    '{"a": [1, 2.5e-10, null], "b": "\\u00e9"}',
    "https://example.org/a_b-c?d=%20#e",
    "   leading\n\n\n  and   trailing   ",
)


def accelerate(encoder: Encoder) -> Encoder:
    """The faster encoder, or the very same one where there is none or it disagrees."""
    scheme = _scheme(encoder.map)
    if gigatoken is None or scheme is None:
        return encoder
    try:
        fast = AcceleratedEncoder(encoder, scheme)
        agrees = all(fast.encode(text) == encoder.encode(text) for text in trial_texts())
    except Exception as error:
        log.info("no accelerator for map %s: %s", encoder.map.id, error)
        return encoder
    if not agrees:
        log.warning("the accelerator disagrees with the reference on map %s and is not used", encoder.map.id)
    return fast if agrees else encoder


class SoonFaster:
    """An encoder that becomes faster once it is in earnest use: a start, and a gateway that idles, pay nothing."""

    def __init__(self, exact: Encoder) -> None:
        self._best = exact
        self._patience = PATIENCE_BYTES
        self._sought = threading.Lock()  # taken once, for good

    @property
    def map(self) -> TokenMap:
        return self._best.map

    @property
    def best(self) -> Encoder:
        """What encodes at the moment."""
        return self._best

    def encode(self, text: str) -> list[int]:
        self._patience -= len(text)
        if self._patience < 0 and self._sought.acquire(blocking=False):
            threading.Thread(target=self._seek, name="accelerate-encoder", daemon=True).start()
        return self._best.encode(text)

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        return self._best.decode_bytes(ids)

    def _seek(self) -> None:
        self._best = accelerate(self._best)


class AcceleratedEncoder:
    """Encodes on gigatoken, decodes as before."""

    def __init__(self, exact: Encoder, scheme: str) -> None:
        self._exact = exact
        self._scheme = scheme
        self._fast = _load(exact.map, scheme)
        self._fed = 0
        self._least = resident_bytes()
        self._renewing = threading.Lock()

    @property
    def map(self) -> TokenMap:
        return self._exact.map

    def encode(self, text: str) -> list[int]:
        try:
            raw = text.encode()
        except UnicodeEncodeError:
            raise TextError("the text holds lone surrogates and cannot be written as UTF-8") from None
        self._fed += len(raw)
        if self._fed > LOOK_AFTER and self._renewing.acquire(blocking=False):
            _RENEWERS.submit(self._look_at_size)
        try:
            found = self._fast.encode(raw)
        except BaseException as error:
            if type(error).__name__ == "PanicException":  # not importable, and no Exception
                return self._exact.encode(text)
            raise
        ids: list[int] = found[:AT_ONCE].tolist()
        for start in range(AT_ONCE, len(found), AT_ONCE):
            ids += found[start : start + AT_ONCE].tolist()
        return ids

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        return self._exact.decode_bytes(ids)

    def _look_at_size(self) -> None:
        """Makes a fresh one aside, if the process has grown since it was smallest, or does not tell its size."""
        try:
            now = resident_bytes()
            self._least = min(self._least, now)
            if now == 0 or now - self._least > RENEW_GROWN:
                self._fast = _load(self.map, self._scheme)
                self._least = resident_bytes()
            self._fed = 0
        except Exception:
            log.exception("the accelerator of map %s cannot be renewed", self.map.id)
        finally:
            self._renewing.release()


def resident_bytes() -> int:
    """The memory of this process; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0


def trial_texts() -> Iterator[str]:
    """The same texts every time: of each script, of all mixed, of long runs."""
    yield from _PHRASES
    chance = random.Random(20_480)
    for size in (3, 17, 60, 240):
        for script in (*_SCRIPTS, "".join(_SCRIPTS)):
            for _ in range(6):
                yield "".join(chance.choices(script, k=size))
    for run in (" ", "\n", "a", "7", "é", "=", " \n", "ab "):
        for tail in ("", "x", " x", "\n"):
            yield run * 3_000 + tail


def _scheme(token_map: TokenMap) -> str | None:
    """None where the ranks are not the ids from 0 on, which it needs, or the pattern is none of those it knows."""
    if token_map.kind != "byte_level" or token_map.id_of_rank is not None:
        return None
    if sorted(token_map.ranks.values()) != list(range(len(token_map.ranks))):
        return None
    return _SCHEMES.get(token_map.pattern)


def _load(token_map: TokenMap, scheme: str) -> Any:
    lines = sorted(token_map.ranks.items(), key=lambda entry: entry[1])
    with tempfile.NamedTemporaryFile(suffix=".tiktoken") as file:
        file.writelines(b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in lines)
        file.flush()
        return gigatoken.Tokenizer.from_tiktoken(file.name, scheme, {})
