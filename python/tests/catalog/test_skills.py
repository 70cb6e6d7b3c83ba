"""Skills as servers describe them: which entries are used, and what follows from them."""

from __future__ import annotations

from typing import Any

import pytest

from leafgate.catalog.skills import MAX_FILES, parents, read_skill

DIGEST = f"sha256:{'0f' * 32}"
ROOT = "skill://acme/refunds"


def file(path: str, **changes: Any) -> dict[str, Any]:
    return {"uri": f"{ROOT}/{path}", "digest": DIGEST, "size": 7, **changes}


def entry(**changes: Any) -> dict[str, Any]:
    files = [file("SKILL.md"), file("references/POLICY.md"), file("references/eu/POLICY.md")]
    frontmatter = {"name": "refunds", "description": "How to refund.", "license": "MIT"}
    return {"uri": f"{ROOT}/SKILL.md", "frontmatter": frontmatter, "resources": files, **changes}


def test_a_good_entry() -> None:
    skill = read_skill(entry())
    assert skill is not None
    assert skill.root == ROOT
    assert skill.as_json(skill.frontmatter, str) == entry()
    assert [each["name"] for each in skill.resources()] == [
        "refunds",
        "refunds/references/POLICY.md",
        "refunds/references/eu/POLICY.md",
    ]


def test_content_that_is_made_anew_has_no_files() -> None:
    skill = read_skill(entry(resources="dynamic"))
    assert skill is not None
    assert skill.as_json(skill.frontmatter, str)["resources"] == "dynamic"
    assert [each["uri"] for each in skill.resources()] == [f"{ROOT}/SKILL.md"]
    assert skill.children(ROOT) == []


@pytest.mark.parametrize(
    "broken",
    [
        None,
        "text",
        {},
        entry(uri=None),
        entry(uri="skill://acme/other/SKILL.md"),
        entry(uri=f"{ROOT}/README.md"),
        entry(uri="refunds/SKILL.md"),
        entry(uri=f"{ROOT}/\x00/refunds/SKILL.md"),
        entry(frontmatter=None),
        entry(frontmatter={"name": "refunds"}),
        entry(frontmatter={"name": 5, "description": "x"}),
        entry(frontmatter={"name": "a/b", "description": "x"}),
        entry(resources=None),
        entry(resources="static"),
        entry(resources=[]),
        entry(resources=[file("references/POLICY.md")]),
        entry(resources=[file("SKILL.md"), file("x", uri="skill://acme/other/x")]),
        entry(resources=[file("SKILL.md"), file("../other/x")]),
        entry(resources=[file("SKILL.md"), file("x", digest="md5:0")]),
        entry(resources=[file("SKILL.md"), file("x", digest=DIGEST.upper())]),
        entry(resources=[file("SKILL.md"), file("x", size=-1)]),
        entry(resources=[file("SKILL.md"), file("x", size=True)]),
        entry(resources=[file("SKILL.md"), "x"]),
        entry(resources=[file("SKILL.md")] * (MAX_FILES + 1)),
    ],
)
def test_an_entry_that_breaks_the_rules_is_not_used(broken: Any) -> None:
    assert read_skill(broken) is None


def test_directories() -> None:
    skill = read_skill(entry())
    assert skill is not None
    assert skill.children(ROOT) == [
        {"uri": f"{ROOT}/SKILL.md", "name": "SKILL.md", "size": 7},
        {"uri": f"{ROOT}/references", "name": "references", "mimeType": "inode/directory"},
    ]
    assert [each["name"] for each in skill.children(f"{ROOT}/references")] == ["POLICY.md", "eu"]
    for nothing in (f"{ROOT}/SKILL.md", f"{ROOT}/ref", "skill://acme/refund", "skill://other"):
        assert skill.children(nothing) == []


def test_the_directories_above_a_uri() -> None:
    assert [*parents("skill://a/b/c")] == ["skill://a/b/c", "skill://a/b", "skill://a"]
    assert [*parents("no scheme")] == ["no scheme"]
