"""Compares a map's encoder with Hugging Face's tokenizers. In: an encoder. Out: on how many texts they differ.

Touches nothing but the tokenizer.json it may be given. The other side is built from the map by the other library's own
rules, or read from the file that the map was made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leafgate.model.errors import MapInvalidError, TextError
from leafgate.storage.accelerator import trial_texts
from leafgate.tokens.encoder import Encoder
from leafgate.tokens.token_map import BYTE_ALPHABET, TokenMap

try:
    import tokenizers

    _INSTALLED = True
except ImportError:  # an extra
    _INSTALLED = False


@dataclass(frozen=True)
class Comparison:
    """How many texts were compared, on how many the ids differ, and the first of those."""

    against: str
    texts: int
    differences: int
    first: str | None

    def as_json(self) -> dict[str, Any]:
        return {
            "against": self.against,
            "texts": self.texts,
            "differences": self.differences,
            "first_difference": self.first,
        }


def compare(encoder: Encoder, original: Path | None = None) -> Comparison | None:
    """None where there is nothing to compare with: the library is not installed, or it is the encoder itself."""
    if not _INSTALLED:
        return None
    if original is not None:
        return _compared(encoder, _read(original), original.name)
    if encoder.map.kind == "metaspace":
        return None
    return _compared(encoder, _rebuilt(encoder.map), "tokenizers, built from the map")


def _compared(encoder: Encoder, other: Any, against: str) -> Comparison:
    def theirs(text: str) -> list[int]:
        ids: list[int] = other.encode(text, add_special_tokens=False).ids
        return ids

    added = [token.content for token in other.get_added_tokens_decoder().values()]
    # It takes the names of added tokens in a text for those tokens, which we never do.
    texts = [text for text in trial_texts() if not any(name in text for name in added)]
    different = [text for text in texts if _differ(encoder, theirs, text)]
    return Comparison(against, len(texts), len(different), different[0] if different else None)


def _differ(encoder: Encoder, theirs: Callable[[str], list[int]], text: str) -> bool:
    try:
        return encoder.encode(text) != theirs(text)
    except TextError:  # no ids are better than ids that do not decode to the text
        return False


def _read(path: Path) -> Any:
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception
        raise MapInvalidError(f"{path}: {error}") from None


def _rebuilt(token_map: TokenMap) -> Any:
    written = {token: "".join(BYTE_ALPHABET[byte] for byte in token) for token in token_map.token_of_id.values()}
    vocab = {written[token]: id for id, token in token_map.token_of_id.items()}
    model = tokenizers.models.BPE(vocab=vocab, merges=list(_merges(token_map.ranks, written)), ignore_merges=True)
    built = tokenizers.Tokenizer(model)
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(token_map.pattern), behavior="isolated")
    as_bytes = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    built.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([split, as_bytes])
    return built


def _merges(ranks: Mapping[bytes, int], written: Mapping[bytes, str]) -> Iterable[tuple[str, str]]:
    """Every pair that makes a token, in the order of the tokens' ranks."""
    for token in sorted(ranks, key=lambda token: ranks[token]):
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in ranks and right in ranks:
                yield written[left], written[right]
