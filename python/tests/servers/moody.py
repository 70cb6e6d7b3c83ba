"""An MCP server without any SDK, for tests: two-page lists, odd fields, and tools that die, hang or grow the list."""

import json
import os
import sys
import threading
import time

PAGES = [["echo", "die", "sleep"], ["grow", "pid"]]


def send(message: dict) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def tool(name: str) -> dict:
    return {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}}


def listed(params: dict) -> dict:
    page = int(params.get("cursor", 0))
    result = {"tools": [tool(name) for name in PAGES[page]]}
    return result | ({"nextCursor": str(page + 1)} if page + 1 < len(PAGES) else {})


def called(params: dict) -> dict:
    name = params["name"]
    if name == "die":
        os._exit(1)
    if name == "sleep":
        time.sleep(5)
    if name == "grow":
        PAGES[-1].append("grown")
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    said = {"pid": str(os.getpid())}.get(name, params["arguments"].get("text", name))
    block = {"type": "text", "text": said, "oddField": 1}
    return {"content": [block, {"type": "_codec_meta", "map_id": "none", "ids": []}]}


def answer(message: dict) -> None:
    params = message.get("params") or {}
    handlers = {
        "initialize": lambda: {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "moody", "version": "1"},
        },
        "tools/list": lambda: listed(params),
        "tools/call": lambda: called(params),
    }
    if "id" not in message:
        return
    if message["method"] not in handlers:
        send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no such method"}})
        return
    send({"jsonrpc": "2.0", "id": message["id"], "result": handlers[message["method"]]()})


if os.environ.get("NOISE"):
    sys.stdout.write("Welcome! This is not JSON.\n\n{broken\n")
    sys.stdout.flush()

for line in sys.stdin:
    threading.Thread(target=answer, args=(json.loads(line),), daemon=True).start()
