"""tool_browse and tool_hydrate: what is there, how to call it. In: a snapshot, a question. Out: text for a model.

Touches nothing: ranking and cards are pure rooms, and the counter of tokens is handed in.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from leafgate.browse.cards import make_choice_cards, render_page
from leafgate.gateway.snapshot import Snapshot
from leafgate.model.errors import GatewayError

DEFAULT_TOP_K: Final = 10
MAX_TOP_K: Final = 50

NO_MATCH: Final = "No tool fits this query well; the nearest ones:"
AMBIGUOUS: Final = "Several tools fit about equally well:"


def browse(snapshot: Snapshot, query: object, path: object, top_k: object, count: Callable[[str], int]) -> str:
    """A page of cards, best first."""
    if (query is None) == (path is None):
        raise GatewayError("ARGS_INVALID", "give exactly one of query and path")
    if type(top_k) is not int or not 1 <= top_k <= MAX_TOP_K:
        raise GatewayError("ARGS_INVALID", f"top_k is a whole number from 1 to {MAX_TOP_K}")
    if path is not None:
        return _browse_path(snapshot, path, count)
    if not isinstance(query, str) or not query.strip():
        raise GatewayError("ARGS_INVALID", "query is a text that is not empty")
    found = snapshot.router.route(query, top_k=top_k)
    cards = make_choice_cards(
        [candidate.item for candidate in found.candidates],
        scores={candidate.item.id: candidate.score for candidate in found.candidates},
        count=count,
    )
    if not cards:
        return "No tool matches. Browse the path / for what there is."
    note = {"no_match": NO_MATCH, "ambiguous": AMBIGUOUS}.get(found.signal, "")
    return render_page(cards, note=note)


def _browse_path(snapshot: Snapshot, path: object, count: Callable[[str], int]) -> str:
    raise GatewayError("PATH_INVALID", "paths are not served yet", path=str(path)[:240])


def hydrate(snapshot: Snapshot, tool_id: object) -> str:
    """Everything that a caller needs to call a tool, as JSON."""
    if not isinstance(tool_id, str):
        raise GatewayError("ARGS_INVALID", "tool_id is a text")
    item = snapshot.item(tool_id)
    found = snapshot.catalog.hydrate(item.id)
    body = {"id": item.id, "description": item.description, "args_schema": found.args_schema}
    if found.output_schema is not None:
        body["output_schema"] = found.output_schema
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))
