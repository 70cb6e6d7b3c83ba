"""leafgate as a library under measurement. Runs in the project's environment; see worker_loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from worker_loop import READ, Entry, journal, serve

from leafgate import ProxyRuntime
from leafgate.model.request import ClientChannel
from leafgate.ports import ToolListing


class Servers:
    """An Upstream of many servers in one process, as a fleet is to the gateway."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._listed = [ToolListing(entry["server"], entry["tool"]) for entry in entries]

    async def list_tools(self) -> Sequence[ToolListing]:
        return self._listed

    async def call_tool(
        self, server: str, name: str, args: Mapping[str, Any], caller: ClientChannel | None = None
    ) -> Mapping[str, Any]:
        return {"content": [{"type": "text", "text": journal(dict(args))}]}

    async def settled(self) -> None:
        return


class Leafgate:
    """A Library."""

    def __init__(self, entries: list[Entry], wide: bool) -> None:
        self._runtime = ProxyRuntime(Servers(entries))

    async def refresh(self) -> int:
        await self._runtime.refresh_catalog()
        return len(self._runtime.catalog)

    async def browse(self, query: str) -> list[tuple[str, str]]:
        return [(card.namespace, card.name) for card in await self._runtime.browse(query)]

    async def page(self, query: str) -> str:
        return (await self._runtime.browse(query)).text

    async def find_journal(self) -> str:
        return next(item.id for item in self._runtime.catalog if item.upstream_name == READ["name"])

    async def execute(self, tool_id: str, args: dict[str, Any]) -> str:
        return (await self._runtime.execute(tool_id, args)).text


if __name__ == "__main__":
    serve(Leafgate)
