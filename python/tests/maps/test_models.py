"""The table of models: names as they are written, and what errors suggest. The names are those of shared-fixtures/."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tiktoken.model import MODEL_PREFIX_TO_ENCODING, MODEL_TO_ENCODING, encoding_name_for_model

from leafgate.maps.files import MapFiles
from leafgate.maps.models import edit_distance, known_models, words_of
from leafgate.model.errors import MapInvalidError, MapUnreachableError

ROOT = Path(__file__).resolve().parents[3]
CASES = json.loads((ROOT / "shared-fixtures/models/names.json").read_text(encoding="utf-8"))["cases"]
MODELS = known_models()


def answer(model: str) -> dict[str, Any]:
    family = MODELS.family_of(model)
    if family is None:
        return {"family": None, "map": None, "nearest": MODELS.nearest(model, ())}
    return {"family": family.name, "map": family.map}


OPENAI = {"p50k_edit": "openai/p50k_base", "gpt2": "openai/r50k_base", "o200k_harmony": "openai/o200k_base"}


@pytest.mark.parametrize(
    "name", [*MODEL_TO_ENCODING, *(f"{prefix.rstrip('-')}-preview" for prefix in MODEL_PREFIX_TO_ENCODING)]
)
def test_models_of_openai_are_as_tiktoken_says(name: str) -> None:
    """`p50k_edit` and `o200k_harmony` differ from the others in special tokens alone."""
    encoding = encoding_name_for_model(name)
    family = MODELS.family_of(name)
    assert family is not None
    assert family.map == OPENAI.get(encoding, f"openai/{encoding}")


def test_there_are_many_names() -> None:
    assert len(CASES) > 150


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_name_is_of_its_family(case: dict[str, Any]) -> None:
    assert answer(case["input"]["model"]) == case["expect"]


def test_the_table_is_whole() -> None:
    for family in MODELS.families:
        assert (family.map is None) != (family.no_map is None)
        assert family.map is None or family.map in MODELS.maps
        for example in family.examples:
            assert MODELS.family_of(example) is family
        # A pattern that another one hides is of no use.
        assert [
            text for text in family.match if " " not in text and MODELS.family_of(text.strip("^")) is not family
        ] == []
    assert {family.map for family in MODELS.families} - {None} == set(MODELS.maps)


def test_words() -> None:
    assert words_of("Qwen/Qwen2.5-1.5B_GGUF") == ["qwen", "/", "qwen", "2", "5", "1_5b", "gguf"]
    assert words_of("8x7B ·é 0.5m 1.5bit") == ["8x", "7b", "0_5m", "1", "5bit"]
    assert (edit_distance("", "abc"), edit_distance("gtp", "gpt"), edit_distance("abc", "abc")) == (3, 2, 0)


def test_a_map_by_model() -> None:
    files = MapFiles()
    assert files.find("model:qwen3:8b").id == "qwen/qwen3"
    assert files.load("model:Qwen/Qwen3-8B") is files.load("qwen/qwen3")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("model:claude-opus-4.5", "no map for 'model:claude-opus-4.5': Anthropic has published no tokenizer"),
        ("model:lama3", "no model 'model:lama3' in the table; did you mean llama3? If its tokenizer.json is public"),
        ("model:my-finetune", "no model 'model:my-finetune' in the table; if its tokenizer.json is public"),
        ("gpt-5", "no map 'gpt-5'; model:gpt-5 is the map of that model, openai/o200k_base. Known maps: "),
        ("qwen/qwen22", "no map 'qwen/qwen22'; did you mean qwen/qwen2? Known maps: "),
        ("lama3", "no map 'lama3'; did you mean model:llama3? Known maps: "),
        ("no/such", "no map 'no/such'. Known maps: "),
    ],
)
def test_what_errors_suggest(name: str, said: str) -> None:
    with pytest.raises(MapUnreachableError) as caught:
        MapFiles().find(name)
    assert str(caught.value).startswith(said)


def test_how_a_missing_map_is_built() -> None:
    with pytest.raises(MapUnreachableError) as caught:
        MapFiles().find("model:mixtral:8x7b")
    assert str(caught.value) == (
        "model:mixtral:8x7b: its map mistral/v1 is not installed; to build it: "
        "pip install --no-deps --target packages mistral-common==1.13.1; "
        "leafgate maps build packages/mistral_common/data/tokenizer.model.v1 --id mistral/v1 --out v1.json; "
        "leafgate maps add v1.json"
    )
    steps = MODELS.maps["openai/p50k_base"].build_steps("openai/p50k_base", "leafgate")
    assert steps[1].endswith("--pattern gpt2 --special '<|endoftext|>=50256' --out p50k_base.json")


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({"version": "1.0", "model": {"type": "BPE"}}, "a Hugging Face tokenizer.json"),
        ({"pat_str": "", "bpe_ranks": ""}, "a tiktoken file"),
        ({"config": {}, "vocab": []}, "a tekken.json"),
    ],
)
def test_a_tokenizers_own_file_is_not_a_map(document: dict[str, Any], kind: str, tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(document))
    with pytest.raises(MapInvalidError, match=f"{kind}, not a map; build a map of it: leafgate maps build"):
        MapFiles().load(str(file))


def test_the_page_is_made_from_the_table() -> None:
    made = subprocess.run([sys.executable, ROOT / "maps/models_page.py"], capture_output=True, text=True, check=True)
    assert (ROOT / "docs/models.md").read_text(encoding="utf-8") == made.stdout
