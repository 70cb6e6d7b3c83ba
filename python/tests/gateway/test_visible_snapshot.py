"""A snapshot as somebody sees it: what is hidden leaves no trace in cards, counts, paths or lists."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from leafgate.browse.navigate import list_path
from leafgate.clean.cleaner import Cleaner
from leafgate.gateway.native import NativeOffers, native_offers
from leafgate.gateway.snapshot import Snapshot, Views, build_snapshot, narrow_snapshot
from leafgate.model.errors import GatewayError
from leafgate.model.rights import Visibility
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
        Cleaner(),
    )


OURS = Visibility(include=("ours:*",))


def test_only_what_is_seen_is_there() -> None:
    seen = narrow_snapshot(whole(), OURS)
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
    seen = narrow_snapshot(all_of_it, OURS)
    for query in ("merge", hidden.id, "secret echo", "publish for secret"):
        found = seen.tools.router.route(query, top_k=50).candidates
        assert {candidate.item.server for candidate in found} <= {"ours"}
    assert all_of_it.tools.router.route(hidden.id).candidates[0].item is hidden


def test_a_hidden_id_and_a_hidden_path_are_unknown() -> None:
    all_of_it = whole()
    hidden = next(item for item in all_of_it.catalog if item.server == "secret")
    seen = narrow_snapshot(all_of_it, OURS)
    with pytest.raises(GatewayError, match="HYDRATE_FAILED"):
        seen.item(hidden.id)
    with pytest.raises(GatewayError) as raised:
        list_path(seen.tools.tree, "/secret")
    assert raised.value.code == "PATH_NOT_FOUND"
    assert raised.value.body.details == {"nearest": "/"}


def test_definitions_of_the_wrong_shape_are_not_seen() -> None:
    offers = Offers(resources=[ToolListing("ours", {"uri": ["a", "list"]}), listing("ours", "page", uri="page://ours")])
    seen = narrow_snapshot(build_snapshot(offers, Cleaner()), OURS)
    assert [each.definition["uri"] for each in seen.offers.resources] == ["page://ours"]


async def test_views_are_made_once_and_the_latest_are_kept() -> None:
    snapshot = whole()
    views: Views[Snapshot] = Views(capacity=2)

    async def see(visibility: Visibility) -> Snapshot:
        return await views.get(visibility, partial(narrow_snapshot, snapshot, visibility))

    first = await see(OURS)
    assert await see(Visibility(include=("ours:*",))) is first
    await see(Visibility(exclude=("a",)))
    assert await see(OURS) is first
    await see(Visibility(exclude=("b",)))
    await see(Visibility(exclude=("c",)))
    assert await see(OURS) is not first


def test_names_are_only_shared_with_what_is_seen() -> None:
    native = native_offers(narrow_snapshot(whole(), OURS), lambda value: value)
    assert native.tools.keys() == {"echo", "merge", "publish"}
    assert native.prompts.keys() == {"greet"}
    assert native.resources.keys() == {"page://ours"}
    assert not native.templates
    assert "ours__echo" in native_offers(whole(), lambda value: value).tools


# URIs that a host takes for those of one server


def skill(uri: str) -> dict[str, Any]:
    name = uri.split("/")[-2]
    files = [{"uri": uri, "digest": f"sha256:{'0' * 64}", "size": 1}]
    return {"uri": uri, "frontmatter": {"name": name, "description": "d"}, "resources": files}


def addresses(*skills: tuple[str, str], tools: Sequence[tuple[str, str]] = ()) -> NativeOffers:
    offers = Offers(
        tools=[
            ToolListing(server, {"name": f"t{place}", "_meta": {"ui": {"resourceUri": uri}}})
            for place, (server, uri) in enumerate(tools)
        ],
        skills=[ToolListing(server, skill(uri)) for server, uri in skills],
    )
    return native_offers(build_snapshot(offers, Cleaner()), lambda value: value)


def test_uris_of_one_server_stay_as_they_are() -> None:
    native = addresses(("a", "skill://x/SKILL.md"), ("b", "skill://y/z/SKILL.md"), tools=[("a", "ui://page")])
    assert [*native.skills] == ["skill://x/SKILL.md", "skill://y/z/SKILL.md"]
    assert native.address_of("skill://y/z/references/1.md") == ("b", "skill://y/z/references/1.md")
    assert native.address_of("ui://page") == ("a", "ui://page")
    assert native.address_of("ui://other") is native.address_of("skill://y") is None


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ("skill://x/SKILL.md", "skill://x/SKILL.md"),
        ("skill://x/SKILL.md", "skill://x/references/SKILL.md"),
        ("skill://x/y/SKILL.md", "skill://x/SKILL.md"),
        ("skill://x/SKILL.md", "skill://mine/x/SKILL.md"),
        ("skill://theirs/x/SKILL.md", "skill://x/SKILL.md"),
    ],
)
def test_no_server_answers_for_the_files_of_another(mine: str, theirs: str) -> None:
    native = addresses(("mine", mine), ("theirs", theirs))
    assert len(native.skills) == 2
    for public, entry in native.skills.items():
        file = public.replace("SKILL.md", "references/1.md")
        own = {"mine": mine, "theirs": theirs}[entry.server].replace("SKILL.md", "references/1.md")
        assert native.address_of(file) == (entry.server, own)
        assert native.write_uri(entry.server, own) == file


def test_a_skill_inside_a_shared_one_stays_inside() -> None:
    inner = ("mine", "skill://x/inner/SKILL.md")
    native = addresses(("mine", "skill://x/SKILL.md"), inner, ("theirs", "skill://x/SKILL.md"))
    assert {*native.skills} == {f"skill://{uri}/SKILL.md" for uri in ("mine/x", "mine/x/inner", "theirs/x")}


def test_an_entry_that_breaks_the_rules_is_reported_and_left_out() -> None:
    snapshot = build_snapshot(Offers(skills=[ToolListing("a", {"uri": "skill://x"})]), Cleaner())
    assert [(flag.code, flag.left_out) for flag in snapshot.flags] == [("skill-invalid", True)]
    assert not native_offers(snapshot, lambda value: value).skills


def test_tools_of_apps_are_not_for_models() -> None:
    def tool(name: str, visibility: Any) -> ToolListing:
        return ToolListing("a", {"name": name, "_meta": {"ui": {"visibility": visibility}}})

    shown = [tool("both", ["model", "app"]), tool("odd", "app"), tool("none", None)]
    snapshot = build_snapshot(Offers(tools=[*shown, tool("hidden", ["app"])]), Cleaner())
    assert snapshot.has_app_tools
    models = narrow_snapshot(snapshot, Visibility(for_models=True))
    assert {item.upstream_name for item in models.catalog} == {"both", "odd", "none"}
    assert not models.has_app_tools
