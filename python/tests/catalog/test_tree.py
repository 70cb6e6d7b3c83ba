"""The tree: every item once, few children a node, readable clusters, quick at size."""

from __future__ import annotations

import random
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leafgate.catalog.intake import intake
from leafgate.catalog.tree import MAX_CHILDREN, Leaf, Node, Tree, build_tree
from leafgate.model.tool import SelectableItem

GITHUB = """create_or_update_file search_repositories create_repository get_file_contents push_files create_issue
create_pull_request fork_repository create_branch list_commits list_issues update_issue add_issue_comment search_code
search_issues search_users get_issue get_pull_request list_pull_requests create_pull_request_review merge_pull_request
get_pull_request_files get_pull_request_status update_pull_request_branch"""
KUBERNETES = """pods_delete pods_exec pods_get pods_list pods_log pods_run nodes_log nodes_top resources_get
resources_list events_list"""

WORDS = "get list issue issues file user pull request of other a x1 日本"
VERB_LIST = "get list create delete update search run send"
NOUN_LIST = """invoice order customer payment ticket report user account project task file folder message channel table
row column job pipeline build artifact secret key token policy rule alert metric dashboard chart event log trace span
host pod node cluster volume bucket object image video track album artist playlist"""


def items(names: str | list[str], server: str = "srv", description: str = "") -> list[SelectableItem]:
    listed = names.split() if isinstance(names, str) else names
    return intake([{"name": name, "description": description or name} for name in listed], server=server)[0]


def check(tree: Tree, given_items: list[SelectableItem]) -> None:
    leaves = [found for found in tree.by_path.values() if isinstance(found, Leaf)]
    assert sorted(leaf.item.id for leaf in leaves) == sorted(item.id for item in given_items)
    for path, found in tree.by_path.items():
        assert re.fullmatch(r"/|/[a-z][a-z0-9_-]{0,63}(/[a-z0-9][a-z0-9_-]{0,63})*", path)
        assert found.path == path
        if isinstance(found, Node):
            assert path == "/" or len(found.children) <= MAX_CHILDREN
            assert found.size == sum(child.size if isinstance(child, Node) else 1 for child in found.children.values())
            for segment, child in found.children.items():
                assert tree.by_path[f"{path.rstrip('/')}/{segment}"] is child


def children(tree: Tree, path: str) -> list[str]:
    node = tree.by_path[path]
    assert isinstance(node, Node)
    return list(node.children)


def test_clusters_are_what_tools_are_about() -> None:
    tree = build_tree(items(GITHUB, "github") + items(KUBERNETES, "kubernetes"))
    assert children(tree, "/") == ["github", "kubernetes"]
    assert {"issues", "pull-requests", "repositories", "files"} <= set(children(tree, "/github"))
    assert set(children(tree, "/github/issues")) == {name for name in GITHUB.split() if "issue" in name}
    assert {"pods", "nodes", "resources"} <= set(children(tree, "/kubernetes"))
    assert isinstance(tree.by_path["/github/issues/create_issue"], Leaf)


def test_a_description_places_what_a_name_does_not() -> None:
    given_items = items(GITHUB, "github")
    [odd] = items(["mystery"], "github", "Does something to an issue.")
    assert "mystery" in children(build_tree([*given_items, odd]), "/github/issues")


def test_a_shared_prefix_is_no_topic() -> None:
    names = [f"acme_{verb}_{noun}" for verb in ("get", "list", "delete") for noun in ("user", "order", "invoice")]
    assert children(build_tree(items(names)), "/srv") == ["invoice", "order", "user"]


def test_a_few_tools_are_listed_as_they_are() -> None:
    assert children(build_tree(items("get_issue list_issues get_user")), "/srv") == [
        "get_issue",
        "get_user",
        "list_issues",
    ]


def test_segments_that_would_collide() -> None:
    given_items = items(["Get", "get", "GET", "ge t", "日本", "天気", "_x", "--"])
    check(build_tree(given_items), given_items)


def test_order_of_items_does_not_matter() -> None:
    given_items = items(GITHUB)
    assert list(build_tree(given_items).by_path) == list(build_tree(given_items[::-1]).by_path)


def test_a_tree_cannot_be_changed() -> None:
    tree = build_tree(items(GITHUB))
    with pytest.raises(TypeError):
        tree.by_path["/x"] = tree.root  # type: ignore[index]


def test_nothing_makes_an_empty_root() -> None:
    assert children(build_tree([]), "/") == []


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30) | st.lists(
    st.sampled_from(
        ["get", "list", "issue", "issues", "file", "user", "pull", "request", "of", "other", "a", "x1", "日本"]
    ),
    min_size=1,
    max_size=5,
).map("_".join)


@given(st.lists(NAMES, max_size=120, unique=True), st.sampled_from([None, "srv"]))
@settings(max_examples=80, deadline=None)
def test_every_item_hangs_at_exactly_one_path(names: list[str], server: str | None) -> None:
    given_items = intake([{"name": name} for name in names], server=server)[0]
    check(build_tree(given_items), given_items)


def shuffled(make: Any) -> list[str]:
    chance = random.Random(7)
    return list(dict.fromkeys(make(chance, index) for index in range(10_000)))


@pytest.mark.parametrize(
    "make",
    [
        lambda chance, index: f"{chance.choice(VERBS)}_{chance.choice(NOUNS)}_{chance.choice(NOUNS)}_{index}",
        lambda chance, index: f"tool_{index}",
        lambda chance, index: "".join(chance.choice("abcXYZ19_") for _ in range(40)),
        lambda chance, index: "x" * (index % 3_000 + 1),
        lambda chance, index: f"issue_{'_'.join(chance.sample(NOUNS, 9))}",
    ],
    ids=["words", "numbers", "noise", "one letter", "deep"],
)
def test_ten_thousand_tools_are_quick(make: Any) -> None:
    given_items = items(shuffled(make))
    began = time.process_time()
    tree = build_tree(given_items)
    assert time.process_time() - began < 6  # 0.3 to 0.5 s on an idle core; this says that nothing is quadratic
    check(tree, given_items)


VERBS = VERB_LIST.split()
NOUNS = NOUN_LIST.split()
