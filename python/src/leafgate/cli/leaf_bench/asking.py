"""The client that asks: MCP over one HTTP connection. In: a tool, a form, what it accepts. Out: the answer's bytes.

Touches loopback. It is as lean as the standard library allows, so that what is timed is the gateway. Each request says
who asks (2026-07-28), and has the same id: equal questions have equal answers, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from time import perf_counter
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

from leafgate.client.era import Stateless
from leafgate.codec.negotiate import ACCEPT_META_KEY
from leafgate.model.call import Form
from leafgate.model.errors import LeafgateError

TOOL: Final = "text"
ANSWER_SECONDS: Final = 60
JSON_ONLY: Final = "application/json, text/event-stream"


@dataclass(frozen=True)
class Answer:
    """The body as it came, and how long it took from the first byte sent to the last one read."""

    body: bytes
    seconds: float
    media_type: str
    encoding: str


class Asking:
    """One connection to a gateway. A gateway closes one that is idle for seconds: open it anew for each round."""

    def __init__(self, url: str) -> None:
        self._http = HTTPConnection(urlsplit(url).netloc, timeout=ANSWER_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def call(
        self, server: str, text: str, wish: Mapping[str, Any], *, accept: str = JSON_ONLY, encoding: str = "identity"
    ) -> Answer:
        """The text of this name, from this server."""
        era = Stateless()
        params = {"name": f"{server}__{TOOL}", "arguments": {"name": text}, "_meta": {**era.meta, **wish}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {
            "content-type": "application/json",
            "accept": accept,
            "accept-encoding": encoding,
            **era.headers("tools/call", params),
        }
        return self._ask("POST", "/mcp", json.dumps(message, separators=(",", ":")).encode(), headers)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._ask("GET", "/status", None, {}).body)
        return found

    def _ask(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        started = perf_counter()
        try:
            self._http.request(method, path, body, dict(headers))
            with closing(self._http.getresponse()) as response:
                read = response.read()
        except (OSError, HTTPException) as error:
            raise LeafgateError(f"the measured gateway did not answer: {type(error).__name__}") from None
        seconds = perf_counter() - started
        if response.status != 200:
            raise LeafgateError(f"the measured gateway answered with HTTP {response.status}: {read[:300]!r}")
        kind, coding = response.getheader("content-type", ""), response.getheader("content-encoding", "identity")
        return Answer(read, seconds, kind, coding)


def wish_for(map_digest: str, form: Form) -> dict[str, Any]:
    """What a request's `_meta` says to be given ids (spec 6.1)."""
    return {ACCEPT_META_KEY: {"map_id": map_digest, "form": form}}
