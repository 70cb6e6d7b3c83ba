"""HTTP connections that a client cannot hold, or fill, before its request is there. In: bytes. Out: uvicorn's requests.

Touches the connection. The faster parser of the extra `fast` bounds neither the size of a request's head nor the time
that a request takes to come.
"""

from __future__ import annotations

from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from leafgate.server.deadlines import BODY_SECONDS, HEAD_SECONDS, Deadlines

MAX_HEAD_BYTES: Final = 65_536

_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class BoundedHead(Deadlines, HttpToolsProtocol):
    """A connection whose requests have heads of a bounded size, and come within a bounded time."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._is_in_head = True
        self._head_bytes = 0
        self._answering: Any = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answering is not None:  # uvicorn tells only the last of several requests that came at once
            self._answering.disconnected = True
            self._answering.message_event.set()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

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
        self.expect_within(HEAD_SECONDS)

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self.expect_within(BODY_SECONDS)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.expect_within(None)
        super().on_message_complete()
