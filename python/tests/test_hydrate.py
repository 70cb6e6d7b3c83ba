"""Hydration: the schemas come along, as copies."""

from __future__ import annotations

import pytest

from leafgate.catalog.catalog import Catalog
from leafgate.catalog.intake import mcp_tool_to_selectable
from leafgate.model.errors import CatalogError


def test_a_hydrated_item_brings_its_own_schemas() -> None:
    item = mcp_tool_to_selectable({"name": "t", "inputSchema": {"properties": {"a": {}}}, "outputSchema": {}})
    catalog = Catalog([item])
    found = catalog.hydrate(item.id)
    assert found.item is item
    assert found.args_schema == {"properties": {"a": {}}}
    assert found.output_schema == {}
    found.args_schema["properties"]["b"] = {}
    assert catalog.hydrate(item.id).args_schema == {"properties": {"a": {}}}


def test_an_unknown_id_is_an_error() -> None:
    with pytest.raises(CatalogError, match="no item has the id"):
        Catalog().hydrate("a:b")
