"""An Upstream inside this process. In: tool definitions and what they answer. Out: the same, through the port.

For tests, for trying a catalog without its servers, and for machines without any. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leafgate.model.errors import UpstreamFailure
from leafgate.ports import Caller, ToolListing

Answer = Mapping[str, Any] | Callable[[Mapping[str, Any]], Mapping[str, Any]]


class StubUpstream:
    """Definitions with canned answers: a result, or a function from arguments to a result, by tool name."""

    def __init__(
        self, tools: Sequence[Mapping[str, Any]], *, answers: Mapping[str, Answer] | None = None, server: str = ""
    ) -> None:
        self._tools = tuple(tools)
        self._answers = dict(answers or {})
        self._server = server
        self.calls: list[tuple[str, Mapping[str, Any]]] = []

    async def list_tools(self) -> Sequence[ToolListing]:
        return [ToolListing(self._server, tool) for tool in self._tools]

    async def call_tool(
        self, server: str, name: str, args: Mapping[str, Any], caller: Caller | None = None
    ) -> Mapping[str, Any]:
        self.calls.append((name, args))
        answer = self._answers.get(name)
        if answer is None:
            return {"content": [{"type": "text", "text": f"{name} has no canned answer."}]}
        if not callable(answer):
            return answer
        try:
            return answer(args)
        except UpstreamFailure:
            raise
        except Exception as error:
            raise UpstreamFailure("UPSTREAM_ERROR", f"{type(error).__name__}: {error}") from error

    async def settled(self) -> None:
        return
