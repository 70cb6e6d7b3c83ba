"""An MCP server without any SDK that goes wrong in every way a test asks for.

Its folder (FAULTY_FOLDER) is the back door: `starts` counts its starts, `pid` is the running one's, `seen.jsonl` holds
every message it read. What goes wrong at its start is in the environment; what goes wrong in a call, in the arguments.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ["FAULTY_FOLDER"])
EXITS = int(os.environ.get("FAULTY_EXITS", "0"))  # so many starts end at once
DELAY = float(os.environ.get("FAULTY_DELAY", "0"))  # seconds until the first message is read
DEAF = os.environ.get("FAULTY_DEAF") == "1"  # never reads anything
LEAK = os.environ.get("FAULTY_LEAK", "")  # what its errors give away

OUT = sys.stdout.buffer
OUT_LOCK = threading.Lock()
STOP_READING = threading.Event()
ANSWERS: dict[str, dict[str, Any]] = {}  # what clients answered to our questions
ANSWERED = threading.Condition()

STRING = {"type": "string"}
NUMBER = {"type": "number"}


def tool(name: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties}
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema}


PAGES = [
    [tool("echo", text=STRING), tool("pid"), tool("hang", until=STRING), tool("garbage", kind=STRING, answer=STRING)],
    [
        tool("large", megabytes=NUMBER, seed=STRING),
        tool("storm", count=NUMBER),
        tool("fail", kind=STRING),
        tool("shape", kind=STRING),
        tool("malformed", kind=STRING),
        tool("deafen"),
        tool("progress", steps=NUMBER),
        tool("say", text=STRING, level=STRING, times=NUMBER),
        tool("ask", method=STRING, params={"type": "object"}),
    ],
]


# Speaking


def write(data: bytes) -> None:
    with OUT_LOCK:
        OUT.write(data)
        OUT.flush()


def send(message: dict[str, Any]) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def text(said: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}]}


class NoAnswer(Exception):
    """The call is answered elsewhere, or never."""


class RpcError(Exception):
    """The call is answered with this error."""


# The faults of calls


def hang(args: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Answers once a file of this name is in the folder; without a name never."""
    until = FOLDER / args.get("until", "never")
    while not until.exists():
        time.sleep(0.05)
    return text("woke up")


