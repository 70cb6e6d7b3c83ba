"""`leafgate route` and `leafgate eval` as a user runs them."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from routing_catalog import DATA

from leafgate.cli.routing import evaluate, route
from leafgate.model.errors import ConfigError

CATALOG = str(DATA / "dev_catalog.json")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def run(command: Any, *arguments: str) -> str:
    result = CliRunner().invoke(command, arguments)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_route_as_json(tmp_path: Path) -> None:
    found = json.loads(run(route, "merge pull request 42", "--catalog", CATALOG, "--top-k", "3", "--json"))
    assert list(found) == ["query", "signal", "confidence", "candidates"]
    assert len(found["candidates"]) == 3
    assert list(found["candidates"][0]) == ["id", "server", "name", "score"]
    assert (found["candidates"][0]["server"], found["candidates"][0]["name"]) == ("github-ref", "merge_pull_request")
    assert list((tmp_path / "cache" / "leafgate" / "index").iterdir())


def test_route_for_people() -> None:
    text = run(route, "bake sourdough bread", "--catalog", CATALOG, "--top-k", "2", "--no-cache")
    assert "no_match" in text


def test_eval_has_exactly_its_keys(tmp_path: Path) -> None:
    gold = tmp_path / "gold.jsonl"
    rows = (DATA / "dev_queries.jsonl").read_text().splitlines()[:40]
    gold.write_text("\n".join([*rows, json.dumps({"query": "bake bread", "relevant": []}), ""]))
    found = json.loads(run(evaluate, "--catalog", CATALOG, "--gold", str(gold), "--json"))
    assert list(found) == [
        "n", "hit@1", "hit@3", "hit@5", "hit@10", "recall@5", "mrr", "ndcg@10", "p50_ms", "p99_ms",
        "no_match_recall@5fa", "styles",
    ]  # fmt: skip
    assert found["n"] == 40
    assert set(found["styles"]) == {"literal", "paraphrase"}
    assert "literal" in run(evaluate, "--catalog", CATALOG, "--gold", str(gold))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON"),
        ("[]", "query"),
        ('{"query": 1, "relevant": []}', "query"),
        ('{"query": "x"}', "relevant"),
        ('{"query": "x", "relevant": [["a"]]}', "relevant"),
        ('{"query": "x", "relevant": [["a", 1]]}', "relevant"),
        ('{"query": "x", "relevant": [], "style": 3}', "style"),
        ('{"query": "x", "relevant": [["git", "no_such_tool"]]}', "no_such_tool"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    gold = tmp_path / "gold.jsonl"
    gold.write_text('{"query": "x", "relevant": []}\n\n' + line + "\n")
    with pytest.raises(ConfigError, match=said) as caught:
        run(evaluate, "--catalog", CATALOG, "--gold", str(gold), "--json")
    assert str(caught.value).startswith(f"{gold}:3: ")


def test_bad_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.jsonl"):
        run(evaluate, "--catalog", CATALOG, "--gold", str(tmp_path / "missing.jsonl"))
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(ConfigError, match="no query"):
        run(evaluate, "--catalog", CATALOG, "--gold", str(tmp_path / "empty.jsonl"))
    (tmp_path / "catalog.json").write_text("{")
    with pytest.raises(ConfigError, match=r"catalog\.json"):
        run(route, "x", "--catalog", str(tmp_path / "catalog.json"))
