"""ExposureMode: how a gateway shows the tools behind it, and which tools of its own it adds (spec 3.1). Nouns."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class ExposureMode(Enum):
    """GATEWAY and TRANSPARENT give schemas by hydration only; PASSTHROUGH shows tools as their servers do."""

    GATEWAY = "gateway"
    TRANSPARENT = "transparent"
    PASSTHROUGH = "passthrough"


ALL_META_TOOLS: Final = (
    "tool_browse",
    "tool_hydrate",
    "tool_execute",
    "tool_view",
    "resource_browse",
    "resource_read",
    "prompt_browse",
    "prompt_get",
)

META_TOOLS: Final[Mapping[ExposureMode, tuple[str, ...]]] = {
    ExposureMode.GATEWAY: ALL_META_TOOLS,
    ExposureMode.TRANSPARENT: ("tool_hydrate", "tool_execute", "tool_view"),
    ExposureMode.PASSTHROUGH: ("tool_view",),
}