def garbage(args: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Noise of a kind, then the answer, if there is to be one."""
    mine = request["id"]
    right = json.dumps({"jsonrpc": "2.0", "id": mine, "result": text("first answer")}).encode()
    noise = {
        "words": b"Welcome! This is not JSON.\n\n   \n\t\n",
        "truncated": right[: len(right) // 2] + b"\n",
        "huge": b"x" * 20_000_000 + b"\n",
        "bytes": b'\xff\xfe\xc3\x28 {"jsonrpc": "2.0"}\n\x80\n',
        "nul": b"\x00\x00\n\x1b[31mred\x1b[0m\r\n",
        "values": b'null\n5\n"text"\n[]\n{}\n[{"jsonrpc": "2.0"}]\n' + b"[" * 100_000 + b"\n",
        "unknown-ids": b"".join(_response(each) for each in (mine + 7777, "nobody", -1, None, 1.5, True, [mine])),
        "text-ids": _response(str(mine)) + _response(f" {mine} "),
        "unknown-methods": b'{"jsonrpc":"2.0","method":"notifications/nonsense","params":{"a":[1]}}\n'
        b'{"jsonrpc":"2.0","id":"q1","method":"no/such/request"}\n'
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":null}}\n'
        b'{"jsonrpc":"2.0","method":"notifications/message","params":7}\n',
        "both": json.dumps({"jsonrpc": "2.0", "id": "x", "result": {}, "error": {"code": 1}}).encode() + b"\n",
        "duplicate": right + b"\n",
    }
    write(noise[args["kind"]])
    if args.get("answer") == "none":
        raise NoAnswer
    return text("the answer")


def _response(request_id: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "result": text("not yours")}).encode() + b"\n"


def large(args: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Lines of 100 characters, so many megabytes of them; written in pieces, as one line of JSON."""
    seed = args.get("seed", "rye")
    lines = int(args["megabytes"] * 10_000)
    with OUT_LOCK:
        head = {"jsonrpc": "2.0", "id": request["id"], "result": {"content": [{"type": "text", "text": ""}]}}
        before, after = json.dumps(head).rsplit('""', 1)
        OUT.write(before.encode() + b'"')
        for start in range(0, lines, 10_000):
            piece = (f"line {n} {seed}".ljust(99, ".") for n in range(start + 1, min(start + 10_000, lines) + 1))
            OUT.write(("\\n".join(piece) + "\\n").encode())
        OUT.write(b'"' + after.encode() + b"\n")
        OUT.flush()
    raise NoAnswer


def storm(args: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """One more tool and one more notification, many times."""
    for _ in range(int(args["count"])):
        PAGES[-1].append(tool(f"grown_{len(PAGES[-1])}"))
        for kind in ("tools", "resources", "prompts"):
            send({"method": f"notifications/{kind}/list_changed"})
    return text(f"{sum(map(len, PAGES))} tools")


def fail(args: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """An error of the protocol that says too much."""
    kinds: dict[str, dict[str, Any]] = {
        "leak": {"code": -32603, "message": f"cannot reach {LEAK}", "data": {"trace": [LEAK], LEAK: LEAK}},
        "params": {"code": -32602, "message": f"invalid: {LEAK}"},
        "lines": {"code": -32000, "message": f"one\ntwo\x1b[31m\u202e {LEAK} " + "long " * 5_000},
        "timeout": {"code": -32001, "message": LEAK},
        "odd": {"code": 0, "message": ""},
    }
    raise RpcError(kinds[args["kind"]])


def shape(args: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """A result that no specification allows."""
    if args["kind"] == "neither":
        write(json.dumps({"jsonrpc": "2.0", "id": request["id"]}).encode() + b"\n")
        raise NoAnswer
    block = {"type": "text", "text": "still readable"}
    kinds: dict[str, Any] = {
        "content-is-text": {"content": "just a text"},
        "content-is-object": {"content": block},
        "content-is-null": {"content": None},
        "no-content": {},
        "blocks-are-not-objects": {"content": [5, None, "text", [block], block]},
        "unknown-type": {"content": [{"type": "hologram", "data": {"x": 1}}, block]},
        "no-type": {"content": [{"text": "no type"}, block]},
        "text-is-missing": {"content": [{"type": "text"}, block]},
        "text-is-number": {"content": [{"type": "text", "text": 7}, block]},
        "image-without-data": {"content": [{"type": "image"}, {"type": "image", "data": 5, "mimeType": []}, block]},
        "image-not-base64": {"content": [{"type": "image", "data": "&&&", "mimeType": "image/png"}, block]},
        "resource-is-text": {"content": [{"type": "resource", "resource": "x"}, block]},
        "resource-without-uri": {"content": [{"type": "resource", "resource": {"text": "inside"}}, block]},
        "link-without-uri": {"content": [{"type": "resource_link"}, block]},
        "meta-is-list": {"content": [{**block, "_meta": ["x"]}], "_meta": [1]},
        "annotations-odd": {"content": [{**block, "annotations": "loud"}]},
        "leaf-odd": {"content": [{**block, "_meta": {"ai.codec/leaf-tokenization": {"map_id": 5, "ids": "x"}}}]},
        "is-error-is-text": {"content": [block], "isError": "perhaps"},
        "tool-error": {"content": [block], "isError": True},
        "structured-is-list": {"content": [block], "structuredContent": [1, 2]},
        "surrogate": {"content": [{"type": "text", "text": "half \ud83d of a pair"}, block]},
        "deep": {"content": [block], "structuredContent": _deep(400)},
        "result-is-list": [block],
        "result-is-null": None,
        "input-required-without-questions": {"content": [block], "resultType": "input_required"},
    }
    return kinds[args["kind"]]


def malformed(args: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """The only answer, and no reader of JSON takes it."""
    start = f'{{"jsonrpc":"2.0","id":{request["id"]},"result":{{"content":[],"x":'.encode()
    kinds = {
        "bytes": start + b'"\xff\xfe\xc3\x28"}}',
        "deep": start + b"[" * 5_000 + b"]" * 5_000 + b"}}",
        "digits": start + b"9" * 5_000 + b"}}",
        "id-last": b'{"result":{"content":[],"id":77,"x":"\xff"},"id":%d,"jsonrpc":"2.0"}' % request["id"],
    }
    write(kinds[args["kind"]] + b"\n")
    raise NoAnswer


def _deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = {"deeper": value}
    return value


def deafen(args: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """From now on nothing more is read."""
    STOP_READING.set()
    return text("I hear nothing")


# What a server may say during a call


def progress(args: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    token = request["params"].get("_meta", {}).get("progressToken")
    steps = int(args["steps"])
    for step in range(1, steps + 1):
        told = {"progressToken": token, "progress": step, "total": steps, "message": f"step {step}"}
        send({"method": "notifications/progress", "params": told})
    return text(f"told {'nobody' if token is None else 'somebody'}")


def say(args: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    told = {"level": args.get("level", "warning"), "logger": "faulty", "data": args["text"]}
    for _ in range(int(args.get("times", 1))):
        send({"method": "notifications/message", "params": told})
    return text("said")


def ask(args: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """A question to the client; its answer, whatever it is, becomes the result."""
    question = f"question-{request['id']}"
    send({"id": question, "method": args["method"], "params": args.get("params", {})})
    with ANSWERED:
        ANSWERED.wait_for(lambda: question in ANSWERS)
    answer = ANSWERS[question]
    return text(json.dumps(answer.get("result", {"refused": answer.get("error")})))


CALLS = {
    "echo": lambda args, request: text(args.get("text", "")),
    "pid": lambda args, request: text(str(os.getpid())),
    **{
        call.__name__: call
        for call in (hang, garbage, large, storm, fail, shape, malformed, deafen, progress, say, ask)
    },
}


# The protocol


def listed(params: dict[str, Any]) -> dict[str, Any]:
    page = int(params.get("cursor", 0))
    result: dict[str, Any] = {"tools": PAGES[page]}
    return result | ({"nextCursor": str(page + 1)} if page + 1 < len(PAGES) else {})


def initialized(params: dict[str, Any]) -> dict[str, Any]:
    return {
        "protocolVersion": params["protocolVersion"],
        "capabilities": {"tools": {"listChanged": True}, "logging": {}},
        "serverInfo": {"name": "faulty", "version": "1"},
    }


def answer(request: dict[str, Any]) -> None:
    params = request.get("params") or {}
    name = params.get("name")
    try:
        if request["method"] == "tools/call" and name in CALLS:
            result = CALLS[name](params.get("arguments") or {}, request)
        elif request["method"] == "tools/call":
            result = text(f"{name} did nothing")
        else:
            handlers = {"initialize": initialized, "tools/list": listed}
            handlers |= dict.fromkeys(("ping", "logging/setLevel"), lambda params: {})
            if request["method"] not in handlers:
                raise RpcError({"code": -32601, "message": "no such method"})
            result = handlers[request["method"]](params)
    except NoAnswer:
        return
    except RpcError as error:
        send({"id": request["id"], "error": error.args[0]})
        return
    send({"id": request["id"], "result": result})


def hear(line: str) -> None:
    with (FOLDER / "seen.jsonl").open("a") as seen:
        seen.write(line if len(line) < 10_000 else json.dumps({"too_long": len(line)}) + "\n")
    message = json.loads(line)
    if "method" not in message:
        with ANSWERED:
            ANSWERS[str(message.get("id"))] = message
            ANSWERED.notify_all()
    elif "id" in message:
        threading.Thread(target=answer, args=(message,), daemon=True).start()


def count_start() -> int:
    file = FOLDER / "starts"
    starts = 1 + (int(file.read_text()) if file.exists() else 0)
    file.write_text(str(starts))
    return starts


if count_start() <= EXITS:
    sys.exit("not yet")
(FOLDER / "pid").write_text(str(os.getpid()))
time.sleep(DELAY)
while DEAF:
    time.sleep(60)
for heard in sys.stdin:
    hear(heard)
    while STOP_READING.is_set():
        time.sleep(60)
