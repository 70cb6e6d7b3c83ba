"""Maps of the small tokenizers in shared-fixtures/build-map, which Node builds too: digests, notes and refusals."""

from __future__ import annotations

import base64
import copy
import json
from pathlib import Path
from typing import Any

import pytest

from leafgate.model.errors import MapInvalidError
from leafgate.tokens.encoder import make_encoder
from leafgate.tokens.equal_maps import ids_digest
from leafgate.tokens.map_building import PATTERNS, with_choices, write_map
from leafgate.tokens.token_map import read_map
from leafgate.tokens.tokenizer_files import read_tokenizer

FOLDER = Path(__file__).resolve().parents[3] / "shared-fixtures" / "build-map"
BUILD, REFUSE = (
    json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["cases"] for name in ("build", "refuse")
)
EVERY: dict[str, dict[str, Any]] = {case["name"]: case for case in (*BUILD, *REFUSE)}


def document(source: dict[str, Any]) -> Any:
    if "like" not in source:
        return source["json"]
    found = copy.deepcopy(document(EVERY[source["like"]]["input"]))
    for path, value in source.get("set", {}).items():
        *names, last = path.split(".")
        place = found
        for name in names:
            place = place[name]
        place[last] = value
    return found


def raw_of(source: dict[str, Any]) -> bytes:
    if "base64" in source:
        return base64.b64decode(source["base64"])
    text: str = source["text"] if "text" in source else json.dumps(document(source), ensure_ascii=False)
    return text.encode()


def build(source: dict[str, Any]) -> dict[str, Any]:
    options = source.get("options", {})
    parts = with_choices(
        read_tokenizer(raw_of(source), where="x"),
        pattern=PATTERNS.get(options.get("pattern"), options.get("pattern")),
        specials=options.get("specials", {}),
        normalizer=options.get("normalizer"),
    )
    raw = write_map(parts, id="me/mine")
    token_map = read_map(raw, where="x")
    make_encoder(token_map)
    facts = {"map_id": token_map.digest, "ids_digest": ids_digest(token_map)}
    return {**facts, "bytes": len(raw), "notes": list(parts.notes)}


@pytest.mark.parametrize("case", BUILD, ids=lambda case: case["name"])
def test_build(case: dict[str, Any]) -> None:
    assert build(case["input"]) == case["expect"]


# The command line asks for a pattern where a file has none (python/tests/cli/test_cli_maps.py).
@pytest.mark.parametrize("case", [case for case in REFUSE if "--pattern" not in case["expect"]["error"]],
                         ids=lambda case: case["name"])  # fmt: skip
def test_refuse(case: dict[str, Any]) -> None:
    with pytest.raises(MapInvalidError) as refused:
        build(case["input"])
    assert str(refused.value).startswith(case["expect"]["error"])
