"""Why a goal is missed, as the profiles of the kept run show it. Words for the report, by the reason's name."""

from __future__ import annotations

from typing import Final

REASONS: Final = {
    "browse": (
        "Browse: half is ranking, of which the largest part compares meanings, 10 MB of vectors for each query. A "
        "third makes cards that no query has shown before: descriptions are cut to their budget by counting tokens "
        "(browse/cards.py). A page of cards that were shown before takes about half the time."
    ),
    "refresh": (
        "A cold refresh: over half goes into taking in the definitions one by one, 8 MB of them: checking each "
        "schema, copying it, making its id (catalog/intake.py, catalog/schema_trust.py). A third is the router's "
        "index, a tenth the tree of paths. No single function has more than a twentieth of it to itself. A gateway "
        "keeps its index on the disk, and builds a catalog in a thread while calls go on with the one before. The "
        "profile below is of a refresh where nothing changed."
    ),
    "unchanged": (
        "A refresh where nothing changed: every definition is written out, and its digest compared with those that the "
        "snapshot before was made of."
    ),
    "start": (
        "The start: it is imports (`python -X importtime -c 'import leafgate.cli.serve'`). Six tenths of their time is "
        "the MCP SDK, which makes its models of three versions of the protocol; a tenth is the firewall with its "
        "patterns. The tools behind are not waited for."
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
        "p50 show. With many at once leafgate answers more a second and uses less of the processor, while the medians "
        "of the ratios within each round say the opposite: a draw there too."
    ),
    "cards": "Cards: ids and names of the tools on that page are long, and only descriptions are cut.",
}
