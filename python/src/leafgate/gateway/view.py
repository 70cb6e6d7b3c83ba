"""tool_view: parts of what was withheld. In: a handle, a selector, who asks. Out: a result that a model may read.

Awaits the ArtifactStore port. A handle of somebody else's, a forged one and an expired one look alike.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from leafgate.firewall.views import show
from leafgate.gateway.deliver import Door, deliver_own, off_loop
from leafgate.model.call import Asking
from leafgate.model.envelope import Artifact
from leafgate.model.errors import GatewayError


async def fetch(door: Door, asking: Asking, handle: object) -> Artifact:
    """The artifact behind a handle. Its origin says which tool's policy a view of it is subject to."""
    if not isinstance(handle, str):
        raise GatewayError("ARGS_INVALID", "handle is a text")
    kept = await door.artifacts.get(asking.owner, handle)
    if kept is None:
        raise GatewayError("VIEW_FAILED", "this handle is unknown or has expired", path=handle[:64])
    return kept


async def view(
    door: Door,
    asking: Asking,
    handle: object,
    selector: object,
    *,
    allow: Callable[[Artifact], None] = lambda kept: None,
) -> dict[str, Any]:
    """The selected part; its last line says what it is a part of and how to go on. Images and sounds are blocks.

    `allow` raises where the caller may no longer see what the tool behind the artifact said.
    """
    kept = await fetch(door, asking, handle)
    allow(kept)
    count = door.counter(await door.ledger(asking))
    work = partial(show, selector, kept, door.cleaner(kept.origin), count, door.budget)
    page = await off_loop(len(kept.content), work)
    result = await deliver_own(door, asking, page.text)
    if page.block is not None:
        result["content"] = [page.block, *result["content"]]
    return result
