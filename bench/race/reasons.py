"""Why a goal is missed, as the profiles of the kept run show it. Words for the report, by the reason's name."""

from __future__ import annotations

from typing import Final

REASONS: Final = {
    "browse": (
        "Browse: as much time goes into making the ten cards as into ranking. Descriptions are cut to their budget "
        "by counting tokens anew for every query (browse/cards.py, browse/budget.py). A card is the same for every "
        "query, so that keeping it with its snapshot would save that share."
    ),
    "refresh": (
        "A cold refresh: most of it goes into taking in the definitions one by one, checking each schema and "
        "cleaning each text (catalog/intake.py, catalog/schema_trust.py, firewall/cleaner.py). The router's index "
        "is the difference to a refresh where nothing changed, of which the profile below is."
    ),
    "unchanged": (
        "A refresh where nothing changed: only the router's index is taken over from the snapshot before. Every "
        "definition is checked and cleaned anew, also where it is the one of before; intake would have to remember "
        "what it made of which definition."
    ),
    "start": (
        "The start: it is imports (`python -X importtime -c 'import leafgate.cli.serve'`). Half of their time is "
        "the MCP SDK, an eighth the firewall with its patterns. The tools behind are not waited for."
    ),
    "direct": (
        "Calls to direct: `direct` is one hop and a proxy has two, each with an SDK server. The second alone is "
        "told above for stdio, and is another request like the direct one for HTTP. The rest is leafgate's own: "
        "reading and checking the request, the firewall, the envelope; and, where HTTP is behind, its HTTP client, "
        "with which a call takes more than twice the processor time of one over stdio (the column CPU)."
    ),
    "ahead": (
        "Calls to the proxies: mcp-proxy passes messages on as they are, and checks, cleans and limits nothing; "
        "leafgate also reads the arguments and the result of every call. One at a time that is a draw, as the two "
        "p50 show; with many at once the processor is what counts, and leafgate's own process uses more of it."
    ),
    "cards": "Cards: ids and names of the tools on that page are long, and only descriptions are cut.",
}
