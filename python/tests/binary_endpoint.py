"""What the tests of the binary transport share: a server that talks while it works, and endpoints on real ports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import anyio
import uvicorn
from mcp.server import Server, ServerRequestContext
from mcp.server.caching import CacheHint
from mcp.types import CallToolRequestParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from leafgate.codec.leaf import wrap_tool_call
from leafgate.model.leaf import CODEC_META_KEY
from leafgate.server.frames import CodecFrames
from leafgate.server.http import Web, bind, web_app
from leafgate.tokens.encoder import Encoder

PATIENCE = 60
STATELESS = "2026-07-28"
HANDSHAKE = "2025-11-25"
CLIENT_META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
Context = ServerRequestContext[Any, Any]


class TalkingServer(Server[Any]):
    """Its tools: `count` reports progress, and waits if told to; `ask` asks; `echo`, `make`, `leafs`, `odd` answer."""

    def __init__(self, encoder: Encoder | None = None) -> None:
        self.may_go_on = anyio.Event()
        self.calls: list[Mapping[str, Any]] = []
        self.wishes: list[Any] = []
        self.leaf: Mapping[str, Any] | None = None  # a text and ids that `leafs` answers with, right or wrong
        self._encoder = encoder
        super().__init__(
            "talking",
            cache_hints={"tools/list": CacheHint()},
            on_list_tools=self._list,  # type: ignore[arg-type]  # plain JSON is allowed
            on_call_tool=self._call,  # type: ignore[arg-type]  # likewise
        )

    async def _list(self, ctx: Context, params: Any) -> dict[str, Any]:
        names = ("count", "echo", "make", "leafs", "odd", "ask")
        return {"resultType": "complete", "tools": [{"name": n, "inputSchema": {"type": "object"}} for n in names]}

    async def _call(self, ctx: Context, params: CallToolRequestParams) -> dict[str, Any]:
        args = params.arguments or {}
        self.calls.append(args)
        self.wishes.append((ctx.params or {}).get("_meta", {}).get("ai.codec/accept"))
        tools: Mapping[str, Callable[..., Any]] = {
            "count": self._count,
            "echo": self._echo,
            "make": self._make,
            "leafs": self._leafs,
            "odd": self._odd,
            "ask": self._ask,
        }
        return {"resultType": "complete", **await tools[params.name](ctx, **args)}

    async def _count(self, ctx: Context, steps: int = 3, wait_after: int = 0) -> dict[str, Any]:
        for step in range(1, steps + 1):
            await ctx.session.report_progress(step, steps, f"step {step}")
            if step == wait_after:
                await self.may_go_on.wait()
        return _text("counted")

    async def _echo(self, ctx: Context, **args: Any) -> dict[str, Any]:
        return {**_text("echo"), "structuredContent": args}

    async def _make(self, ctx: Context, size: int) -> dict[str, Any]:
        words = "".join(f"line {number} of the text\n" for number in range(size // 10))
        return _text(words[:size])

    async def _leafs(self, ctx: Context, text: str, form: str = "both") -> dict[str, Any]:
        assert self._encoder is not None
        if self.leaf is not None:
            payload = {"map_id": self._encoder.map.digest, "ids": self.leaf["ids"]}
            return {"content": [{"type": "text", "text": self.leaf["text"], "_meta": {CODEC_META_KEY: payload}}]}
        wrapped = wrap_tool_call(_text(text), self._encoder)
        if form == "ids":
            wrapped = {**wrapped, "content": [{**wrapped["content"][0], "text": ""}]}
        return dict(wrapped)

    async def _odd(self, ctx: Context, what: str) -> dict[str, Any]:
        deep: Any = 1
        for _ in range(150):
            deep = [deep]
        values = {"surrogate": "x\ud800y", "huge": 10**30, "deep": deep}
        return {**_text(what), "structuredContent": {"value": values[what]}}

    async def _ask(self, ctx: Context) -> dict[str, Any]:
        schema = {"type": "object", "properties": {"flour": {"type": "string"}}}
        answer = await ctx.session.elicit_form("Which flour?", schema, ctx.request_id)
        return _text(f"{answer.action}: {answer.content}")


def _text(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


class _Http(uvicorn.Server):
    """Leaves the test run's signals alone, and tells when it is up."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = anyio.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.up.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[str]:
    """The app on a free port, as the gateway serves it; its URL."""
    with bind("127.0.0.1", 0) as listener:
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=1)
        http = _Http(config)
        async with anyio.create_task_group() as group:
            group.start_soon(partial(http.serve, sockets=[listener]))
            with anyio.fail_after(PATIENCE):
                await http.up.wait()
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
            finally:
                http.should_exit = True


@asynccontextmanager
async def endpoint(server: Server[Any] | None = None, *, binary: bool = True, **options: Any) -> AsyncIterator[str]:
    """An MCP server at a URL, with the binary transport round it or without."""
    app = web_app(server or TalkingServer(), Web())
    async with served(CodecFrames(app, **options) if binary else app) as url:
        yield url


class Recorder:
    """Writes down what it is sent, and answers each request with the next answer; the last one is given again."""

    def __init__(self, *answers: Response) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[str, dict[str, str], bytes]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        request = Request(scope, receive)
        self.requests.append((request.method, dict(request.headers), await request.body()))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        await answer(scope, receive, send)
