"""Makes a large catalog for benchmarks. In: a real catalog, a number, a seed. Out: that many {server, tool}.

    python generate.py --like ../../tests/data/routing/dev_catalog.json --tools 10000 --out generated.json

Names are verb and noun phrases recombined from the real names; descriptions take their sentences, and parameters their
schemas, from several real tools, so that lengths and word frequencies stay those of real catalogs.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from pathlib import Path
from typing import Any

SENTENCE = re.compile(r"(?<=[.!?])\s+")
WORD = re.compile(r"[A-Za-z][a-z]+|[A-Z]+")
SYLLABLES = ("ba", "co", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ro", "sa", "te", "vu", "wa", "zo")
AREAS = ("billing", "inventory", "orders", "users", "payroll", "alerts", "backups", "media", "mail", "chat", "quota")


def generate(real: list[dict[str, Any]], tools: int, seed: int = 4) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    names = [WORD.findall(entry["tool"]["name"]) for entry in real]
    verbs = sorted({name[0].lower() for name in names if name})
    nouns = sorted({word.lower() for name in names for word in name[1:]} | set(AREAS))
    texts = [entry["tool"].get("description") or "" for entry in real]
    sentences = sorted({s.strip() for text in texts for s in SENTENCE.split(text) if 20 < len(s) < 250})
    schemas = [entry["tool"].get("inputSchema") or {"type": "object"} for entry in real]
    brands = ["".join(chance.choices(SYLLABLES, k=3)) for _ in range(max(1, tools // 40))]
    servers = [f"{brand}-{chance.choice(AREAS)}" for brand in brands]
    made: dict[tuple[str, str], dict[str, Any]] = {}
    while len(made) < tools:
        server, verb = chance.choice(servers), chance.choice(verbs)
        noun = chance.sample(nouns, chance.choice((1, 2, 2, 3)))
        name = "_".join((verb, *noun))
        about = f"{verb.capitalize()} the {' '.join(noun)} of {server.split('-')[0]}."
        description = " ".join((about, *chance.sample(sentences, chance.choice((0, 1, 1, 2, 3, 5)))))
        tool = {"name": name, "description": description, "inputSchema": chance.choice(schemas)}
        made.setdefault((server, name), {"server": server, "tool": tool})
    return list(made.values())


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--like", type=Path, required=True)
    options.add_argument("--tools", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=4)
    options.add_argument("--out", type=Path, required=True)
    given = options.parse_args()
    given.out.write_text(json.dumps(generate(json.loads(given.like.read_text()), given.tools, given.seed)))


if __name__ == "__main__":
    main()
