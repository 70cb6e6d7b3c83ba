"""One request and what comes back for it. In: a message. Out: its result. Touches the network, through a Wire.

On the way to the result progress is told, a server's questions are answered, and a broken stream is taken up again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final

import anyio

from leafgate.client.era import Era
from leafgate.client.errors import AnswerInvalid, HttpRefusal, RpcError, ServerUnreachable
from leafgate.client.wire import Answer, Wire
from leafgate.codec.frames import EVENT_ID_HEADER, Message

METHOD_NOT_FOUND: Final = -32601
RESUME_TRIES: Final = 3
RESUME_SECONDS: Final = 1.0
REST_SECONDS: Final = 1.0

OnProgress = Callable[[float, float | None, str | None], Awaitable[None]]


class Exchange:
    """A request under way. Progress that was told already is not told again."""

    def __init__(self, wire: Wire, era: Era, message: Message, on_progress: OnProgress | None = None) -> None:
        self._wire = wire
        self._era = era
        self._message = message
        self._on_progress = on_progress
        self._reached = float("-inf")
        self.session_id: str | None = None

    async def result(self) -> Message:
        """Raises a ClientError."""
        place: str | None = None
        found: Message | None = None
        headers = self._era.headers(self._message["method"], self._message["params"])
        try:
            async with self._wire.post(self._message, headers) as answer:
                place = answer.headers.get(EVENT_ID_HEADER)
                self.session_id = answer.headers.get("mcp-session-id")
                status = answer.status
                found = await self._listen(answer)
                await _read_rest(answer)
        except ServerUnreachable:
            if place is None:
                raise
        if found is None and place is not None:
            found = await self._resume(place)
        return _result_of(found, status)

    async def _resume(self, place: str) -> Message:
        """A stream that broke, or that the server closed to be asked again, is read on from its beginning."""
        for _ in range(RESUME_TRIES):
            await anyio.sleep(RESUME_SECONDS)
            with suppress(ServerUnreachable):
                async with self._wire.resume(place, self._era.headers("", {})) as answer:
                    found = await self._listen(answer)
                if found is not None:
                    return found
        raise ServerUnreachable("the stream of the answer broke, and could not be taken up again")

    async def _listen(self, answer: Answer) -> Message | None:
        """The message that answers the request; what comes before it is dealt with on the way."""
        async for message in answer.messages:
            if "method" not in message:
                if message.get("id") == self._message["id"] or (message.get("id") is None and "error" in message):
                    return message
            elif "id" in message:
                await tell(self._wire, self._era, _reply(message))
            elif message["method"] == "notifications/progress":
                await self._note(message.get("params"))
        return None

    async def _note(self, params: object) -> None:
        if self._on_progress is None or not isinstance(params, Mapping):
            return
        progress, total, text = params.get("progress"), params.get("total"), params.get("message")
        if params.get("progressToken") != self._message["id"] or not isinstance(progress, int | float):
            return
        if progress > self._reached:
            self._reached = progress
            known_total = total if isinstance(total, int | float) else None
            await self._on_progress(progress, known_total, text if isinstance(text, str) else None)


async def tell(wire: Wire, era: Era, message: Message) -> None:
    """Sends a message that has no answer."""
    async with wire.post(message, era.headers("", {})) as answer:
        if answer.status >= 400:
            raise HttpRefusal(answer.status)
        await _read_rest(answer)


async def _read_rest(answer: Answer) -> None:
    """A connection is used again only if its answer was read to the end, which is near once the result is there."""
    with suppress(AnswerInvalid), anyio.move_on_after(REST_SECONDS):
        async for _ in answer.messages:
            pass


def _result_of(answer: Message | None, status: int) -> Message:
    if answer is None:
        if status >= 300:
            raise HttpRefusal(status)
        raise AnswerInvalid("the answer ended without a result")
    error = answer.get("error")
    if isinstance(error, Mapping) and isinstance(error.get("code"), int):
        raise RpcError(error["code"], str(error.get("message")), error.get("data"))
    if status >= 300:
        raise HttpRefusal(status)
    result = answer.get("result")
    if not isinstance(result, dict):
        raise AnswerInvalid("the answer has neither a result nor an error")
    return result


def _reply(asked: Message) -> Message:
    """This client has nothing to ask a person or a model with, and says so; it is alive, and says that too."""
    if asked["method"] == "ping":
        return {"jsonrpc": "2.0", "id": asked["id"], "result": {}}
    error = {"code": METHOD_NOT_FOUND, "message": "this client does not offer it"}
    return {"jsonrpc": "2.0", "id": asked["id"], "error": error}
