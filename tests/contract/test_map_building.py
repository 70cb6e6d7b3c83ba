"""`maps build` of both languages on trained and damaged tokenizers: the same bytes and facts, or the same reason."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from implementations import ROOT, at_once
from nasty_texts import nasty_texts
from warm_python import PYTHON

from leafgate.tokens.map_building import PATTERNS

SEEDS = range(12)
COMMANDS = {
    "python": [PYTHON, str(ROOT / ".venv/bin/leafgate"), "maps"],
    "node": ["node", str(ROOT / "typescript/dist/src/cli.js"), "maps"],
}


def trained(chance: random.Random) -> dict[str, Any]:
    """A tokenizer of the other library, trained on nasty texts, with a way of splitting by chance."""
    pre, tokenizer = tokenizers.pre_tokenizers, tokenizers.Tokenizer(tokenizers.models.BPE())
    alone = pre.ByteLevel(add_prefix_space=False, use_regex=chance.random() < 0.5)
    pattern = tokenizers.Regex(chance.choice([*PATTERNS.values(), r"\p{L}+", r"[\s\S]{1,7}"]))
    splits = [pre.Split(pattern, "isolated"), pre.Digits(individual_digits=chance.random() < 0.5)]
    tokenizer.pre_tokenizer = pre.Sequence([*chance.sample(splits, chance.randint(1, 2)), alone])
    if chance.random() < 0.4:
        tokenizer.normalizer = chance.choice([tokenizers.normalizers.NFC(), tokenizers.normalizers.NFKC()])
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=chance.randint(300, 900), special_tokens=["<first>", "<last>"], show_progress=False,
        initial_alphabet=sorted(pre.ByteLevel.alphabet()),
    )  # fmt: skip
    tokenizer.train_from_iterator(nasty_texts(chance.randrange(1000), 300), trainer)
    tokenizer.add_tokens([tokenizers.AddedToken("\t " * chance.randint(2, 9), normalized=False), "<tool>"])
    document: dict[str, Any] = json.loads(tokenizer.to_str())
    model = document["model"]
    if chance.random() < 0.4:  # ids that do not follow the merges
        ids = chance.sample(range(2, 5_000), len(model["vocab"]) + len(document["added_tokens"]))
        model["vocab"] = {token: ids[id] for token, id in model["vocab"].items()}
        for row in document["added_tokens"]:
            row["id"] = ids[row["id"]]
    return document


def damaged(document: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """The tokenizer with one merge, token or field changed."""
    model = document["model"]
    place = chance.randrange(len(model["merges"]))
    token = chance.choice([*model["vocab"]])
    chance.choice([
        lambda: model["merges"].pop(place),
        lambda: model["merges"].insert(0, model["merges"].pop(place)),
        lambda: model["vocab"].pop(token),
        lambda: model.update(ignore_merges=True),
        lambda: model["vocab"].update({token: 3}),
        lambda: document.update(normalizer={"type": "Lowercase"}),
        lambda: document["added_tokens"][-1].update(content=token, normalized=True),
    ])()  # fmt: skip
    return document


def build(language: str, source: Path) -> tuple[int, Any, bytes]:
    target = source.with_suffix(f".{language}")
    command = [*COMMANDS[language], "build", str(source), "--id", "me/mine", "--out", str(target), "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if ran.returncode:
        return 1, reason_of(ran.stderr, source), b""
    return 0, {**json.loads(ran.stdout), "file": ""}, target.read_bytes()


def reason_of(errors: str, source: Path) -> str:
    """The reason, without the names of the program and of the file."""
    return errors.splitlines()[0].partition(": ")[2].removeprefix(f"{source}: ")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_bytes_or_the_same_reason(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    document = trained(chance)
    for kind in ("whole", "damaged"):
        source = tmp_path / f"{kind}.json"
        source.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
        python, node = at_once(lambda path=source: build("python", path), lambda path=source: build("node", path))
        assert python == node
        document = damaged(document, chance)


def test_both_check_against_the_engine_in_the_same_words(tmp_path: Path) -> None:
    document = trained(random.Random(1))
    source = tmp_path / "tokenizer.json"
    source.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    map_file = str(tmp_path / "map.json")
    subprocess.run([*COMMANDS["node"], "build", str(source), "--id", "a/b", "-o", map_file], check=True)
    for which, differs in ((map_file, False), ("qwen/qwen2", True)):
        answers = []
        for command in COMMANDS.values():
            line = [*command, "check", which, "--against", str(source), "--json"]
            ran = subprocess.run(line, capture_output=True, text=True, cwd=ROOT / "typescript", check=False)
            assert ran.returncode == differs, ran.stderr
            answers.append({name: value for name, value in json.loads(ran.stdout).items() if name != "accelerated"})
            answers[-1]["compared"].pop("against")  # the versions of the engine's packages differ
        assert answers[0] == answers[1]
        assert (answers[0]["compared"]["differences"] > 0) == differs
