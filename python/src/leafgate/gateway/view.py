"""tool_view: parts of what was withheld. In: a handle, a selector, who asks. Out: text for a model.

Awaits the ArtifactStore port. A handle of somebody else's, a forged one and an expired one look alike.
"""

from __future__ import annotations

import json

from leafgate.firewall.selectors import apply_selector
from leafgate.gateway.deliver import Door
from leafgate.model.call import Asking
from leafgate.model.errors import GatewayError


async def view(door: Door, asking: Asking, handle: object, selector: object) -> str:
    """The selected part, with a last line that says what it is a part of and how to go on."""
    if not isinstance(handle, str):
        raise GatewayError("ARGS_INVALID", "handle is a text")
    kept = await door.artifacts.get(asking.owner, handle)
    if kept is None:
        raise GatewayError("VIEW_FAILED", "this handle is unknown or has expired", path=handle[:64])
    found = apply_selector(selector, kept.content.decode(), door.count, door.budget)
    note = found.shown
    if found.next is not None:
        note += f"; next: {json.dumps(found.next, separators=(',', ':'))}"
    return f"{found.text}\n[{note}]"
