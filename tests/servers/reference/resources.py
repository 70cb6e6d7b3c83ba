"""The resources: two fixed ones, one that can be watched, and a template."""

from __future__ import annotations

import json
import re
from typing import Final

from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.types import (
    INVALID_PARAMS,
    BlobResourceContents,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from reference.call import is_modern
from reference.samples import PNG

WATCHED: Final = "test://watched-resource"
NOT_FOUND_BEFORE_2026: Final = -32002

_CONTENTS: Final[dict[str, TextResourceContents | BlobResourceContents]] = {
    "test://static-text": TextResourceContents(
        uri="test://static-text",
        mime_type="text/plain",
        text="This is the content of the static text resource.",
    ),
    "test://static-binary": BlobResourceContents(uri="test://static-binary", mime_type="image/png", blob=PNG),
    WATCHED: TextResourceContents(uri=WATCHED, mime_type="text/plain", text="Watched."),
}
_TEMPLATE = re.compile(r"test://template/([^/]+)/data")

RESOURCES: Final = (
    Resource(uri="test://static-text", name="static-text", description="A fixed text.", mime_type="text/plain"),
    Resource(uri="test://static-binary", name="static-binary", description="A fixed picture.", mime_type="image/png"),
    Resource(uri=WATCHED, name="watched-resource", description="Can be subscribed to.", mime_type="text/plain"),
)
EXTRA_RESOURCE: Final = Resource(uri="test://template/extra/data", name="extra", description="Appears on a change.")
TEMPLATES: Final = (
    ResourceTemplate(
        uri_template="test://template/{id}/data",
        name="template",
        description="Data for any id.",
        mime_type="application/json",
    ),
)


def read(ctx: ServerRequestContext, uri: str) -> ReadResourceResult:
    """What this URI holds."""
    if uri in _CONTENTS:
        return ReadResourceResult(contents=[_CONTENTS[uri]])
    filled = _TEMPLATE.fullmatch(uri)
    if filled is None:
        code = INVALID_PARAMS if is_modern(ctx) else NOT_FOUND_BEFORE_2026
        raise MCPError(code, "Resource not found", {"uri": uri})
    id = filled.group(1)
    text = json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type="application/json", text=text)])
