"""Routes for operators and the dashboard: health, status, metrics, the catalog as models see it, pending approvals, the
dashboard's files; the gateway's server card; and its tokenizer maps under /.well-known/codec/maps.

Searching the catalog here counts neither as a call, nor as tokens saved, nor against a quota. The dashboard's files are
public: what the page shows it requests from the other routes, with the token that a person enters. The bytes of a map
are those that its digest names; they are read and compressed in threads, and cached.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import anyio
from anyio import to_thread
from cachetools import LRUCache
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.staticfiles import NotModifiedResponse
from starlette.types import Scope

from leafgate.browse.cards import render_card
from leafgate.codec.compression import ENCODINGS, Encoding, choose_encoding, compress
from leafgate.gateway.browse import DEFAULT_TOP_K, NOTES, CardPage
from leafgate.gateway.runtime import GatewayRuntime
from leafgate.maps.files import MapSource
from leafgate.model.errors import ErrorBody, ErrorCode, GatewayError, StoreError
from leafgate.model.leaf import digest_of, is_digest, parse_digest
from leafgate.model.request import Request
from leafgate.ports import Approval, Approvals
from leafgate.server.auth.capabilities import CARD_SUFFIX, WELL_KNOWN_CARD, principal_in
from leafgate.server.front import MCP_PATH, BodyTooLargeError, Front, read_body, read_json
from leafgate.version import __version__

log = logging.getLogger("leafgate.server")

FRESH: Final = {"cache-control": "no-store"}


def operator_routes(
    status: Callable[[], Mapping[str, Any]],
    *,
    missing: Callable[[], Sequence[str]] = tuple,
    page: Callable[[str], tuple[bytes, str]] | None = None,
    recent: Callable[[float], Awaitable[Mapping[str, Any]]] | None = None,
) -> list[Route]:
    """Each answer is made per request.

    /health: the process runs. /ready: the start is complete, or what is `missing`. /status: what `leafgate status`
    shows. /metrics: `page` returns a text and its media type for an Accept header. /api/metrics: what is `recent`
    since a time. The last two are optional.
    """

    async def health(request: HttpRequest) -> Response:
        return JSONResponse({"status": "ok"})

    is_ready = False  # it stays ready: the status shows servers that go down later

    async def ready(request: HttpRequest) -> Response:
        nonlocal is_ready
        waits_for = [] if is_ready else [*missing()]
        is_ready = not waits_for
        state = "starting" if waits_for else "ready"
        return JSONResponse({"status": state, "missing": waits_for}, status_code=503 if waits_for else 200)

    async def report_status(request: HttpRequest) -> Response:
        return JSONResponse(dict(status()), headers=FRESH)

    async def metrics(request: HttpRequest) -> Response:
        assert page is not None
        body, media_type = page(request.headers.get("accept", ""))
        return Response(body, headers={**FRESH, "content-type": media_type, "vary": "Accept"})

    async def report_recent(request: HttpRequest) -> Response:
        assert recent is not None
        since = _moment(request.query_params.get("since", "0"))
        if since is None:
            return JSONResponse({"error": "since is a number of seconds since 1970"}, status_code=400)
        # A whole day is megabytes of JSON: no other client waits while they are written.
        return await to_thread.run_sync(partial(JSONResponse, dict(await recent(since)), headers=FRESH))

    routes = [Route("/health", health), Route("/ready", ready), Route("/status", report_status)]
    routes += [] if page is None else [Route("/metrics", metrics)]
    return routes + ([] if recent is None else [Route("/api/metrics", report_recent)])


def _moment(text: str) -> float | None:
    try:
        moment = float(text)
    except ValueError:
        return None
    return moment if math.isfinite(moment) else None


MAX_QUESTION: Final = 4_096
CATALOG_HEADERS: Final = {**FRESH, "x-content-type-options": "nosniff"}


def catalog_routes(runtime: GatewayRuntime, count: Callable[[str], int], front: Front) -> list[Route]:
    """`/api/catalog` with a `query` or a `path`, and `top_k`, as the arguments of tool_browse.

    `count` counts tokens, as it does for models; `front` knows what the caller may see.
    """

    async def search(request: HttpRequest) -> Response:
        principal = principal_in(request.scope)
        name = None if principal is None else principal.name
        caller = Request(principal=name, rights=front.access.rights_of(principal))
        try:
            page = await runtime.find_page("tool", _read_question(request), caller)
        except GatewayError as error:
            status = 404 if error.code == "PATH_NOT_FOUND" else 400
            return JSONResponse(error.body.as_json(), status, CATALOG_HEADERS)
        return JSONResponse(_page_json(page, count), headers=CATALOG_HEADERS)

    return [Route("/api/catalog", search)]


def _read_question(request: HttpRequest) -> dict[str, Any]:
    """Query, path and top_k, as far as a URL can contain them; the gateway checks the rest."""
    values = request.query_params
    unknown = sorted(set(values) - {"query", "path", "top_k"})
    if unknown:
        raise GatewayError("ARGS_INVALID", "there are query, path and top_k", path=unknown[0][:240])
    if any(len(value) > MAX_QUESTION for value in values.values()):
        raise GatewayError("ARGS_INVALID", f"a question has at most {MAX_QUESTION} characters")
    top_k = values.get("top_k", str(DEFAULT_TOP_K))
    if not (top_k.isascii() and top_k.isdigit()):
        raise GatewayError("ARGS_INVALID", "top_k is a whole number")
    return {**values, "top_k": int(top_k)}


def _page_json(page: CardPage, count: Callable[[str], int]) -> dict[str, Any]:
    """The page for programs, each card with the line that a model reads, and `text`: all that a model reads."""
    lines = ((card, render_card(card)) for card in page.cards)
    cards = [{**card.as_json(), "line": line, "tokens": count(line)} for card, line in lines]
    return {**page.as_json(), "cards": cards, "note": NOTES[page.signal], "text": page.text()}


APPROVALS_PATH: Final = "/api/approvals"
MAX_DECISION: Final = 1_024  # bytes


def approval_routes(store: Approvals) -> list[Route]:
    """`GET /api/approvals`: the calls that wait for an operator. `POST /api/approvals/ID` with `{"approve": true}` or
    false answers one; 404 if it does not wait any more.

    A page of another site can make a browser send a form, but not JSON, and the browser adds the origin of the page.
    """

    async def list_approvals(request: HttpRequest) -> Response:
        try:
            return JSONResponse({"approvals": await pending_approvals(store)}, headers=CATALOG_HEADERS)
        except StoreError as error:
            return _store_failure(error)

    async def decide(request: HttpRequest) -> Response:
        approve, id = await _read_decision(request), request.path_params["id"]
        if isinstance(approve, Response):
            return approve
        try:
            approval = await store.decide(id, approve=approve) if id.isascii() else None
        except StoreError as error:
            return _store_failure(error)
        if approval is None:
            message = "no call waits for this approval: it was answered, or its caller has gone"
            return _refuse_decision(404, "RESOURCE_NOT_FOUND", message)
        principal = principal_in(request.scope)
        name, verb = "an operator" if principal is None else principal.name, "approved" if approve else "denied"
        log.info("%s %s the call %s of %s", name, verb, approval.about.get("tool_id"), approval.about.get("principal"))
        return JSONResponse({"id": id, "approved": approve}, headers=CATALOG_HEADERS)

    return [Route(APPROVALS_PATH, list_approvals), Route(f"{APPROVALS_PATH}/{{id}}", decide, methods=["POST"])]


async def pending_approvals(store: Approvals) -> list[dict[str, Any]]:
    """The calls that wait for an operator, as JSON: principal, server, tool, arguments and age in seconds."""
    now = time.time()
    return [_approval_json(approval, now) for approval in await store.list_pending()]


def _approval_json(approval: Approval, now: float) -> dict[str, Any]:
    created = float(approval.about.get("created", now))
    return {"id": approval.id, **approval.about, "age_seconds": round(max(0.0, now - created), 1)}


async def _read_decision(request: HttpRequest) -> bool | Response:
    """The answer in a request, or why it is not accepted."""
    if _is_of_another_site(request):
        return _refuse_decision(403, "PERMISSION_DENIED", "only pages of this gateway may answer")
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return _refuse_decision(415, "ARGS_INVALID", "the content type is application/json")
    try:
        body = read_json(await read_body(request.scope, request.receive, MAX_DECISION))
    except BodyTooLargeError:
        return _refuse_decision(413, "ARGS_INVALID", "the answer is too large")
    approve = body.get("approve") if isinstance(body, Mapping) else None
    message = "the answer is an object with approve, true or false"
    return approve if isinstance(approve, bool) else _refuse_decision(400, "ARGS_INVALID", message)


def _is_of_another_site(request: HttpRequest) -> bool:
    """Whether a browser sends this for a page of another origin; other programs send neither header."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site not in ("same-origin", "none")
    return origin is not None and urlsplit(origin).netloc != request.headers.get("host")


