"""A faster encoder for a map: gigatoken (the extra `fast`), used only after it has passed a test.

gigatoken is young, and knows pretokenizers by name and not by pattern. It encodes for a map only after it agreed with
tiktoken on texts that distinguish pretokenizers, and a text that it cannot encode goes to tiktoken. It reads its ranks
from a file, so a temporary one is written.
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

import numpy as np

from leafgate.data import load_table
from leafgate.model.errors import TextError
from leafgate.tokens.encoder import Encoder, call_engine, encode_array
from leafgate.tokens.ids import IdArray, TokenIds
from leafgate.tokens.token_map import TokenMap

try:
    import gigatoken
except ImportError:  # an extra
    gigatoken = None  # type: ignore[assignment]

log = logging.getLogger("leafgate.maps")

# Bytes of text after which the faster encoder is loaded.
PATIENCE_BYTES: Final = 256 * 1024

# gigatoken caches every piece of text without a limit: at worst (random words) ten bytes for each byte of text, next to
# nothing for the results of tools. So it is replaced by a new one only if the process has grown: that takes 0.1 s, and
# meanwhile no other thread of the process runs.
LOOK_AFTER: Final = 16 * 1024 * 1024
RENEW_GROWN: Final = 64 * 1024 * 1024
# Always the same thread: each new one may keep megabytes of the memory that was freed in it.
_RENEWERS: Final = ThreadPoolExecutor(1, thread_name_prefix="renew-encoder")

_TABLE: Final = load_table("accelerator", {"schemes": dict, "texts": dict})
_SCHEMES: Final[Mapping[str, str]] = {
    pattern: name for name, patterns in _TABLE["schemes"].items() for pattern in patterns
}
_SCRIPTS: Final[Sequence[str]] = _TABLE["texts"]["scripts"]
_PHRASES: Final[Sequence[str]] = _TABLE["texts"]["phrases"]


def accelerate(encoder: Encoder) -> Encoder:
    """The faster encoder, or the same one if there is none or the two disagree."""
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


class LazyAcceleration:
    """An encoder that loads a faster one after PATIENCE_BYTES of text, so that an idle gateway does not pay for it."""

    def __init__(self, exact: Encoder) -> None:
        self.map = exact.map
        self.decode_bytes = exact.decode_bytes
        self._best = exact
        self._patience = PATIENCE_BYTES
        self._search = threading.Lock()  # acquired once and never released

    @property
    def best(self) -> Encoder:
        """The encoder in use."""
        return self._best

    def encode(self, text: str) -> list[int]:
        return self._encoder_for(text).encode(text)

    def encode_array(self, text: str) -> IdArray:
        return encode_array(self._encoder_for(text), text)

    def _encoder_for(self, text: str) -> Encoder:
        self._patience -= len(text)
        if self._patience < 0 and self._search.acquire(blocking=False):

            def load() -> None:
                self._best = accelerate(self._best)

            threading.Thread(target=load, name="accelerate-encoder", daemon=True).start()
        return self._best


class AcceleratedEncoder:
    """Encodes with gigatoken, decodes with the exact encoder."""

    def __init__(self, exact: Encoder, scheme: str) -> None:
        self.map = exact.map
        self.decode_bytes = exact.decode_bytes
        self._exact = exact
        self._scheme = scheme
        self._fast = _load(exact.map, scheme)
        self._fed = 0
        self._least = resident_bytes()
        self._renewing = threading.Lock()

    def encode(self, text: str) -> list[int]:
        return TokenIds(self.encode_array(text)).as_list()

    def encode_array(self, text: str) -> IdArray:
        try:
            raw = text.encode()
        except UnicodeEncodeError:
            raise TextError("the text holds lone surrogates and cannot be written as UTF-8") from None
        self._fed += len(raw)
        if self._fed > LOOK_AFTER and self._renewing.acquire(blocking=False):
            _RENEWERS.submit(self._renew_if_grown)
        try:
            array = call_engine(self._fast.encode, raw)
        except TextError:
            return encode_array(self._exact, text)
        return np.asarray(array, dtype=np.uint32)

    def _renew_if_grown(self) -> None:
        """Load a new gigatoken if the process has grown since its minimum, or if its size is not known."""
        try:
            now = resident_bytes()
            self._least = min(self._least, now)
            if now == 0 or now - self._least > RENEW_GROWN:
                self._fast = _load(self.map, self._scheme)
                self._least = resident_bytes()
            self._fed = 0
        except Exception:
            log.exception("the accelerator of map %s cannot be reloaded", self.map.id)
        finally:
            self._renewing.release()


def resident_bytes() -> int:
    """The memory of this process; 0 if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0


def trial_texts() -> Iterator[str]:
    """Texts of each script, of all scripts mixed, and of long runs; the same every time."""
    yield from _PHRASES
    generator = random.Random(20_480)
    for size in (3, 17, 60, 240):
        for script in (*_SCRIPTS, "".join(_SCRIPTS)):
            for _ in range(6):
                yield "".join(generator.choices(script, k=size))
    for run in (" ", "\n", "a", "7", "é", "=", " \n", "ab "):
        for tail in ("", "x", " x", "\n"):
            yield run * 3_000 + tail


def _scheme(token_map: TokenMap) -> str | None:
    """gigatoken's name for the pattern. None if the pattern has none, or the ranks are not the ids from 0 on."""
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
        return call_engine(gigatoken.Tokenizer.from_tiktoken, file.name, scheme, {})
