"""Small catalogs for the tests of routing, and the development set."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from leafgate.catalog.snapshot_file import load_catalog_file
from leafgate.model.tool import SelectableItem

DATA = Path(__file__).parent / "data" / "routing"


def tool(name: str, description: str = "", server: str = "box", **fields: Any) -> SelectableItem:
    return SelectableItem(
        id=fields.pop("id", f"{server}:{name}#00000000"),
        kind=fields.pop("kind", "tool"),
        name=name,
        description=description,
        namespace=server,
        upstream_name=name,
        server=server,
        **fields,
    )


SMALL = (
    tool("list_files", "Lists the files of a directory.", "disk"),
    tool("move_file", "Moves or renames a file.", "disk"),
    tool("search_papers", "Search for scientific papers.", "arxiv"),
    tool("create_issue", "Opens an issue in a repository.", "github"),
    tool("create_issue", "Opens an issue in a project.", "gitlab"),
    tool("echo", "Repeats what it is told.", "toys"),
    tool("sendMail", "Sends an e-mail to someone.", "post", tags=("mail", "outgoing")),
    tool("weather", "", "sky", kind="resource"),
)


@cache
def development_items() -> tuple[SelectableItem, ...]:
    return tuple(load_catalog_file(DATA / "dev_catalog.json").catalog.all())


@cache
def development_queries() -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(line) for line in (DATA / "dev_queries.jsonl").read_text().splitlines())
