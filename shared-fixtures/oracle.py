"""Answers the tokenize cases by other people's code. In: tokenize/*.json and the maps. Out: agreement, or a difference.

Knows nothing of this repository's encoders. Each `encode` case is asked of two independent sources:

- byte_level: tiktoken, given the map's vocabulary and pattern; and Hugging Face's tokenizers, given the same vocabulary
  with merges derived from it, on another regular-expression engine;
- maps with several patterns, a normalizer, added tokens or no merges: Hugging Face's tokenizers alone;
- metaspace: Hugging Face's tokenizers with the normalizers of a Llama tokenizer; and the textbook algorithm, below.

    python shared-fixtures/oracle.py          compares every case with both sources
    python shared-fixtures/oracle.py --fill   writes `expect` into cases that have none yet, where both sources agree
"""

import argparse
import gzip
import json
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import tiktoken
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

HERE = Path(__file__).resolve().parent
MAPS = HERE.parent / "maps"

Source = Callable[[str], list[int] | None]


def expand(value: Any) -> Any:
    """Writes out the compact forms {"repeat", "times"} and {"concat"} (see README.md)."""
    if isinstance(value, list):
        return [expand(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"repeat", "times"}:
        return expand(value["repeat"]) * value["times"]
    if value.keys() == {"concat"}:
        parts = expand(value["concat"])
        return "".join(parts) if all(isinstance(part, str) for part in parts) else [id for part in parts for id in part]
    return {key: expand(item) for key, item in value.items()}


def compact(ids: list[int]) -> Any:
    """The other way round, for long lists of ids."""
    if len(ids) < 200:
        return ids
    parts: list[Any] = [[]]
    at = 0
    while at < len(ids):
        period, times = best_period(ids, at)
        if period * times < 40:
            parts[-1].append(ids[at])
            at += 1
        else:
            parts += [{"repeat": ids[at : at + period], "times": times}, []]
            at += period * times
    return {"concat": [part for part in parts if part]}


def best_period(ids: list[int], at: int) -> tuple[int, int]:
    found = []
    for period in range(1, 33):
        unit = ids[at : at + period]
        times = 1
        while ids[at + times * period : at + (times + 1) * period] == unit:
            times += 1
        found.append((period, times if times > 1 else 0))
    return max(found, key=lambda item: (item[0] * item[1], -item[0]))


def alphabet() -> dict[str, int]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(0x100 + i): b for i, b in enumerate(others)}


def by_tiktoken(document: dict[str, Any]) -> Source:
    letters = alphabet()
    ranks = {bytes(letters[char] for char in token): id for token, id in document["vocab"].items()}
    encoding = tiktoken.Encoding(
        document["id"], pat_str=document["pre_tokenizer_pattern"], mergeable_ranks=ranks, special_tokens={}
    )

    def encode(text: str) -> list[int] | None:
        try:
            return encoding.encode_ordinary(text)
        except BaseException as error:
            if type(error).__name__ == "PanicException":  # a very long run of blanks: it has no answer
                return None
            raise

    return encode


def every_merge(vocab: dict[str, int]) -> list[tuple[str, str]]:
    """Every split of every token into two, in the order of ids: what a map without merges means."""
    merges = []
    for token, _ in sorted(vocab.items(), key=lambda item: item[1]):
        splits = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
        known = [split for split in splits if split[0] in vocab and split[1] in vocab]
        merges += sorted(known, key=lambda split: (vocab[split[0]], vocab[split[1]]))
    return merges


def joined(document: dict[str, Any]) -> dict[str, int]:
    """The tokens that take part in joining, in a map without merges."""
    apart = {*document.get("added_tokens", []), *(f"<0x{byte:02X}>" for byte in range(256))}
    return {token: id for token, id in document["vocab"].items() if token not in apart}


