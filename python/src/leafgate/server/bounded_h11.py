"""HTTP connections with deadlines, by the parser that is always there. In: bytes. Out: uvicorn's requests.

Touches the connection. The parser, h11, bounds the size of a request's head itself.
"""

from __future__ import annotations

from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from leafgate.server.deadlines import BODY_SECONDS, HEAD_SECONDS, Deadlines


class BoundedH11(Deadlines, H11Protocol):
    """A connection whose requests come within a bounded time."""

    _awaited: Any = h11.IDLE

    def handle_events(self) -> None:
        super().handle_events()
        awaited = self.conn.their_state
        if awaited is not self._awaited:
            self._awaited = awaited
            self.expect_within({h11.IDLE: HEAD_SECONDS, h11.SEND_BODY: BODY_SECONDS}.get(awaited))