def _refuse_decision(status: int, code: ErrorCode, message: str) -> Response:
    return JSONResponse(ErrorBody(code, message).as_json(), status, CATALOG_HEADERS)


def _store_failure(error: StoreError) -> Response:
    log.warning("approvals cannot be read or answered: %s", error)
    return _refuse_decision(503, "STORE_UNAVAILABLE", "the store of the gateway cannot be reached now")


PAGE_FILE: Final = "page.html"
MEDIA_TYPES: Final[Mapping[str, str]] = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
# Trusted types without a policy: no text of a foreign server can become markup, even by a mistake of ours.
CONTENT_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
PAGE_HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # A newer gateway may run at this address at any time: browsers revalidate the files, and rarely load them again.
    "cache-control": "no-cache",
}


def dashboard_routes() -> list[Route]:
    return [
        _file_route("/" if file.name == PAGE_FILE else f"/dashboard/{file.name}", file.name, file.read_bytes())
        for file in files("leafgate.server").joinpath("dashboard").iterdir()
    ]


def _file_route(path: str, name: str, body: bytes) -> Route:
    headers = {**PAGE_HEADERS, "etag": f'"{digest_of(body)}"'}
    media_type = MEDIA_TYPES[name.rpartition(".")[2]]

    async def serve(request: HttpRequest) -> Response:
        if _matches_etag(request, headers["etag"]):
            return Response(status_code=304, headers=headers)
        return Response(body, headers={**headers, "content-type": media_type})

    return Route(path, serve)


