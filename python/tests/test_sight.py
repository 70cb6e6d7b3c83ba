"""A snapshot as somebody sees it: what is hidden leaves no trace in cards, counts, paths or lists."""

from __future__ import annotations

import pytest

from leafgate.admission.visibility import EVERYTHING, Visibility
from leafgate.browse.navigate import list_path
from leafgate.firewall.cleaner import make_cleaner
from leafgate.gateway.sight import Sights, seen_snapshot
from leafgate.gateway.snapshot import Snapshot, build_snapshot
from leafgate.model.errors import GatewayError
from leafgate.ports import Offers, ToolListing

pytestmark = pytest.mark.anyio


def listing(server: str, name: str, **more: object) -> ToolListing:
    return ToolListing(server, {"name": name, "description": f"Does {name} for {server}.", **more})


def whole() -> Snapshot:
    tools = [listing(server, name) for server in ("ours", "secret") for name in ("echo", "merge", "publish")]
    pages = [listing(server, "page", uri=f"page://{server}") for server in ("ours", "secret")]
    return build_snapshot(
        Offers(
            tools=tools,
            resources=pages,
            templates=[listing("secret", "any", uriTemplate="page://secret/{name}")],
            prompts=[listing("ours", "greet"), listing("secret", "greet")],
        ),
        make_cleaner(),
    )


OURS = Visibility(include=("ours:*",))


def test_only_what_is_seen_is_there() -> None:
    seen = seen_snapshot(whole(), OURS)
    shelves = (seen.tools, seen.resources, seen.prompts)
    assert [len(shelf.catalog) for shelf in shelves] == [3, 1, 1]
    assert [len(shelf.router) for shelf in shelves] == [3, 1, 1]
    assert [shelf.tree.root.size for shelf in shelves] == [3, 1, 1]
    assert "secret" not in repr([path for shelf in shelves for path in shelf.tree.by_path])
    assert {each.server for each in (*seen.offers.tools, *seen.offers.resources, *seen.offers.prompts)} == {"ours"}
    assert not seen.offers.templates


def test_ranking_finds_nothing_that_is_hidden_not_even_by_its_name() -> None:
    all_of_it = whole()
    hidden = next(item for item in all_of_it.catalog if item.server == "secret")
    seen = seen_snapshot(all_of_it, OURS)
    for query in ("merge", hidden.id, "secret echo", "publish for secret"):
        found = seen.tools.router.route(query, top_k=50).candidates
        assert {candidate.item.server for candidate in found} <= {"ours"}
    assert all_of_it.tools.router.route(hidden.id).candidates[0].item is hidden


def test_a_hidden_id_and_a_hidden_path_are_unknown() -> None:
    all_of_it = whole()
    hidden = next(item for item in all_of_it.catalog if item.server == "secret")
    seen = seen_snapshot(all_of_it, OURS)
    with pytest.raises(GatewayError, match="HYDRATE_FAILED"):
        seen.item(hidden.id)
    with pytest.raises(GatewayError) as raised:
        list_path(seen.tools.tree, "/secret")
    assert raised.value.code == "PATH_NOT_FOUND"
    assert raised.value.body.details == {"nearest": "/"}


def test_definitions_of_the_wrong_shape_are_not_seen() -> None:
    offers = Offers(resources=[ToolListing("ours", {"uri": ["a", "list"]}), listing("ours", "page", uri="page://ours")])
    seen = seen_snapshot(build_snapshot(offers, make_cleaner()), OURS)
    assert [each.definition["uri"] for each in seen.offers.resources] == ["page://ours"]


async def test_views_are_made_once_and_the_latest_are_kept() -> None:
    sights = Sights(whole(), lambda value: value, capacity=2)
    assert await sights.seen(EVERYTHING) is sights.whole
    first = await sights.seen(OURS)
    assert await sights.seen(Visibility(include=("ours:*",))) is first
    await sights.seen(Visibility(exclude=("a",)))
    assert await sights.seen(OURS) is first
    await sights.seen(Visibility(exclude=("b",)))
    await sights.seen(Visibility(exclude=("c",)))
    assert await sights.seen(OURS) is not first


async def test_names_are_only_shared_with_what_is_seen() -> None:
    sights = Sights(whole(), lambda value: value)
    native = await sights.native(OURS)
    assert native.tools.keys() == {"echo", "merge", "publish"}
    assert native.prompts.keys() == {"greet"}
    assert native.resources.keys() == {"page://ours"}
    assert not native.templates
    assert "ours__echo" in (await sights.native(EVERYTHING)).tools
