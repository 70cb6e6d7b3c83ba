"""A server of 2025-11-25 with tasks as that version has them, over stdio. The SDK has only their types: JSON by hand.

`slow_report` runs only as a task: it works, asks for a name while its result is waited for, and ends. `broken_report`
ends with an error of the protocol.
"""

from __future__ import annotations

import json
import sys
from itertools import count
from typing import Any

ids = count(1)
tasks: dict[str, dict[str, Any]] = {}
asked: dict[str, Any] = {}  # by the id of a question: the request for the result that waits for it


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def describe(id: str) -> dict[str, Any]:
    now = "2026-07-28T12:00:00Z"
    about = {"taskId": id, "createdAt": now, "lastUpdatedAt": now, "ttl": 60_000, "pollInterval": 20}
    return {**about, "status": tasks[id]["status"], "statusMessage": "on it"}


def call(params: dict[str, Any]) -> dict[str, Any]:
    if "task" not in params:
        return {"error": {"code": -32601, "message": "this tool runs only as a task"}}
    id = f"early-{next(ids)}"
    tasks[id] = {"status": "working", "polls": 0, "is_broken": params["name"] == "broken_report"}
    return {"result": {"task": describe(id)}}


def get(id: str) -> dict[str, Any]:
    task = tasks[id]
    task["polls"] += 1
    if task["status"] == "working" and task["polls"] > 1:
        task["status"] = "failed" if task["is_broken"] else "input_required"
    return {"result": describe(id)}


def finish(request: Any, id: str) -> None:
    if tasks[id]["is_broken"]:
        send(id=request, error={"code": -32050, "message": "secret words of the server"})
        return
    question = f"question-{next(ids)}"
    asked[question] = request, id
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    send(id=question, method="elicitation/create", params={"message": "Who?", "requestedSchema": schema})


def answer(message: dict[str, Any]) -> None:
    request, id = asked.pop(message["id"])
    tasks[id]["status"] = "completed"
    name = ((message.get("result") or {}).get("content") or {}).get("name", "nobody")
    meta = {"io.modelcontextprotocol/related-task": {"taskId": id}}
    send(id=request, result={"content": [{"type": "text", "text": f"A report for {name}."}], "_meta": meta})


def serve(message: dict[str, Any]) -> None:
    method, params, id = message.get("method"), message.get("params") or {}, message.get("id")
    if method is None:
        answer(message)
    elif id is None:
        return
    elif method == "initialize":
        capabilities = {"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}
        info = {"name": "early", "version": "1"}
        send(id=id, result={"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info})
    elif method == "tools/list":
        schema = {"type": "object", "properties": {}}
        names = ("slow_report", "broken_report")
        tools = [{"name": name, "inputSchema": schema, "execution": {"taskSupport": "required"}} for name in names]
        send(id=id, result={"tools": tools})
    elif method == "tools/call":
        send(id=id, **call(params))
    elif method == "tasks/get":
        send(id=id, **get(params["taskId"]))
    elif method == "tasks/result":
        finish(id, params["taskId"])
    else:
        send(id=id, error={"code": -32601, "message": "Method not found"})


for line in sys.stdin:
    serve(json.loads(line))
