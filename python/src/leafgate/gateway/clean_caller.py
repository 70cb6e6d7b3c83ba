"""What a server says to its caller during a call, clean. In: a Caller and a Cleaner. Out: a Caller.

Awaits the caller that it wraps. Progress, log lines and questions are foreign content that is no result: without this
they would go round the firewall.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from leafgate.firewall.cleaner import Cleaner
from leafgate.gateway.clean_value import clean_value
from leafgate.ports import Caller

# Addresses that a person is sent to, and the bytes of images and sounds.
_OPAQUE: Final = ("url", "uri", "data", "blob")


class CleanCaller:
    """A Caller."""

    def __init__(self, inner: Caller, cleaner: Cleaner) -> None:
        self._inner = inner
        self._cleaner = cleaner

    @property
    def owner(self) -> str:
        return self._inner.owner

    @property
    def takes_input_requests(self) -> bool:
        return self._inner.takes_input_requests

    @property
    def resume(self) -> Mapping[str, Any]:
        return self._inner.resume

    @property
    def capabilities(self) -> Mapping[str, Any]:
        return self._inner.capabilities

    @property
    def log_level(self) -> str | None:
        return self._inner.log_level

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        if message is not None:
            message = (await clean_value({"message": message}, self._cleaner))["message"]
        await self._inner.progress(progress, total, message)

    async def log(self, params: Mapping[str, Any]) -> None:
        await self._inner.log(await clean_value(params, self._cleaner))

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._inner.ask(method, await clean_value(params, self._cleaner, keep=_OPAQUE))
