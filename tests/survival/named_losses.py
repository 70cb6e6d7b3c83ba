"""What leafgate does not pass on, and why. What is not named here and is lost makes the suite fail.

`BY_DESIGN` has the decisions: each must still be a loss, or else it is taken off the list. `OPEN` has faults that are
known and not yet mended; they may be gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from matrix import Outcome, Outcomes

PASSTHROUGH: Final = "leafgate passthrough"
TRANSPARENT: Final = "leafgate transparent"
GATEWAY: Final = "leafgate gateway"
ALL: Final = (PASSTHROUGH, TRANSPARENT, GATEWAY)


@dataclass(frozen=True)
class NamedLoss:
    """A check that is lost or changed in these subjects, and why."""

    check: str
    subjects: tuple[str, ...]
    reason: str


BY_DESIGN: Final = (
    NamedLoss(
        "errors: message and data of a protocol error",
        ALL,
        "The words of a server's error can hold secrets of the server. The code passes; the message is the gateway's.",
    ),
    NamedLoss(
        "errors: a tool that is not there",
        (TRANSPARENT, GATEWAY),
        "The gateway answers with an error result, which a model reads and corrects, not with a protocol error.",
    ),
    NamedLoss(
        "extensions: an extension of a vendor: declared, and its method answered",
        ALL,
        "The gateway declares the extensions that it can route and clean, and no others.",
    ),
    NamedLoss(
        "tools: `_meta` of a definition",
        (TRANSPARENT, GATEWAY),
        "These modes exist to keep definitions small.",
    ),
    NamedLoss(
        "extensions: apps: `_meta.ui` of a tool, and its page",
        (TRANSPARENT, GATEWAY),
        "Apps need tools that are listed whole; the extension is served in mode passthrough.",
    ),
    NamedLoss(
        "extensions: apps: the server sees that the client shows them",
        (TRANSPARENT, GATEWAY),
        "Apps are served in mode passthrough.",
    ),
    NamedLoss(
        "errors: protocol errors keep their codes",
        (GATEWAY,),
        "`tool_execute` answers with an error result that names a code of the gateway.",
    ),
    NamedLoss(
        "tools: title, description, annotations and icons",
        (GATEWAY,),
        "Cards and `tool_hydrate` have descriptions and schemas; titles and icons are for people who see a list.",
    ),
    NamedLoss(
        "connection: server instructions",
        (TRANSPARENT, GATEWAY),
        "These modes have instructions of their own; those of many servers would fill the context.",
    ),
    NamedLoss(
        "metadata: `_meta` of a result",
        (GATEWAY,),
        "`tool_execute` answers for any tool; what a server adds for a client that knows the tool has no reader.",
    ),
    *(
        NamedLoss(
            f"structured content: {kind}",
            (GATEWAY,),
            "`tool_execute` has no output schema: structured content is written as text.",
        )
        for kind in ("object", "array", "string", "integer", "number", "boolean", "null")
    ),
)
OPEN: Final[tuple[NamedLoss, ...]] = ()
# The official client refuses the whole message, so that a direct connection loses the answer.
DIRECT: Final = (
    NamedLoss(
        "unicode: an answer with half of a surrogate pair arrives",
        ("direct",),
        "The client's JSON parser refuses the message.",
    ),
)


def unnamed(subject: str, routes: Mapping[str, Outcomes]) -> dict[str, Outcome]:
    """The losses of a subject that no list names, by route and check."""
    named = {loss.check for loss in (*BY_DESIGN, *OPEN, *DIRECT) if subject in loss.subjects}
    return {
        f"{route}: {check}": outcome
        for route, outcomes in routes.items()
        for check, outcome in outcomes.items()
        if outcome.outcome != "kept" and check not in named
    }


def stale(subject: str, routes: Mapping[str, Outcomes]) -> list[str]:
    """The checks that are named as lost by design, and are kept on every route that has them."""
    named = [loss.check for loss in (*BY_DESIGN, *DIRECT) if subject in loss.subjects]
    lost = {check for outcomes in routes.values() for check, outcome in outcomes.items() if outcome.outcome != "kept"}
    return [check for check in named if check not in lost]
