"""HTTP connections with deadlines, by the parser that is always there. In: bytes. Out: uvicorn's requests.

Touches the connection. The parser, h11, bounds the size of a request's head itself.
"""

from __future__ import annotations

from typing import Literal

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from leafgate.server.deadlines import BODY_SECONDS, HEAD_SECONDS, Deadlines


class BoundedH11(Deadlines, H11Protocol):
    """A connection whose requests come within a bounded time."""

    _awaited: Literal["head", "body"] | None = "head"

    def handle_events(self) -> None:
        super().handle_events()
        awaited = self._part()
        if awaited != self._awaited:
            self._awaited = awaited
            self.expect_within(None if awaited is None else HEAD_SECONDS if awaited == "head" else BODY_SECONDS)

    def _part(self) -> Literal["head", "body"] | None:
        """What of a request has begun to come. Between two requests nothing has: that is what keep-alive is for."""
        if self.conn.their_state is h11.SEND_BODY:
            return "body"
        return "head" if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0] else None
