"""ExposureMode: how a gateway shows the tools behind it (spec 3.1). A noun."""

from __future__ import annotations

from enum import Enum


class ExposureMode(Enum):
    """GATEWAY and TRANSPARENT give schemas by hydration only; PASSTHROUGH shows tools as their servers do."""

    GATEWAY = "gateway"
    TRANSPARENT = "transparent"
    PASSTHROUGH = "passthrough"
