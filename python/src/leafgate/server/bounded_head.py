"""HTTP connections that a client cannot hold, or fill, before its request is there. In: bytes. Out: uvicorn's requests.

Touches the connection. The faster parser of the extra `fast` bounds neither the size of a request's head nor the time
that a request takes to come; the other one, h11, bounds the size itself.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES: Final = 65_536
HEAD_SECONDS: Final = 20.0
BODY_SECONDS: Final = 60.0

_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class BoundedHead(HttpToolsProtocol):
    """A connection whose requests have heads of a bounded size, and come within a bounded time."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._is_in_head = True
        self._head_bytes = 0
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._close_after(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._close_after(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_in_head and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self.transport.write(_TOO_LARGE)
                self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True
        self._head_bytes = 0
        self._close_after(HEAD_SECONDS)

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._close_after(BODY_SECONDS)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._close_after(None)
        super().on_message_complete()

    def _close_after(self, seconds: float | None) -> None:
        """Sets the time by which the next part of a request is there; None while none is awaited."""
        if self._late is not None:
            self._late.cancel()
            self._late = None
        if seconds is not None:
            self._late = asyncio.get_running_loop().call_later(seconds, self.transport.close)
