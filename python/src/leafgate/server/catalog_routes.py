"""The catalog as models see it, for people. In: a question over HTTP. Out: the cards that tool_browse would show.

Awaits the runtime for what is shown to whom. A person who looks is no model that works: nothing is counted as a call,
as tokens saved, or against a quota.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from leafgate.browse.cards import render_card
from leafgate.gateway.discover import DEFAULT_TOP_K, NOTES, Page, browse
from leafgate.gateway.execute import Requester
from leafgate.gateway.rights import AS_EVERYBODY, Rights
from leafgate.gateway.runtime import GatewayRuntime
from leafgate.model.errors import GatewayError
from leafgate.model.principal import Principal
from leafgate.server.auth.known_user import principal_of

CATALOG_PATH: Final = "/api/catalog"
MAX_QUESTION: Final = 4_096
HEADERS: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


def catalog_routes(
    runtime: GatewayRuntime,
    count: Callable[[str], int],
    rights_of: Callable[[Principal | None], Rights] = lambda principal: AS_EVERYBODY,
) -> list[Route]:
    """`/api/catalog` with a `query` or a `path`, and `top_k`, as the arguments of tool_browse.

    `count` counts tokens, as it does for models; `rights_of` says what the one who asks may see.
    """

    async def search(request: Request) -> Response:
        principal = principal_of(request)
        name = None if principal is None else principal.name
        requester = Requester(principal=name, rights=rights_of(principal))
        try:
            asked = _asked(request)
            shelf = (await runtime.shown_to(requester)).tools
            # In a thread: an embedder that the operator plugged in may be behind a network.
            page = await to_thread.run_sync(partial(browse, shelf, *asked, count))
        except GatewayError as error:
            status = 404 if error.code == "PATH_NOT_FOUND" else 400
            return JSONResponse(error.body.as_json(), status, HEADERS)
        return JSONResponse(_told(page, count), headers=HEADERS)

    return [Route(CATALOG_PATH, search)]


def _asked(request: Request) -> tuple[str | None, str | None, int]:
    """Query, path and top_k, as far as an address can hold them; `browse` judges the rest."""
    given = request.query_params
    unknown = sorted(set(given) - {"query", "path", "top_k"})
    if unknown:
        raise GatewayError("ARGS_INVALID", "there are query, path and top_k", path=unknown[0][:240])
    if any(len(value) > MAX_QUESTION for value in given.values()):
        raise GatewayError("ARGS_INVALID", f"a question has at most {MAX_QUESTION} characters")
    top_k = given.get("top_k", str(DEFAULT_TOP_K))
    if not (top_k.isascii() and top_k.isdigit()):
        raise GatewayError("ARGS_INVALID", "top_k is a whole number")
    return given.get("query"), given.get("path"), int(top_k)


def _told(page: Page, count: Callable[[str], int]) -> dict[str, Any]:
    """The page for programs, each card with the line that a model reads, and `text`: all that a model reads."""
    lines = [render_card(card) for card in page.cards]
    cards = [
        {**card.as_json(), "line": line, "tokens": count(line)} for card, line in zip(page.cards, lines, strict=True)
    ]
    return {**page.as_json(), "cards": cards, "note": NOTES[page.signal], "text": page.text()}
