"""Nothing more is said to somebody who is known no longer. In: an answer on its way. Out: it, or a refusal, or its end.

Touches the clock. A call may take minutes and a stream stand for hours; meanwhile a token can be taken back, or expire.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from leafgate.ports import Clock

ASK_AGAIN_SECONDS: Final = 5.0


class WhileKnown:
    """The way of one answer to its client.

    `rules` gives the rules that hold now: while they are the same object, and were asked lately, nothing is asked.
    `refusal` asks them again: None where the client is still who it was.
    """

    def __init__(
        self,
        connection: tuple[Scope, Receive, Send],
        rules: Callable[[], object],
        refusal: Callable[[], Awaitable[Response | None]],
        clock: Clock = time.monotonic,
    ) -> None:
        self._connection = connection
        self._rules = rules
        self._refusal = refusal
        self._clock = clock
        self._asked = (rules(), clock())
        self._is_stream = False
        self._is_over = False

    async def send(self, message: Message) -> None:
        if self._is_over:
            return
        starts = message["type"] == "http.response.start"
        if starts:
            # A body whose length was told cannot be ended early; it goes out at once behind its headers.
            self._is_stream = "content-length" not in Headers(raw=message.get("headers", []))
        if (starts or self._is_stream) and not self._is_recent():
            refused = await self._refusal()
            self._asked = (self._rules(), self._clock())
            if refused is not None:
                await self._end(None if not starts else refused)
                return
        await self._connection[2](message)

    def _is_recent(self) -> bool:
        rules, moment = self._asked
        return rules is self._rules() and self._clock() - moment < ASK_AGAIN_SECONDS

    async def _end(self, instead: Response | None) -> None:
        """The refusal where nothing has been said yet; else the stream ends, and its server hears of it as of a client
        that has gone."""
        self._is_over = True
        if instead is not None:
            await instead(*self._connection)
        else:
            await self._connection[2]({"type": "http.response.body", "body": b"", "more_body": False})