def by_tokenizers(document: dict[str, Any]) -> Source:
    vocab = joined(document)
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=every_merge(vocab), ignore_merges=True))
    patterns = document.get("pre_tokenizer_patterns") or [document["pre_tokenizer_pattern"]]
    stages = [pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated") for pattern in patterns]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [*stages, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    if "normalizer" in document:
        tokenizer.normalizer = {"nfc": normalizers.NFC, "nfkc": normalizers.NFKC}[document["normalizer"]]()
    letters = alphabet()
    added = document.get("added_tokens", [])
    ids = {bytes(letters[char] for char in token).decode(): document["vocab"][token] for token in added}
    tokenizer.add_tokens([tokenizers.AddedToken(text, normalized=False) for text in ids])
    own = {tokenizer.token_to_id(text): id for text, id in ids.items()}
    return lambda text: [own.get(id, id) for id in tokenizer.encode(text).ids]


def metaspace_by_tokenizers(document: dict[str, Any]) -> Source:
    merges = [tuple(merge.split(" ")) for merge in document.get("merges", ())] or every_merge(joined(document))
    has_prefix = document.get("prefix") != "never"
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=document["vocab"], merges=merges, byte_fallback=True))
    prefix = [normalizers.Prepend("▁")] if has_prefix else []
    tokenizer.normalizer = normalizers.Sequence([*prefix, normalizers.Replace(" ", "▁")])
    tokenizer.add_tokens([tokenizers.AddedToken(each, normalized=False) for each in document.get("added_tokens", [])])
    strip = [decoders.Strip(" ", 1, 0)] if has_prefix else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text).ids
        if tokenizer.decode(ids, skip_special_tokens=False) != text:
            raise ValueError("no round trip")
        return ids

    return encode


def metaspace_by_hand(document: dict[str, Any]) -> Source:
    vocab, start = document["vocab"], document["byte_fallback_start"]
    ranks = {tuple(merge.split(" ")): rank for rank, merge in enumerate(document["merges"])}

    def encode(text: str) -> list[int] | None:
        if not text:
            return []
        if len(text) > 2000:  # the textbook is quadratic
            return None
        if "▁" in text:
            raise ValueError("no round trip")
        parts = list("▁" + text.replace(" ", "▁"))
        while True:
            pairs = [(ranks[pair], at) for at, pair in enumerate(pairwise(parts)) if pair in ranks]
            if not pairs:
                break
            at = min(pairs)[1]
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        ids = [[vocab[part]] if part in vocab else [start + byte for byte in part.encode()] for part in parts]
        return [id for group in ids for id in group]

    return encode


def sources(map_id: str) -> list[Source]:
    plain_file, packed = MAPS / f"{map_id}.json", MAPS / f"{map_id}.json.gz"
    document = json.loads(gzip.decompress(packed.read_bytes()) if packed.exists() else plain_file.read_bytes())
    if document["encoder"] == "metaspace":
        by_hand = [metaspace_by_hand(document)] if "merges" in document else []
        return [metaspace_by_tokenizers(document), *by_hand]
    plain = not {"pre_tokenizer_patterns", "normalizer", "added_tokens"} & document.keys()
    return [by_tokenizers(document), *([by_tiktoken(document)] if plain else [])]


def answer(source: Source, text: str) -> dict[str, Any] | None:
    try:
        text.encode()
        ids = source(text)
    except ValueError:  # lone surrogates, or no round trip
        return {"error": "bad-text"}
    return None if ids is None else {"ids": ids}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fill", action="store_true")
    fill = parser.parse_args().fill
    differences = asked = 0
    for path in sorted((HERE / "tokenize").glob("*.json")):
        document = json.loads(path.read_bytes())
        oracles: dict[str, list[Source]] = {}
        for case in document["cases"]:
            line = json.loads(case["line"]) if "line" in case else expand(case["input"])
            if case["map"] not in oracles:
                oracles[case["map"]] = sources(case["map"])
            answers = [a for a in (answer(source, line["text"]) for source in oracles[case["map"]]) if a is not None]
            asked += 1
            if fill and "expect" not in case and all(a == answers[0] for a in answers):
                ids = answers[0].get("ids")
                case["expect"] = answers[0] if ids is None else {"ids": compact(ids)}
            wanted = expand(case.get("expect"))
            if any(a != wanted for a in answers):
                differences += 1
                print(f"{path.name}: {case['name']}: expected {str(wanted)[:200]}, found {str(answers)[:600]}")
        if fill:
            path.write_text(dump(document))
    print(f"{asked} cases, {differences} differences")
    return 1 if differences else 0


def dump(document: dict[str, Any]) -> str:
    """One case per line, so that a change reads as a change of a case."""
    head = {key: value for key, value in document.items() if key != "cases"}
    cases = ",\n".join("    " + json.dumps(case, ensure_ascii=False) for case in document["cases"])
    return json.dumps(head, ensure_ascii=False, indent=2)[:-2] + ',\n  "cases": [\n' + cases + "\n  ]\n}\n"


if __name__ == "__main__":
    sys.exit(main())
