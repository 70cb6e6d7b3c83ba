"""tool_execute up to the upstream's answer. In: a snapshot, a tool id, arguments. Out: the raw result and its origin.

Awaits the Upstream port only. The steps stand in their order; each ends the call by raising, and nothing later runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leafgate.admission.validate import violations
from leafgate.gateway.snapshot import Snapshot
from leafgate.model.call import Origin
from leafgate.model.errors import GatewayError
from leafgate.ports import Upstream


@dataclass(frozen=True)
class Executed:
    """What an upstream answered, untouched."""

    origin: Origin
    raw: Mapping[str, Any]


async def execute(snapshot: Snapshot, upstream: Upstream, tool_id: object, args: object) -> Executed:
    """Hydrate, validate, dispatch."""
    if not isinstance(tool_id, str):
        raise GatewayError("ARGS_INVALID", "tool_id is a text")
    item = snapshot.item(tool_id)
    if not isinstance(args, Mapping):
        raise GatewayError("ARGS_INVALID", "args is an object", path=item.id)
    found = violations(snapshot.validator(item), args)
    if found:
        details = {"violations": [violation.as_json() for violation in found]}
        raise GatewayError("ARGS_INVALID", "the arguments break the tool's schema", path=item.id, details=details)
    raw = await upstream.call_tool(item.server, item.upstream_name, args)
    return Executed(Origin(item.server, item.upstream_name), raw)
