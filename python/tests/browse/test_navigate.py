"""Paths: the grammar, what is listed, and the way back from a wrong one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leafgate.browse.cards import render_card
from leafgate.browse.navigate import list_path
from leafgate.catalog.intake import intake
from leafgate.catalog.tree import Leaf, build_tree
from leafgate.maps.files import MapFiles
from leafgate.model.errors import GatewayError

CL100K = MapFiles().load("openai/cl100k_base")
NAMES = [
    "create_issue",
    "list_issues",
    "get_issue",
    "create_pull_request",
    "list_pull_requests",
    "get_pull_request",
    "search_users",
]
TREE = build_tree(
    [
        item
        for server in ("github", "gitlab", "x-7zip")
        for item in intake([{"name": name, "description": name} for name in NAMES], server=server)[0]
    ]
)


def listed(path: str) -> list[str]:
    return [card.id.partition("#")[0] for card in list_path(TREE, path)]


def failure(path: Any) -> tuple[str, str]:
    with pytest.raises(GatewayError) as caught:
        list_path(TREE, path)
    return caught.value.code, caught.value.body.details["nearest"]


@pytest.mark.parametrize("path", ["/", "/*"])
def test_the_root_has_a_node_for_each_namespace(path: str) -> None:
    assert listed(path) == ["/github", "/gitlab", "/x-7zip"]


def test_nodes_say_their_path_and_what_they_hold() -> None:
    [node, *_] = list_path(TREE, "/")
    assert (node.kind, node.id, node.namespace, node.has_schema) == ("internal", "/github", "github", False)
    assert render_card(node) == "/github — 7 tools: issues, pull-requests, search_users"
    assert listed("/github") == ["/github/issues", "/github/pull-requests", "github:search_users"]


@pytest.mark.parametrize("path", ["/github/issues", "/github/issues/*"])
def test_a_cluster_lists_its_leaves(path: str) -> None:
    assert listed(path) == ["github:create_issue", "github:get_issue", "github:list_issues"]


def test_a_leaf_is_one_card() -> None:
    assert listed("/github/issues/create_issue") == ["github:create_issue"]


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ("", "/"),
        ("github", "/github"),
        ("/github/", "/github"),
        ("//github", "/github"),
        ("/github//issues", "/github/issues"),
        ("/GitHub", "/github"),
        ("/github/Issues/create_issue", "/github/issues/create_issue"),
        ("/7zip", "/x-7zip"),
        ("/-x", "/"),
        ("/github/_x", "/github"),
        ("/github/" + "a" * 65, "/github"),
        ("/github/iss*", "/github/issues"),
        ("/github/issues\n", "/github/issues"),
        ("/" + "a" * 5_000, "/"),
        (None, "/"),
        (5, "/"),
    ],
)
def test_malformed_paths(path: Any, nearest: str) -> None:
    assert failure(path) == ("PATH_INVALID", nearest)


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ("/githubb", "/github"),
        ("/nothing", "/"),
        ("/github/isues", "/github/issues"),
        ("/github/create_issue", "/github/issues/create_issue"),
        ("/github/tickets/list_issues", "/github/issues/list_issues"),
        ("/github/issues/create_isue", "/github/issues/create_issue"),
        ("/github/issues/create_issue/x", "/github/issues/create_issue"),
        ("/*/issues", "/"),
        ("/gitlab/0", "/gitlab"),
    ],
)
def test_paths_that_lead_nowhere(path: str, nearest: str) -> None:
    assert failure(path) == ("PATH_NOT_FOUND", nearest)


@given(st.text(max_size=40) | st.text("/*abgithub-_0", max_size=30))
def test_any_path_lists_or_fails_with_a_path_that_exists(path: str) -> None:
    try:
        found = list_path(TREE, path)
    except GatewayError as error:
        found = list_path(TREE, error.body.details["nearest"])
    assert found


def test_nodes_of_hostile_names_fit_their_budget() -> None:
    names = [f"Q{'1z' * 40}{index}_{'zq9' * 20}{index % 7}" for index in range(3_000)]
    tree = build_tree(intake([{"name": name} for name in names], server="Q1Z2" * 9)[0])
    for path, found in tree.by_path.items():
        if not isinstance(found, Leaf):
            for card in list_path(tree, path, count=lambda text: len(CL100K.encode(text))):
                assert len(CL100K.encode(render_card(card))) <= 80
