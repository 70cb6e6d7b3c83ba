"""README and docs: every command runs, every configuration loads, every link leads somewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_blocks import KINDS, Block, blocks_of
from page_shell import ROOT, PageShell

from leafgate.cli.main import COMMANDS
from leafgate.config.load import load_config

PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", ROOT / "python/README.md", ROOT / "typescript/README.md", *ROOT.glob("docs/*.md"))
)
# Pages with tests of their own, which ask more of them.
ELSEWHERE = {
    ("docs/maps.md", "sh"): "python/tests/cli/test_cli_maps.py",
    ("docs/recipes.md", "sh"): "python/tests/embed/test_recipes.py",
    ("docs/security.md", "sh"): "python/tests/embed/test_security_doc.py",
    ("docs/security.md", "yaml"): "python/tests/embed/test_security_doc.py",
    ("docs/context.md", "python"): "python/tests/embed/test_context.py",
    ("docs/library.md", "python"): "python/tests/embed/test_embed.py",
    ("typescript/README.md", "sh"): "tests/packages/test_npm_tarball.py",
}
# All that is not run, and why. Something new here wants a better reason than that it fails.
NOT_RUN = {
    "README.md": ["it is what runs this"],
    "docs/context.md": ["no-run"],
    "docs/install.md": [
        "tests/packages does",
        "tests/packages does",
        "needs a Docker engine",
        "needs systemd, and changes the machine",
    ],
    "docs/maps.md": ["files and a digest of your own"],
    "docs/scaling.md": ["needs systemd, and changes the machine"],
    "docs/library.md": ["no-run", "no-run"],
}
A_SERVER = {"mcpServers": {"notes": {"command": "python", "args": ["-m", "leafgate.demo.notes"]}}}


def blocks(page: str, *kinds: str) -> list[Block]:
    """Those of a page that are run here."""
    found = blocks_of((ROOT / page).read_text(encoding="utf-8"))
    return [block for block in found if block.kind in kinds and (page, block.kind) not in ELSEWHERE]


def pages_with(*kinds: str) -> list[str]:
    return [page for page in PAGES if any(not block.not_run for block in blocks(page, *kinds))]


def test_all_pages_are_seen() -> None:
    assert {"README.md", "python/README.md", "typescript/README.md", "docs/README.md"} <= set(PAGES)


@pytest.mark.parametrize("page", pages_with("sh", "python"))
def test_its_commands_run(page: str, tmp_path: Path) -> None:
    """And print what a text block right after them shows."""
    with PageShell(tmp_path, page) as shell:
        printed: str | None = None
        for block in blocks(page, *KINDS):
            if block.kind in ("sh", "python") and not block.not_run:
                printed = shell.run(block)
            elif block.kind == "text" and printed is not None:
                assert lines_missing(block.text, printed) == [], f"line {block.line}: this was printed:\n{printed}"
            else:
                printed = None


def lines_missing(shown: str, printed: str) -> list[str]:
    """Lines of a page that were not printed in this order; … stands for anything."""
    missing, left = [], printed.splitlines()
    for line in shown.splitlines():
        pattern = re.compile(".*".join(re.escape(part) for part in line.split("…")))
        at = next((at for at, each in enumerate(left) if pattern.fullmatch(each.rstrip())), None)
        if at is None:
            missing.append(line)
        else:
            left = left[at + 1 :]
    return missing


@pytest.mark.parametrize(
    ("shown", "missing"),
    [("a\nc", []), ("a\n… b", []), ("b", ["b"]), ("c\na", ["a"]), ("a\na", ["a"]), ("…\nx.b", ["x.b"])],
)
def test_shown_lines_are_looked_for(shown: str, missing: list[str]) -> None:
    assert lines_missing(shown, "a\nx b\nc\n") == missing


def configurations() -> Iterator[tuple[str, Block]]:
    for page in PAGES:
        for block in blocks(page, "yaml", "json"):
            ours = block.kind == "yaml" or "mcpServers" in block.text
            if ours and not (block.not_run or block.foreign):
                yield page, block


@pytest.mark.parametrize("block", [pytest.param(block, id=f"{page}:{block.line}") for page, block in configurations()])
def test_its_configurations_load(block: Block, tmp_path: Path) -> None:
    """A part of a configuration is loaded with a server."""
    text = block.text if "mcpServers" in block.text else f"{block.text}\n{json.dumps(A_SERVER)[1:-1]}\n"
    file = tmp_path / f"leafgate.{block.kind}"
    file.write_text(text)
    assert load_config(file, dict.fromkeys(re.findall(r"\$\{(?:env:)?(\w+)\}", text), "secret")).servers


def test_what_is_not_run() -> None:
    found = {
        page: [block.not_run for block in blocks_of((ROOT / page).read_text(encoding="utf-8")) if block.not_run]
        for page in PAGES
    }
    assert {page: reasons for page, reasons in found.items() if reasons} == NOT_RUN


@pytest.mark.parametrize(("page", "test"), [(page, test) for (page, _), test in ELSEWHERE.items()])
def test_the_other_tests_are_there(page: str, test: str) -> None:
    assert Path(page).name in (ROOT / test).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_its_links_lead_somewhere(page: str) -> None:
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"\w+:", link)]
    missing = [link for link in links if not _leads_somewhere(ROOT / page, link)]
    assert not missing


def _leads_somewhere(page: Path, link: str) -> bool:
    path, _, part = link.partition("#")
    target = (page.parent / path) if path else page
    return target.exists() and (not part or part in _anchors(target.read_text(encoding="utf-8")))


def _anchors(text: str) -> set[str]:
    """The names that GitHub gives to headings."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {path.name for path in ROOT.glob("docs/*.md")} - {"README.md"}
    assert pages == set(re.findall(r"\]\((\w[\w-]*\.md)\)", index))


def test_every_command_is_in_the_table() -> None:
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Commands")[2].partition("\n## ")[0]
    named = {
        words.split()[0]
        for row in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)
        for words in re.findall(r"`([^`]+)`", row)
    }
    assert named == COMMANDS.keys()
