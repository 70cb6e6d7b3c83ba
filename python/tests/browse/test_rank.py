"""Router: the whole catalog, exact names first, filters, limits, and the same answer everywhere."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from routing_catalog import SMALL, development_items, development_queries, tool

from leafgate.browse.query import parse_query
from leafgate.browse.rank import MAX_TOP_K, Evidence, Router, assess, build_mentions, fuse, lexical_share
from leafgate.catalog.catalog import Catalog
from leafgate.model.errors import RouteError

ROUTER = Router(SMALL)


def names(query: str, **filters: object) -> list[str]:
    return [candidate.item.upstream_name for candidate in ROUTER.route(query, **filters).candidates]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("list the files", "list_files"),
        ("rename a file", "move_file"),
        ("serach papres plz", "search_papers"),
        ("send someone an email", "sendMail"),
        ("weather", "weather"),
        ("what is the wether", "weather"),
    ],
)
def test_finds_the_tool(query: str, first: str) -> None:
    assert names(query)[0] == first


@pytest.mark.parametrize(
    "query",
    [
        "move_file",
        "MOVE_FILE",
        "list papers and files of github with move_file please",
        "run `move_file` on the papers",
        "disk:move_file#00000000",
        "what does disk:move_file#00000000 do with an issue, a paper and mail",
        "disk.move_file",
        "mcp__disk__move_file",
        "move_file()",
    ],
)
def test_an_exact_name_or_id_always_wins(query: str) -> None:
    result = ROUTER.route(query)
    assert result.candidates[0].item.upstream_name == "move_file"
    assert (result.signal, result.confidence) == ("ok", 1.0)


def test_every_tool_is_found_by_its_exact_name_and_id() -> None:
    router = Router(development_items())
    for item in development_items():
        assert router.route(item.id).candidates[0].item.id == item.id
        assert router.route(item.upstream_name).candidates[0].item.upstream_name == item.upstream_name


def test_an_everyday_word_is_a_name_only_when_it_stands_alone() -> None:
    assert names("use the echo tool")[0] == "echo"
    assert names("search papers about the echo of a sound")[0] == "search_papers"


def test_filters() -> None:
    assert names("create an issue", namespaces=["gitlab"]) == ["create_issue"]
    assert ROUTER.route("create an issue", namespaces=["gitlab"]).candidates[0].item.server == "gitlab"
    assert names("send mail", tags=["mail", "outgoing"]) == ["sendMail"]
    assert names("send mail", tags=["mail", "incoming"]) == []
    assert names("weather", kinds=["tool"]) != ["weather"]
    assert names("move_file", namespaces=["github"]) != ["move_file"]
    assert names("list files", namespaces=[]) == []


def test_ties_go_by_id_and_the_order_of_items_does_not_matter() -> None:
    twins = [tool("same", "The same words.", f"s{n}") for n in range(30)]
    for order in (twins, twins[::-1]):
        found = [c.item.id for c in Router(order).route("the same words", top_k=7).candidates]
        assert found == sorted(item.id for item in twins)[:7]


def test_top_k_is_honoured_and_bounded() -> None:
    router = Router(development_items())
    assert [len(router.route("list files in the page", top_k=k).candidates) for k in (1, 10, MAX_TOP_K)] == [1, 10, 50]
    for bad in (0, -1, MAX_TOP_K + 1):
        with pytest.raises(RouteError, match="top_k"):
            router.route("list", top_k=bad)


def test_a_tool_without_description_is_found_by_its_parameters() -> None:
    schema = {"type": "object", "properties": {"invoiceNumber": {"type": "string"}}}
    router = Router([*SMALL, tool("x1", args_schema=schema)], embedder=None)
    assert router.route("invoice number").candidates[0].item.upstream_name == "x1"


def test_takes_a_catalog() -> None:
    catalog = Catalog(development_items())
    assert Router(catalog).route("merge pull request 42").candidates[0].item.upstream_name == "merge_pull_request"


def test_an_empty_catalog_matches_nothing() -> None:
    assert Router([]).route("anything").signal == "no_match"
    assert Router([], embedder=None).route("anything").candidates == ()


@pytest.mark.parametrize("embedder", [False, True])
@pytest.mark.parametrize(
    "query",
    ["", " ", "\x00\x00", "\ud800", "?" * 1_000_000, "a" * 1_000_000, "list files " * 100_000, "'" * 1_000_000,
     "🙂🙃" * 250_000, "/a" * 500_000, "https://" * 100_000, "\u202eselif tsil", "<|endoftext|>", "[" * 1_000_000],
    ids=lambda query: repr(query[:10]),
)  # fmt: skip
def test_hostile_queries_are_answered_quickly(query: str, embedder: bool) -> None:
    router = ROUTER if embedder else Router(SMALL, embedder=None)
    began = time.process_time()
    result = router.route(query)
    assert time.process_time() - began < 2  # a millisecond at rest; the bound is for a busy machine
    assert all(0 <= candidate.score <= 2 for candidate in result.candidates)


def test_a_changed_catalog_reuses_what_it_can_and_answers_as_if_built_anew() -> None:
    items = development_items()
    before = Router(items[:200])
    changed = [*items[20:], tool("brand_new", "Does something nobody did.")]
    again, anew = Router(changed, earlier=before), Router(changed)
    for query in development_queries()[::7]:
        first, second = again.route(query["query"]), anew.route(query["query"])
        assert [c.item.id for c in first.candidates] == [c.item.id for c in second.candidates]
        assert first.confidence == second.confidence


def test_another_embedder_can_be_plugged_in() -> None:
    class Constant:
        version = "constant"

        def embed(self, texts: list[str]) -> np.ndarray:
            return np.array([[float("mail" in text.lower()), 0.5] for text in texts], np.float32).reshape(-1, 2)

    assert Router(SMALL, embedder=Constant()).route("mail").candidates[0].item.upstream_name == "sendMail"


SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from routing_catalog import development_items, development_queries
from leafgate.browse.rank import Router
router = Router(development_items())
print(json.dumps([[(c.item.id, c.score) for c in r.candidates] + [r.signal, r.confidence]
                  for r in (router.route(q["query"]) for q in development_queries())]))
"""


