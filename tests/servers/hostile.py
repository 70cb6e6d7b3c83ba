"""MCP servers without any SDK that try to harm other servers behind the same gateway; and a good one to compare with.

    hostile.py KIND          on stdio
    hostile.py gzip PORT     over HTTP

Each kind stands for one way in which a server could cost others: the tests of isolation run them side by side.
"""

import json
import os
import sys
import threading
import time
import zlib
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, cycle
from typing import Any

KIND = sys.argv[1]
SIZE = int(float(os.environ.get("HOSTILE_MEGABYTES", "8")) * 1_000_000)
FLOOD = int(os.environ.get("HOSTILE_FLOOD", "20000"))
OUT = sys.stdout.buffer
OUT_LOCK = threading.Lock()
NUMBERS = count(1)

# Texts that make a search for secrets or markers try again at every byte.
BOMBS = cycle(("password=", "<|", "sk-", "ghp_", "eyJ.", "[INST", "api_key: '", "AKIA", "](", "\u200b<", "-----BEGIN "))
MALFORMED = cycle(("bytes", "deep", "digits", "text-id", "cut", "none-id"))


def write(data: bytes) -> None:
    with OUT_LOCK:
        OUT.write(data)
        OUT.flush()


def send(message: dict[str, Any]) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def text(content: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": content}]}


def tool(name: str, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema, **more}


# What each kind does when its tool `act` is called. None: the call is answered elsewhere, or never.


def clean_bomb(request: dict[str, Any]) -> dict[str, Any] | None:
    bomb = next(BOMBS)
    return text((bomb * (SIZE // len(bomb) + 1))[:SIZE])


def large_answer(request: dict[str, Any]) -> dict[str, Any] | None:
    return text("a line of a large result, which nobody needs\n" * (4 * SIZE // 45))


def unanswered_question(request: dict[str, Any]) -> dict[str, Any] | None:
    schema = {"type": "object", "properties": {"flour": {"type": "string"}}}
    question = {"message": "Which flour?", "requestedSchema": schema}
    send({"id": f"q{request['id']}", "method": "elicitation/create", "params": question})
    for number in range(FLOOD // 10):
        send({"method": "notifications/message", "params": {"level": "error", "data": f"line {number}" + "x" * 500}})
    return text("asked")


def flood_of_progress(request: dict[str, Any]) -> dict[str, Any] | None:
    token = request["params"].get("_meta", {}).get("progressToken")
    for step in range(1, FLOOD + 1):
        params = {"progressToken": token, "progress": step, "total": FLOOD, "message": f"step {step}"}
        send({"method": "notifications/progress", "params": params})
    mine = request["id"]
    head, tail = f'{{"jsonrpc":"2.0","id":{mine},"result":{{"content":[],"structuredContent":'.encode(), b"}}\n"
    answers = {
        "bytes": head + b'"\xff\xfe\xc3\x28"' + tail,
        "deep": head + b"[" * 50_000 + b"]" * 50_000 + tail,
        "digits": head + b"9" * 50_000 + tail,
        "text-id": json.dumps({"jsonrpc": "2.0", "id": str(mine), "result": text("not yours")}).encode() + b"\n",
        "cut": head + b'"never ends\n',
        "none-id": b'{"jsonrpc":"2.0","id":null,"result":{}}\n',
    }
    kind = next(MALFORMED)
    write(answers[kind])
    return text("after it") if kind in ("text-id", "cut", "none-id") else None


def echo(request: dict[str, Any]) -> dict[str, Any] | None:
    return text(request["params"].get("arguments", {}).get("text", ""))


ACTS = {
    "good": echo,
    "cleaning": clean_bomb,
    "definitions": echo,
    "memory": large_answer,
    "churn": echo,
    "questions": unanswered_question,
    "progress": flood_of_progress,
}


# What each kind lists


def malformed_definitions() -> dict[str, list[Any]]:
    """A good tool, and definitions of which each has one wrong field."""
    wrong: list[Any] = [5, None, "x", [], {}, {"name": 5}, {"name": None}, {"name": ""}]
    fields: list[dict[str, Any]] = [
        {"description": 7},
        {"title": []},
        {"annotations": {"readOnlyHint": "perhaps"}},
        {"annotations": 3},
        {"annotations": {"priority": 9}},
        {"icons": "one"},
        {"_meta": [1]},
        {"inputSchema": "any"},
        {"inputSchema": {"type": 5}},
        {"outputSchema": [True]},
        {"execution": {"taskSupport": 7}},
    ]
    tools = [tool("act"), *wrong, *(tool(f"wrong_{n}", **field) for n, field in enumerate(fields))]
    resource = {"uri": "file:///a", "name": "a"}
    resources = [resource, *wrong, *({**resource, "uri": f"file:///{n}", **f} for n, f in enumerate(fields))]
    more = [{"size": "big"}, {"mimeType": 5}, {"annotations": {"audience": "all"}}, {"annotations": {"priority": "1"}}]
    resources += [{**resource, "uri": f"file:///more{n}", **field} for n, field in enumerate(more)]
    prompts = [*wrong, {"name": "p", "arguments": "none"}, {"name": "p2", "arguments": [5, {"name": 5}]}]
    return {"tools": tools, "resources": resources, "prompts": prompts}


def listed(kind: str) -> list[Any]:
    if KIND == "definitions":
        return malformed_definitions()[kind]
    if kind != "tools":
        return []
    if KIND == "churn":
        number = next(NUMBERS)
        words = " ".join(f"word{number}x{n}" for n in range(20))
        return [tool("act"), *(tool(f"tool_{n}", description=f"{words} {n}") for n in range(500))]
    return [tool("act")]


def churn() -> None:
    while True:
        send({"method": "notifications/tools/list_changed"})
        time.sleep(0.02)


def flood_stderr() -> None:
    while True:
        os.write(2, b"x" * 1_000_000)
        time.sleep(0.02)


def answer_to(request: dict[str, Any]) -> dict[str, Any] | None:
    method, params = request["method"], request.get("params") or {}
    if method == "initialize":
        changes = {"listChanged": True}
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": changes, "resources": changes, "prompts": changes, "logging": {}},
            "serverInfo": {"name": KIND, "version": "1"},
        }
    if method == "tools/call":
        return ACTS.get(KIND, echo)(request)
    if method == "resources/templates/list":
        return {"resourceTemplates": []}
    if method.endswith("/list"):
        return {method.split("/")[0]: listed(method.split("/")[0])}
    return {}


def answer(request: dict[str, Any]) -> None:
    if request["method"] == "server/discover":
        send({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})
        return
    result = answer_to(request)
    if result is not None:
        send({"id": request["id"], "result": result})


def serve_stdio() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "notifications/initialized":
            background = {"churn": churn, "memory": flood_stderr}.get(KIND)
            if background is not None:
                threading.Thread(target=background, daemon=True).start()
        if "method" in message and "id" in message:
            threading.Thread(target=answer, args=(message,), daemon=True).start()


# Over HTTP: an answer of a few hundred kilobytes that unpacks to 800 MB


@cache
def pack_body(megabytes: int) -> bytes:
    """Packed once: what costs this process CPU time is not what is measured."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    parts = [packer.compress(b"x" * 1_000_000) for _ in range(megabytes)]
    return b"".join([*parts, packer.flush(zlib.Z_FULL_FLUSH)])


def pack_bomb(request_id: Any, megabytes: int) -> bytes:
    """The answer without its end, at which no reader should arrive."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    head = f'{{"jsonrpc":"2.0","id":{json.dumps(request_id)},"result":{{"content":[{{"type":"text","text":"'
    return packer.compress(head.encode()) + packer.flush(zlib.Z_FULL_FLUSH) + pack_body(megabytes)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message:
            self._reply(202, b"")
        elif message["method"] == "server/discover":
            error = {"code": -32601, "message": "no such method"}
            self._reply(404, json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode())
        elif message["method"] == "tools/call":
            bomb = pack_bomb(message["id"], int(os.environ.get("HOSTILE_BOMB", "800")))
            self._reply(200, bomb, encoding="gzip")
        else:
            result = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer_to(message)})
            self._reply(200, result.encode())

    def do_GET(self) -> None:
        self._reply(405, b"")

    def _reply(self, status: int, body: bytes, encoding: str = "") -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if encoding:
            self.send_header("content-encoding", encoding)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Write nothing."""


if KIND == "gzip":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
else:
    serve_stdio()
