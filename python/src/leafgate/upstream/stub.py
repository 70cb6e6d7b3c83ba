"""An Upstream inside this process. In: tool definitions and what they answer. Out: the same, through the port.

For tests, for trying a catalog without its servers, and for machines without any. Touches nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from leafgate.ports import Caller, ToolListing
from leafgate.upstream.classify import classify

Result = Mapping[str, Any]
Answer = Result | Callable[[Mapping[str, Any]], Result | Awaitable[Result]]


class StubUpstream:
    """Definitions with canned answers: a result, or a function (async or not) from arguments to one, by tool name.

    What a function raises counts as its server's failure, classified like a live one's.
    """

    def __init__(
        self, tools: Sequence[Mapping[str, Any]], *, answers: Mapping[str, Answer] | None = None, server: str = ""
    ) -> None:
        # What is no object is no definition; a live server's list is read in the same way.
        self._tools = tuple(tool for tool in tools if isinstance(tool, Mapping))
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
            made = answer(args)
            return await made if inspect.isawaitable(made) else made
        except Exception as error:
            raise classify(error) from error

    async def settled(self) -> None:
        return