def test_two_processes_with_different_hash_seeds_agree_to_the_byte() -> None:
    def run(seed: str) -> bytes:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", SCRIPT, str(Path(__file__).parents[1])]
        return subprocess.run(command, env=environment, check=True, capture_output=True).stdout

    first = run("1")
    assert first == run("2")
    assert len(json.loads(first)) == len(development_queries())


CLEAR = Evidence(score=0.7, margin=0.2, coverage=1.0, size=300, exact=False, by_meaning=True)


def test_the_three_signals() -> None:
    assert assess(CLEAR)[1] == "ok"
    assert assess(replace(CLEAR, margin=0.0))[1] == "ambiguous"
    assert assess(replace(CLEAR, score=0.1, coverage=0.0))[1] == "no_match"


def test_a_name_is_certain() -> None:
    assert assess(replace(CLEAR, score=1.0, margin=0.0, coverage=0.0, exact=True)) == (1.0, "ok")


@pytest.mark.parametrize("size", [1, 10, 300, 10_000, 1_000_000])
def test_more_evidence_never_lowers_confidence(size: int) -> None:
    told = [
        assess(replace(CLEAR, score=score, coverage=found, size=size))[0]
        for found in (0, 0.5, 1)
        for score in (0, 0.3, 1)
    ]
    assert all(0 <= confidence <= 1 for confidence in told)
    assert told[0] <= told[1] <= told[2]
    assert told[0] <= told[3] <= told[6]


def test_the_best_of_many_must_be_better_than_the_best_of_few() -> None:
    weak = replace(CLEAR, score=0.25, coverage=0.4)
    assert assess(replace(weak, size=10_000))[0] < assess(replace(weak, size=10))[0]


def floats(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, np.float32)


def test_a_share_is_measured_against_the_query() -> None:
    assert lexical_share(floats(0, 2, 9), 4).tolist() == [0, 0.5, 1]
    assert lexical_share(floats(0, 0), 0).tolist() == [0, 0]


def test_without_meaning_words_decide() -> None:
    assert fuse(floats(0.2, 0.4), None).tolist() == floats(0.2, 0.4).tolist()


def test_scores_stay_between_0_and_1() -> None:
    assert fuse(floats(1, 0, 0), floats(1, -1, 0)).tolist() == [1, 0, 0]


def test_weak_words_give_way_to_meaning_and_strong_ones_do_not() -> None:
    weak, strong = fuse(floats(0.1, 0.0), floats(0.2, 0.5)), fuse(floats(0.9, 0.0), floats(0.2, 0.5))
    assert weak[1] > weak[0]
    assert strong[0] > strong[1]


ITEMS = (*SMALL, tool("Send Fax", server="Old Post"), tool("größe"), tool("ab.cd/ef"))
MENTIONS = build_mentions(ITEMS, frozenset(("echo", "weather", "send")).__contains__)


def mentions(query: str) -> set[str]:
    return {ITEMS[k].id.split("#")[0] for k in MENTIONS.find(parse_query(query))}


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("call move_file now", {"disk:move_file"}),
        ("create_issue", {"github:create_issue", "gitlab:create_issue"}),
        ("gitlab.create_issue", {"gitlab:create_issue"}),
        ("gitlab/create_issue please", {"gitlab:create_issue"}),
        ("mcp__gitlab__create_issue", {"gitlab:create_issue"}),
        ("gitlab:create_issue#00000000?", {"gitlab:create_issue"}),
        ("nowhere.create_issue", set()),
        ("SENDMAIL", {"post:sendMail"}),
        ("please send fax to Bob", {"Old Post:Send Fax"}),
        ("größe", {"box:größe"}),
        ("run ab.cd/ef", {"box:ab.cd/ef"}),
        ("the echo of a sound", set()),
        ("use the echo tool", {"toys:echo"}),
        ("what does `echo` do with this text", {"toys:echo"}),
        ("weather", {"sky:weather"}),
        ("", set()),
    ],
)
def test_names_are_found(query: str, ids: set[str]) -> None:
    assert mentions(query) == ids
