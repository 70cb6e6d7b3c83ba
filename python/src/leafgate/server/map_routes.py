"""Serves the gateway's maps under /.well-known/codec/maps. In: GET and HEAD. Out: a map's raw bytes, or the index.

Touches what it is given: files are read in threads, so the event loop never waits for a disk. Packed bodies are made
once per map and kept within a bound. The bytes of a map are those its digest names: nothing is parsed or re-written.
"""

from __future__ import annotations

import math
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import BinaryIO, Final, Protocol

import anyio
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from leafgate.codec.compression import ENCODINGS, Encoding, choose_encoding, compress
from leafgate.model.errors import ErrorBody, GatewayError
from leafgate.model.leaf import digest_of, is_digest, parse_digest

MAPS_PATH: Final = "/.well-known/codec/maps"
# A year, which is as long as HTTP has a word for; without `public`, so that no shared cache goes round a login.
FOREVER: Final = "max-age=31536000, immutable"
ASK_AGAIN: Final = "no-cache"
MAX_PACKED_BYTES: Final = 64 * 1024 * 1024
_CHUNK: Final = 256 * 1024
_SUFFIX: Final = ".json"


class ListedMap(Protocol):
    """A map as the index shows it."""

    @property
    def id(self) -> str: ...

    @property
    def digest(self) -> str | None: ...

    @property
    def bytes(self) -> int | None: ...

    @property
    def source(self) -> str: ...

    @property
    def licence(self) -> str: ...


class MapLibrary(Protocol):
    """The maps that clients may have."""

    def entries(self) -> Sequence[ListedMap]: ...

    def open_raw(self, digest: str) -> BinaryIO:
        """The file of a map that `entries` lists, known to have this digest. Blocks. Raises GatewayError."""
        ...


def map_routes(maps: MapLibrary) -> list[Route]:
    """The routes, to be put beside the MCP endpoint: the index, and each map by its id and by its digest."""
    served = _ServedMaps(maps)
    return [Route(f"{MAPS_PATH}/index.json", served.index), Route(f"{MAPS_PATH}/{{name:path}}", served.map)]


class _ServedMaps:
    def __init__(self, maps: MapLibrary) -> None:
        self._maps = maps
        self._packed = _PackedMaps(maps)
        self._opening: dict[str, anyio.Lock] = {}

    async def index(self, request: Request) -> Response:
        response = JSONResponse({"maps": [_listed(entry) for entry in self._maps.entries()]})
        response.headers.update({"etag": f'"{digest_of(bytes(response.body))}"', "cache-control": ASK_AGAIN})
        return _not_modified(response.headers) if _is_known(request, response.headers["etag"]) else response

    async def map(self, request: Request) -> Response:
        name = request.path_params["name"]
        digest = self._digest(name.removesuffix(_SUFFIX)) if name.endswith(_SUFFIX) else None
        if digest is None:
            missing = ErrorBody(
                "RESOURCE_NOT_FOUND", f"no such map; {MAPS_PATH}/index.json lists the maps of this gateway"
            )
            return JSONResponse(missing.as_json(), 404)
        headers = {
            "content-type": "application/json",
            "cache-control": FOREVER if is_digest(name.removesuffix(_SUFFIX)) else ASK_AGAIN,
            "vary": "Accept-Encoding",
        }
        try:
            return await self._answer(request, digest, headers)
        except GatewayError as error:
            wait = error.body.details.get("retry_after")
            again = {} if wait is None else {"retry-after": str(math.ceil(wait))}
            return JSONResponse(error.body.as_json(), 503, again)

    def _digest(self, name: str) -> str | None:
        digest = parse_digest(name) if is_digest(name) else None
        matches = (entry.digest for entry in self._maps.entries() if digest == entry.digest or name == entry.id)
        return next(matches, None)

    async def _answer(self, request: Request, digest: str, headers: Mapping[str, str]) -> Response:
        encoding = choose_encoding(request.headers.get("accept-encoding", ""))
        if _is_known(request, *(_etag(digest, form) for form in (None, *ENCODINGS))):
            return _not_modified({**headers, "etag": _etag(digest, encoding)})
        packed = None if encoding is None else await self._packed.get(digest, encoding)
        if packed is not None and encoding is not None:
            of_form = {
                "etag": _etag(digest, encoding),
                "content-encoding": encoding,
                "content-length": str(len(packed)),
            }
            return Response(b"" if request.method == "HEAD" else packed, headers={**headers, **of_form})
        # One by one: a map that has to be fetched first would else hold a thread for everybody who waits for it.
        async with self._opening.setdefault(digest, anyio.Lock()):
            file = await to_thread.run_sync(self._maps.open_raw, digest)
        plain = {**headers, "etag": _etag(digest, None), "content-length": str(os.fstat(file.fileno()).st_size)}
        if request.method == "HEAD":
            file.close()
            return Response(headers=plain)
        return _FileStream(file, plain)


class _PackedMaps:
    """Maps as gzip or zstd, each made once, however many ask for it at the same time; the longest unused go first."""

    def __init__(self, maps: MapLibrary) -> None:
        self._maps = maps
        self._bodies: OrderedDict[tuple[str, Encoding], bytes] = OrderedDict()
        self._making: dict[tuple[str, Encoding], anyio.Lock] = {}

    async def get(self, digest: str, encoding: Encoding) -> bytes | None:
        """None where it would not fit; the map is then served as it is."""
        wanted = digest, encoding
        async with self._making.setdefault(wanted, anyio.Lock()):
            if wanted not in self._bodies:
                self._bodies[wanted] = await to_thread.run_sync(self._pack, digest, encoding)
            self._bodies.move_to_end(wanted)
        while sum(map(len, self._bodies.values())) > MAX_PACKED_BYTES:
            self._bodies.popitem(last=False)
        return self._bodies.get(wanted)

    def _pack(self, digest: str, encoding: Encoding) -> bytes:
        with self._maps.open_raw(digest) as file:
            return compress(file.read(), encoding)


class _FileStream(StreamingResponse):
    """Sends a file piece by piece, and closes it however the sending ends."""

    def __init__(self, file: BinaryIO, headers: Mapping[str, str]) -> None:
        super().__init__(self._pieces(), headers=headers)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()

    async def _pieces(self) -> AsyncIterator[bytes]:
        while piece := await to_thread.run_sync(self._file.read, _CHUNK):
            yield piece


def _listed(entry: ListedMap) -> dict[str, object]:
    return {
        "id": entry.id,
        "hash": entry.digest,
        "bytes": entry.bytes,
        "url": f"{MAPS_PATH}/{entry.digest}{_SUFFIX}",
        "licence": entry.licence,
        "source": entry.source,
    }


def _etag(digest: str, form: Encoding | None) -> str:
    """Two forms of one map are two things to a cache."""
    return f'"{digest}"' if form is None else f'"{digest}-{form}"'


def _is_known(request: Request, *etags: str) -> bool:
    asked = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    return "*" in asked or any(etag in asked for etag in etags)


def _not_modified(headers: Mapping[str, str]) -> Response:
    kept = {name: headers[name] for name in ("etag", "cache-control", "vary") if name in headers}
    return Response(status_code=304, headers=kept)
