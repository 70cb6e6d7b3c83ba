"""A server whose leaves are wrong in every way there is. Plain JSON lines: an SDK would refuse to send most of them.

Its one tool, `answer`, takes the name of a fault. Each text comes beside what it claims to be tokenized as. Its
resource and one of its prompts tell a secret, and spell it in ids; the other prompt's ids are right for its text.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from leafgate.codec.leaf import build_meta_block
from leafgate.maps.files import MapFiles
from leafgate.model.leaf import CODEC_META_KEY

TEXT = "It is currently 14:30 UTC."
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
QWEN, CL100K = MapFiles().load("qwen/qwen2"), MapFiles().load("openai/cl100k_base")
RIGHT = QWEN.encode(TEXT)
HASH = QWEN.map.digest


def block(text: str = TEXT, ids: Any = RIGHT, map_id: Any = HASH) -> dict[str, Any]:
    return {"type": "text", "text": text, "_meta": {CODEC_META_KEY: {"map_id": map_id, "ids": ids}}}


def legacy(ids: Any = RIGHT, map_id: Any = HASH) -> dict[str, Any]:
    return {"type": "_codec_meta", "map_id": map_id, "ids": ids}


def swapped(wrong: Any) -> list[Any]:
    return [wrong, *RIGHT[1:]]


TOLD = f"the key is {SECRET}"
SPELLED: dict[str, Any] = {CODEC_META_KEY: build_meta_block(TOLD, QWEN)}
RESOURCE = {"uri": "leaf://secret", "mimeType": "text/plain", "text": TOLD, "_meta": SPELLED}
PLAIN = {"type": "text", "text": TEXT}
ANSWERS: dict[str, list[dict[str, Any]]] = {
    "right": [block()],
    "lying": [block(ids=[27269 if id == 27403 else id for id in RIGHT])],
    "special": [block(ids=[*RIGHT, next(iter(QWEN.map.special_ids))])],
    "foreign map": [block(ids=CL100K.encode(TEXT), map_id=CL100K.map.digest)],
    "strings": [block(ids=[str(id) for id in RIGHT])],
    "floats": [block(ids=swapped(RIGHT[0] + 0.5))],
    "booleans": [block(ids=swapped(True))],
    "nulls": [block(ids=swapped(None))],
    "negative": [block(ids=swapped(-5))],
    "too large": [block(ids=swapped(2**53))],
    "unknown": [block(ids=swapped(4_000_000))],
    "too many": [block(ids=RIGHT * 10)],
    "stale": [block("It is currently 15:00 UTC.")],
    "odd split": [block(ids=[*QWEN.encode("It"), *QWEN.encode(" "), *QWEN.encode("is currently 14:30 UTC.")])],
    "no list": [block(ids="[2132]")],  # four characters of the alphabet would be a packed id
    "no digest": [block(map_id="qwen/qwen2")],
    "mixed": [block(), PLAIN | {"text": "and a plain one"}, block("and a lie", ids=[1, 2, 3])],
    "legacy": [PLAIN, legacy()],
    "legacy lying": [PLAIN, legacy(ids=[1, 2])],
    "upper case": [block(map_id=HASH.upper().replace("SHA256", "sha256"))],
    "bare": [block(map_id=HASH.removeprefix("sha256:"))],
    "empty text": [block("", ids=[])],
    "surrogate": [block("a\ud800b", ids=[64])],
    "secret": [{"type": "text", "text": TOLD, "_meta": SPELLED}],
    "ids elsewhere": [
        {"type": "resource", "resource": RESOURCE, "_meta": SPELLED},
        {"type": "image", "mimeType": "image/png", "data": "aGk=", "_meta": SPELLED},
        legacy(SPELLED[CODEC_META_KEY]["ids"]),
        {"type": "resource_link", "uri": "leaf://a", "name": "a", "_meta": SPELLED},
        {"type": "odd", "text": TOLD, "_meta": SPELLED},
        {"type": "text", "text": TOLD, "_meta": {"other": SPELLED}, "annotations": {"x": SPELLED}, "extra": SPELLED},
    ],
}

TOOL = {
    "name": "answer",
    "_meta": SPELLED,
    "description": "Answers with a leaf that has the named fault.",
    "inputSchema": {"type": "object", "properties": {"fault": {"enum": [*ANSWERS]}}, "required": ["fault"]},
}


FIXED: dict[str, dict[str, Any]] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
        "serverInfo": {"name": "leaf-faults", "version": "1"},
    },
    "tools/list": {"tools": [TOOL]},
    "resources/list": {"resources": [{"uri": RESOURCE["uri"], "name": "secret", "_meta": SPELLED}]},
    "resources/templates/list": {"resourceTemplates": []},
    "resources/read": {"contents": [RESOURCE], "_meta": SPELLED},
    "prompts/list": {"prompts": [{"name": name, "_meta": SPELLED} for name in ("secret", "right")]},
}


def respond(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "tools/call":
        return {"content": ANSWERS[params["arguments"]["fault"]]}
    if method == "prompts/get":
        return {"messages": [{"role": "user", "content": ANSWERS[params["name"]][0]}], "_meta": SPELLED}
    return FIXED.get(method, {})


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            result = respond(message["method"], message.get("params") or {})
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
