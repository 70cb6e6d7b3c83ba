"""Generated texts: both languages give the same ids, and take them back to the same text. Seeded, so they are the same
texts every time."""

from __future__ import annotations

import json
import random
from functools import partial
from typing import Any

import pytest
from implementations import IMPLEMENTATIONS, MAPS, as_line, at_once
from nasty_texts import nasty_texts, very_long_texts

from leafgate.maps.files import MapFiles
from leafgate.model.errors import TextError
from leafgate.tokens.normalize import normalize
from leafgate.tokens.token_map import TokenMap

SEED = 20261116
COUNT = 2500
MUTATIONS = 1000


def same(command: str, lines: list[str], map_id: str, **options: str) -> list[dict[str, Any]]:
    """Python's answers, after comparing Node's with them."""
    raw = [line.encode() for line in lines]
    given = at_once(*(partial(each.answer_raw, command, raw, map_id, options) for each in IMPLEMENTATIONS))
    python, node = ([json.loads(answer) for answer in answers] for answers in given)
    different = [
        (line[:400], ours, theirs)
        for line, ours, theirs in zip(lines, python, node, strict=True)
        if {**ours, "message": ""} != {**theirs, "message": ""}
    ]
    assert different[:3] == [], f"{len(different)} of {len(lines)} answers differ"
    return python


@pytest.mark.parametrize("map_id", MAPS)
def test_encode_and_back(map_id: str) -> None:
    texts = nasty_texts(SEED, COUNT) + very_long_texts()
    encoded = same("encode", [as_line({"text": text}) for text in texts], map_id)
    refused = {text for text, answer in zip(texts, encoded, strict=True) if "ids" not in answer}
    token_map = MapFiles().load(map_id).map
    assert all(may_be_refused(token_map, text) for text in refused)
    pairs = [(text, answer["ids"]) for text, answer in zip(texts, encoded, strict=True) if "ids" in answer]
    assert len(pairs) >= COUNT * (0.9 if token_map.normalizer else 1)
    decoded = same("decode", [as_line({"ids": ids}) for _, ids in pairs], map_id)
    assert [answer.get("text") for answer in decoded] == [normalize(token_map, text) for text, _ in pairs]


def may_be_refused(token_map: TokenMap, text: str) -> bool:
    """Has the text no tokenization: a metaspace map would not give it back, or it cannot be normalized?"""
    try:
        normalize(token_map, text)
    except TextError:
        return True
    return token_map.kind == "metaspace" and "▁" in text


@pytest.mark.parametrize("map_id", ["openai/o200k_base", "qwen/qwen2", "toy-metaspace"])
def test_a_megabyte_of_one_character(map_id: str) -> None:
    """No input is quadratic: one that were would run into the processes' time limit."""
    texts = [unit * (2**20 // len(unit.encode())) for unit in ("a", " ", "7")]
    same("encode", [as_line({"text": text}) for text in texts], map_id)


def mutate(r: random.Random, text: str, ids: list[Any]) -> tuple[str, list[Any]]:
    """One small harm to a right answer, which now and then leaves it right."""
    at = r.randrange(len(ids))
    harms = (
        lambda: (text, [*ids[:at], ids[at] + r.choice((-1, 1, 256)), *ids[at + 1 :]]),
        lambda: (text, [*ids[:at], r.choice(STRANGE), *ids[at + 1 :]]),
        lambda: (text, ids[:at] + ids[at + 1 :]),
        lambda: (text, [*ids[:at], ids[at], *ids[at:]]),
        lambda: (text, ids[:at] + ids[at:][::-1]),
        lambda: (text, [*ids, *r.choice(([0], [97], ids))]),
        lambda: (text[:at] + text[at + 1 :], ids),
        lambda: (text[:at] + r.choice("a \n\u00e9▁") + text[at:], ids),
        lambda: (text.swapcase(), ids),
        lambda: (text, []),
        lambda: ("", ids),
        lambda: (text, ids),
        lambda: (text, [b for char in text.encode() for b in [char]]),
    )
    return r.choice(harms)()


STRANGE = (-1, 0, 1, True, False, None, "97", 97.5, [], {}, 2**32 - 1, 2**32, 2**53, 300, 320, 50256, 100257, 100261,
           100276, 151643, 151645, 151665, 199999, 200018, 200019, -(2**31))  # fmt: skip


@pytest.mark.parametrize("map_id", MAPS)
def test_harmed_ids_are_judged_alike(map_id: str) -> None:
    r = random.Random(SEED)
    texts = [text for text in nasty_texts(SEED + 1, MUTATIONS) if "▁" not in text]
    encoded = IMPLEMENTATIONS[0].answer("encode", [as_line({"text": text}) for text in texts], map_id)
    pairs = [(text, answer["ids"]) for text, answer in zip(texts, encoded, strict=True) if answer.get("ids")]
    harmed = [mutate(r, text, ids) for text, ids in pairs]
    lines = [as_line({"text": text, "ids": ids}) for text, ids in harmed]
    by_level = {level: same("check", lines, map_id, level=level) for level in ("decode", "canonical")}
    made = IMPLEMENTATIONS[0].answer("encode", [as_line({"text": text}) for text, _ in harmed], map_id)
    right = {as_line({"text": text, "ids": m.get("ids")}) for (text, _), m in zip(harmed, made, strict=True)}
    for line, verdict in zip(lines, by_level["canonical"], strict=True):
        empty = json.loads(line)["text"] == ""
        assert (verdict["verdict"] == "accept") == (line in right and not empty), line[:300]
    accepted_at_decode = sum(answer["verdict"] == "accept" for answer in by_level["decode"])
    accepted = sum(answer["verdict"] == "accept" for answer in by_level["canonical"])
    assert 0 < accepted <= accepted_at_decode < len(lines)
