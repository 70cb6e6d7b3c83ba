"""What a request to the MCP endpoint wants of the binary transport (spec 6.4.3). In: its scope. Out: a FrameWish.

Touches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs

from mcp.types import INVALID_REQUEST
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Scope

from leafgate.codec.compression import ENCODINGS, Encoding, choose_encoding, weights
from leafgate.codec.frames import CONTENT_TYPE

JSON_TYPE: Final = "application/json"
SSE_TYPE: Final = "text/event-stream"
FORMAT_PARAMETER: Final = "stream_format"

_MARK: Final = CONTENT_TYPE.encode()
_NAMING: Final = (b"accept", b"content-type")


class Refusal(Exception):
    """A request that ends here, with a status and a JSON-RPC error."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True)
class FrameWish:
    """Whether the answer is to be frames, or JSON by name, and in which encoding; whether the body is msgpack."""

    wants_frames: bool
    wants_json: bool
    encoding: Encoding | None
    sends_packed: bool
    method: str

    @property
    def is_binary(self) -> bool:
        return self.wants_frames or self.sends_packed


def is_plain(scope: Scope) -> bool:
    """Whether a request surely wants nothing of the binary transport, as nearly every one does."""
    if scope["query_string"]:
        return False
    return not any(_MARK in value.lower() for name, value in scope["headers"] if name in _NAMING)


def read_wish(scope: Scope) -> FrameWish:
    """The query beats Accept. Refusal where the query names no format of ours."""
    headers = Headers(scope=scope)
    chosen = _chosen_format(scope["query_string"])
    return FrameWish(
        wants_frames=chosen == "msgpack" or (chosen is None and prefers_frames(_joined(headers, "accept"))),
        wants_json=chosen == "json",
        encoding=choose_encoding(_joined(headers, "accept-encoding")),
        sends_packed=scope["method"] == "POST" and media_type(headers) == CONTENT_TYPE,
        method=scope["method"],
    )


def prefers_frames(accept: str) -> bool:
    """Only a client that names frames can read them: a wildcard does not ask for them."""
    wanted = weights(accept)
    return wanted.get(CONTENT_TYPE, 0.0) > 0 and wanted[CONTENT_TYPE] >= wanted.get(JSON_TYPE, 0.0)


def media_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def body_encoding(headers: Headers) -> Encoding | None:
    """How the request's body is compressed; Refusal where we cannot undo it."""
    named = _joined(headers, "content-encoding").strip().lower()
    if named in ("", "identity"):
        return None
    for encoding in ENCODINGS:
        if named == encoding:
            return encoding
    raise Refusal(
        415, INVALID_REQUEST, f"a body may be encoded as {' or '.join(ENCODINGS)}, not both, and nothing else"
    )


def scope_for_json(scope: Scope, wish: FrameWish, json_body: bytes | None) -> Scope:
    """The request as a JSON client would have sent it."""
    headers = MutableHeaders(raw=list(scope["headers"]))
    if wish.wants_frames or wish.wants_json:
        headers["accept"] = f"{JSON_TYPE}, {SSE_TYPE}"
    if wish.wants_frames:
        del headers["accept-encoding"]
    if json_body is not None:
        del headers["content-encoding"]
        del headers["transfer-encoding"]
        headers["content-type"] = JSON_TYPE
        headers["content-length"] = str(len(json_body))
    return {**scope, "headers": headers.raw}


def _chosen_format(query: bytes) -> str | None:
    named = parse_qs(query.decode("latin-1"), keep_blank_values=True).get(FORMAT_PARAMETER)
    if named is None:
        return None
    if named[-1] not in ("msgpack", "json"):
        raise Refusal(400, INVALID_REQUEST, f"{FORMAT_PARAMETER} is msgpack or json")
    return named[-1]


def _joined(headers: Headers, name: str) -> str:
    return ",".join(headers.getlist(name))