CARD_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
CARD_TYPE: Final = "application/mcp-server-card+json"
CARD_HEADERS: Final = {"access-control-allow-origin": "*", "cache-control": "public, max-age=3600", "vary": "Host"}


def card_routes(endpoint_url: Callable[[Scope], str | None], path: str, *, needs_token: bool) -> list[Route]:
    """The server card of SEP-2127, which a client reads before it connects: identity, address, protocol versions.

    It names no server, tool or principal, and needs no token. `path` is that of the MCP endpoint.
    """
    is_sse = path != MCP_PATH
    versions = HANDSHAKE_PROTOCOL_VERSIONS if is_sse else (*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS)
    remote: dict[str, Any] = {
        "type": "sse" if is_sse else "streamable-http",
        "supportedProtocolVersions": [*versions],
    }
    if needs_token:
        header = {"name": "Authorization", "description": "Bearer TOKEN", "isRequired": True, "isSecret": True}
        remote["headers"] = [header]

    async def show(request: HttpRequest) -> Response:
        url = endpoint_url(request.scope)
        if url is None:
            return JSONResponse(ErrorBody("RESOURCE_NOT_FOUND", "the Host header has no usable name").as_json(), 404)
        host = urlsplit(url).hostname or ""
        is_name = not host.replace(".", "").isdigit() and ":" not in host
        card = {
            "$schema": CARD_SCHEMA,
            # The reverse of the host's name, as the schema demands; addresses have no reverse.
            "name": f"{'.'.join(reversed(host.split('.'))) if is_name else 'localhost'}/leafgate",
            "version": __version__,
            "title": "leafgate",
            "description": "An MCP gateway: the tools, resources and prompts of several servers at one address.",
            "remotes": [{**remote, "url": url}],
        }
        return JSONResponse(card, headers=CARD_HEADERS, media_type=CARD_TYPE)

    return [Route(f"{path}{CARD_SUFFIX}", show), Route(WELL_KNOWN_CARD, show)]


MAPS_PATH: Final = "/.well-known/codec/maps"
# A year, the usual maximum. Without `public`, so that shared caches do not bypass authentication.
FOREVER: Final = "max-age=31536000, immutable"
ASK_AGAIN: Final = "no-cache"
MAX_CACHED_BYTES: Final = 64 * 1024 * 1024
_SUFFIX: Final = ".json"


