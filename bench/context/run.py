"""Context packs, measured: a session of 50,000 events, and how little is tokenized where items carry ids. Out: tables.

    .venv/bin/python bench/context/run.py [--quick]

Touches: the clock, a file in a temporary folder, bench/results/context.json. `load and take in` reads and checks the
file; `first pack` also counts the words of the session and makes its index; `next pack` has another query. Seconds are
those of the processor: on a shared machine they move least.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from leafgate.embed.context import ContextManager, load_mcp_session_jsonl
from leafgate.maps.files import MapFiles
from leafgate.model.context import ContextItem, ItemKind, LeafSpan, Phase
from leafgate.model.leaf import LeafPayload
from leafgate.tokens.encoder import Encoder

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results" / "context.json"
TEXTS = (*sorted((ROOT / "spec").glob("*.md")), *sorted((ROOT / "docs").glob("*.md")))
GOAL_SECONDS = 2.0
GOAL_SHARE = 0.1
QUERIES = ("which error says that a budget is exceeded?", "how are secrets redacted", "leaf tokens of another map")
MAPS = ("openai/cl100k_base", "openai/o200k_base", "qwen/qwen2")


def events(count: int, chance: random.Random) -> Iterator[dict[str, Any]]:
    """Turns with calls, results and answers, in sentences of this project's own documents."""
    sentences = [line for text in TEXTS for line in text.read_text().splitlines() if len(line) > 30]

    def said(least: int, most: int) -> str:
        return " ".join(chance.choice(sentences) for _ in range(chance.randint(least, most)))

    yield {"id": "p", "type": "policy", "text": "Never send money without a second signature."}
    for turn in range(count // 10):
        user = f"u{turn}"
        yield {"id": user, "type": "user_turn", "text": said(1, 2)}
        for call in range(4):
            yield {"id": f"c{turn}.{call}", "type": "tool_call", "text": f"find({turn}, {call})", "parent_id": user}
            yield {"id": f"r{turn}.{call}", "type": "tool_result", "text": said(1, 8), "parent_id": f"c{turn}.{call}"}
        yield {"id": f"a{turn}", "type": "agent_msg", "text": said(1, 3), "parent_id": user}


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    done = work()
    return time.process_time() - start, done


def taken_in(file: Path) -> ContextManager:
    manager = ContextManager(map="openai/cl100k_base")
    for item in load_mcp_session_jsonl(file):
        manager.ingest(item)
    return manager


def measure_size(count: int, rounds: int) -> dict[str, float]:
    """Median seconds of the processor for a session of so many events."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "session.jsonl"
        with file.open("w") as out:
            out.writelines(json.dumps(event) + "\n" for event in events(count, random.Random(1)))
        found: dict[str, list[float]] = {"load and take in": [], "first pack": [], "next pack": []}
        for _ in range(rounds):
            seconds, manager = timed(lambda: taken_in(file))
            found["load and take in"].append(seconds)
            for name, query in zip(("first pack", "next pack", "next pack"), QUERIES, strict=True):
                seconds, pack = timed(lambda m=manager, q=query: m.build_sync(Phase.answer, q, 4000))  # type: ignore[misc]
                assert pack.tokens <= 4000
                found[name].append(seconds)
        return {name: statistics.median(each) for name, each in found.items()}


def with_leaf(event: dict[str, Any], encoder: Encoder) -> ContextItem:
    text = event["text"]
    leaf = LeafSpan(0, len(text), LeafPayload(encoder.map.digest, encoder.encode(text)))
    return ContextItem(event["id"], ItemKind(event["type"]), text, event.get("parent_id"), leaves=(leaf,))


def measure_share(name: str, packs: int) -> dict[str, float]:
    """How much of random packs was tokenized, when all items carry ids; and that the ids are the prompt's."""
    encoder, chance = MapFiles().load(name), random.Random(7)
    total = new = 0
    worst = 0.0
    for _ in range(packs):
        manager = ContextManager(map=name, check="decode")
        for event in events(chance.randint(30, 300), chance):
            manager.ingest(with_leaf(event, encoder))
        phase, budget = chance.choice(list(Phase)), chance.choice((500, 2000, 8000))
        pack = manager.build_sync(phase, chance.choice(QUERIES), budget)
        assert list(pack.ids or ()) == encoder.encode(pack.prompt)
        total += pack.tokens
        new += pack.tokenized.new
        worst = max(worst, pack.tokenized.new / pack.tokens)
    return {"packs": packs, "tokens": total, "new": new, "share": new / total, "worst": worst}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    quick = parser.parse_args().quick
    sizes = {count: measure_size(count, 1 if quick else 3) for count in (1_000, 10_000, 50_000)}
    print(f"{'events':>8} {'load and take in':>17} {'first pack':>11} {'next pack':>10}   seconds of the processor")
    for count, found in sizes.items():
        print(f"{count:>8} {found['load and take in']:>17.3f} {found['first pack']:>11.3f} {found['next pack']:>10.3f}")
    shares = {name: measure_share(name, 20 if quick else 200) for name in MAPS}
    print(f"\n{'map':20} {'packs':>6} {'tokens':>9} {'new':>7} {'share':>7} {'worst':>7}")
    for name, found in shares.items():
        print(
            f"{name:20} {found['packs']:>6} {found['tokens']:>9} {found['new']:>7} {found['share']:>7.1%} "
            f"{found['worst']:>7.1%}"
        )
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"seconds": sizes, "newly_tokenized": shares}, indent=1))
    whole = sizes[50_000]["load and take in"] + sizes[50_000]["first pack"]
    met = whole < GOAL_SECONDS and max(found["worst"] for found in shares.values()) < GOAL_SHARE
    told = f"50,000 events from the file to a pack in {GOAL_SECONDS} s, new tokens below {GOAL_SHARE:.0%}"
    print(f"\ngoals ({told}): {'met' if met else 'MISSED'}")


if __name__ == "__main__":
    main()
