"""The section on instructions in foreign text: what the classifier finds, on sources that it was not trained on.

    .venv/bin/python bench/security/instructions.py

Two kinds of rows. *Left out*: recorded by `python/research/instructions/train.py`, each source scored by a model that
was trained without it; the data are not in the repository. *Measured now*: the shipped model on the files of the tests.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from leafgate.catalog.scan import scan_definition
from leafgate.clean.instructions import judge_text

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

from section import Section  # noqa: E402  a module of this folder

FIGURES = ROOT / "python" / "research" / "instructions" / "figures.json"
DATA = ROOT / "python" / "tests" / "data"
TEXT_BYTES = 4_096
ROUNDS = 30


def measure() -> Section:
    """Return recall at 0.5 % and 1 % false alarms, by source and by language, and false alarms by source."""
    figures = json.loads(FIGURES.read_text("utf-8"))
    rows = [*_recalls(figures["attacks"], "attacks"), *_recalls(figures["languages"], "language")]
    for place, sources in figures["benign"].items():
        rows += [
            (f"benign, left out: {name} ({place})", str(count), _share(alarms, count), "")
            for name, (alarms, count) in sources.items()
        ]
    curve = "; ".join(
        f"{place}s: " + ", ".join(f"{float(each['false_alarms']):.1%}: {each['recall']:.0%}" for each in points)
        for place, points in figures["curve"].items()
    )
    return Section(
        "Instructions in foreign text",
        "Attacks are definitions of tools and texts (results, resources, prompts). Left out: the model was trained "
        "without this source; for languages, without the goal of the attack in any language; for texts from software, "
        "without this package. The thresholds are set at 0.5 % and 1 % of the definitions of MCP servers and of "
        "ordinary texts, all left out too. Benign rows show false alarms at the shipped threshold. The rows hand, "
        "other_hands and author_1 to author_3 were written one by one by five authors; the model of a row has read "
        "nothing by its author.",
        ("source", "items", "at 0.5 % false alarms", "at 1 %"),
        (*rows, *_shipped()),
        (
            f"Recall by rate of false alarms, all attacks together: {curve}.",
            "Not caught: most attacks in an indirect voice (the rows grammar_whole and own_attacks_round_3), such as a "
            "parameter that asks for something private in the words of an honest one. A twin of another server's tool "
            "whose text is unchanged (two of the five attacks of MSB) says nothing suspicious: it is reported as a "
            "twin, not flagged, if the other server is connected too.",
            "Prompts for agents and texts about attacks set no threshold: see agent_prompts and security_docs. "
            "Nor do the honest passages of other_hands and author_1 to author_3, which were written to resemble "
            "attacks, and strings in the source of servers that are not definitions (server_sources).",
            "The static embedding has English word pieces only. Other languages are carried by lists of words for each "
            "subject, and by hashed words.",
            "The grammar was written by the authors of the classifier: rows grammar_* are an upper bound.",
            "The rows by an author of no other row are the best guess for attacks in new wording; their benign texts "
            "were written to resemble attacks.",
            _cost(),
        ),
    )


def _recalls(group: Mapping[str, Mapping[str, Any]], kind: str) -> list[tuple[str, str, str, str]]:
    return [
        (
            f"{kind}, left out: {name}",
            str(row["count"]),
            _share(row["0.005"], row["count"]),
            _share(row["0.01"], row["count"]),
        )
        for name, row in group.items()
    ]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}"


def _shipped() -> list[tuple[str, str, str, str]]:
    attacks = [json.loads(line) for line in (DATA / "firewall/attacks.jsonl").read_text("utf-8").splitlines()]
    groups: dict[str, list[bool]] = {}
    for each in attacks:
        group = "never trained on" if each.get("held_out") == 3 else "trained on"
        groups.setdefault(f"measured now: definitions of attacks.jsonl, {group}", []).append(
            scan_definition(each["tool"], each.get("others", ())).flagged
        )
    catalog = [entry["tool"] for entry in json.loads((DATA / "routing/dev_catalog.json").read_text("utf-8"))]
    tools = [json.loads(line) for line in (DATA / "firewall/benign_tools.jsonl").read_text("utf-8").splitlines()]
    for name, definitions in (("dev_catalog", catalog), ("benign_tools.jsonl", tools)):
        groups[f"measured now: false alarms, {name}, trained on"] = [
            scan_definition(each).flagged for each in definitions
        ]
    unseen = (HERE / "data/instructions_unseen.jsonl").read_text("utf-8").splitlines()
    for each in map(json.loads, unseen):
        group = f"measured now: by an author of no other row, never trained on, {each['label']} ({each['place']})"
        groups.setdefault(group, []).append(judge_text(each["text"], each["place"]).is_flagged)
    return [(name, str(len(hits)), _share(sum(hits), len(hits)), "") for name, hits in groups.items()]


def _cost() -> str:
    texts = [file.read_text("utf-8")[:TEXT_BYTES] for file in sorted((ROOT / "docs").glob("*.md"))]
    times: list[float] = []
    for text in texts:
        judge_text(text)
        rounds = []
        for _ in range(ROUNDS):
            started = time.perf_counter()
            judge_text(text)
            rounds.append(time.perf_counter() - started)
        times.append(min(rounds) * 1_000)
    return (
        f"Time for {TEXT_BYTES} characters of this documentation, words seen before: median {median(times):.2f} ms, "
        f"highest {max(times):.2f} ms."
    )


if __name__ == "__main__":
    section = measure()
    print(section.title, section.method, sep="\n")
    for line in (section.headers, *section.rows):
        print(" | ".join(line))
    for note in section.notes:
        print("-", note)