class MapLibrary(Protocol):
    """The maps that clients may have."""

    def entries(self) -> Sequence[MapSource]: ...

    def read_raw(self, digest: str) -> bytes:
        """Return the bytes of a map that `entries` lists; they have this digest. Blocks. Raises GatewayError."""
        ...


def map_routes(maps: MapLibrary) -> list[Route]:
    """Return the routes beside the MCP endpoint: the index, and each map by its id and by its digest."""
    library = _ServedMaps(maps)
    return [Route(f"{MAPS_PATH}/index.json", library.index), Route(f"{MAPS_PATH}/{{name:path}}", library.map)]


class _ServedMaps:
    """Reads and compresses a map once, however many clients request it. The least recently used are dropped first."""

    def __init__(self, maps: MapLibrary) -> None:
        self._maps = maps
        self._bodies: LRUCache[tuple[str, Encoding | None], bytes] = LRUCache(MAX_CACHED_BYTES, getsizeof=len)
        self._locks: dict[tuple[str, Encoding | None], anyio.Lock] = {}

    async def index(self, request: HttpRequest) -> Response:
        response = JSONResponse({"maps": [_index_entry(entry) for entry in self._maps.entries()]})
        response.headers.update({"etag": f'"{digest_of(bytes(response.body))}"', "cache-control": ASK_AGAIN})
        return NotModifiedResponse(response.headers) if _matches_etag(request, response.headers["etag"]) else response

    async def map(self, request: HttpRequest) -> Response:
        path = request.path_params["name"]
        name = path.removesuffix(_SUFFIX)
        digest = parse_digest(name) if is_digest(name) else None
        matches = (entry.digest for entry in self._maps.entries() if digest == entry.digest or name == entry.id)
        match = next(matches, None) if path.endswith(_SUFFIX) else None
        if match is None:
            message = f"no such map; {MAPS_PATH}/index.json lists the maps of this gateway"
            return JSONResponse(ErrorBody("RESOURCE_NOT_FOUND", message).as_json(), 404)
        encoding = choose_encoding(request.headers.get("accept-encoding", ""))
        headers = {
            "content-type": "application/json",
            "cache-control": ASK_AGAIN if digest is None else FOREVER,
            "vary": "Accept-Encoding",
            "etag": _etag(match, encoding),
        }
        if _matches_etag(request, *(_etag(match, form) for form in (None, *ENCODINGS))):
            return NotModifiedResponse(Headers(headers))
        try:
            body = await self._body(match, encoding)
        except GatewayError as error:
            wait = error.body.details.get("retry_after")
            again = {} if wait is None else {"retry-after": str(math.ceil(wait))}
            return JSONResponse(error.body.as_json(), 503, again)
        headers |= {"content-length": str(len(body))} | ({} if encoding is None else {"content-encoding": encoding})
        return Response(b"" if request.method == "HEAD" else body, headers=headers)

    async def _body(self, digest: str, encoding: Encoding | None) -> bytes:
        key = digest, encoding
        # One by one: a map that has to be fetched would otherwise occupy a thread for each client that waits.
        async with self._locks.setdefault(key, anyio.Lock()):
            body = self._bodies.get(key)
            if body is None:
                body = await to_thread.run_sync(self._read, digest, encoding)
                if len(body) <= MAX_CACHED_BYTES:
                    self._bodies[key] = body
        return body

    def _read(self, digest: str, encoding: Encoding | None) -> bytes:
        raw = self._maps.read_raw(digest)
        return raw if encoding is None else compress(raw, encoding)


def _index_entry(entry: MapSource) -> dict[str, object]:
    url = f"{MAPS_PATH}/{entry.digest}{_SUFFIX}"
    size, licence = entry.bytes, entry.licence
    return {"id": entry.id, "hash": entry.digest, "bytes": size, "url": url, "licence": licence, "source": entry.source}


def _etag(digest: str, form: Encoding | None) -> str:
    """Each encoding of a map has its own tag, because caches compare tags only."""
    return f'"{digest}"' if form is None else f'"{digest}-{form}"'


def _matches_etag(request: HttpRequest, *etags: str) -> bool:
    tags = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    return "*" in tags or any(etag in tags for etag in etags)
