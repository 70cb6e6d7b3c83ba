"""contextweaver as a library under measurement. Runs in its own environment; see worker_loop.

Tools are named `server.tool`, as its documentation says that a server's `namespace` does. `wide` is the widest search
that its settings allow.
"""

from __future__ import annotations

from typing import Any

from contextweaver.adapters import ProxyRuntime, StubUpstream
from contextweaver.adapters.mcp_gateway import dispatch_meta_tool
from worker_loop import READ, Entry, journal, serve


async def _called(name: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": journal(args)}], "isError": False}


class Contextweaver:
    """A Library."""

    def __init__(self, entries: list[Entry], wide: bool) -> None:
        listed = [{**entry["tool"], "name": f"{entry['server']}.{entry['tool']['name']}"} for entry in entries]
        upstream = StubUpstream(listed, _called)
        self._names = {f"{entry['server']}.{entry['tool']['name']}": entry for entry in entries}
        self._runtime = ProxyRuntime(upstream, beam_width=10) if wide else ProxyRuntime(upstream)

    async def refresh(self) -> int:
        return await self._runtime.refresh_catalog()

    async def browse(self, query: str) -> list[tuple[str, str]]:
        entries = [self._names[card.name] for card in self._runtime.browse(query=query)]
        return [(entry["server"], entry["tool"]["name"]) for entry in entries]

    async def page(self, query: str) -> str:
        return await self._told("tool_browse", {"query": query})

    async def find_journal(self) -> str:
        return next(item.id for item in self._runtime.catalog.all() if item.name.endswith(READ["name"]))

    async def execute(self, tool_id: str, args: dict[str, Any]) -> str:
        return await self._told("tool_execute", {"tool_id": tool_id, "args": args})

    async def _told(self, name: str, args: dict[str, Any]) -> str:
        """What its server sends for a meta-tool: this function's texts, unchanged."""
        result = await dispatch_meta_tool(self._runtime, name, args)
        assert not result.get("isError"), result
        return "".join(part["text"] for part in result["content"])


if __name__ == "__main__":
    serve(Contextweaver)
