"""Resources and prompts, natively and through meta-tools. In: a snapshot and a request. Out: cleaned results.

Awaits the NativeUpstream port. Native reads are cleaned and redacted but not shortened: a plain client loses nothing.
Through the meta-tools they go the way of every tool result (gateway/deliver).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leafgate.gateway.snapshot import Snapshot
from leafgate.model.call import Origin
from leafgate.model.errors import GatewayError
from leafgate.model.tool import SelectableItem
from leafgate.ports import Caller, NativeUpstream, PrimitiveUpstream


async def read_by_uri(upstream: NativeUpstream, uri: str, caller: Caller | None) -> Mapping[str, Any]:
    """The raw contents of a resource."""
    server = upstream.server_of_resource(uri)
    if server is None:
        raise GatewayError("RESOURCE_NOT_FOUND", "no server has this resource", path=uri[:240])
    return await upstream.read_resource(server, uri, caller)


async def read_by_id(
    snapshot: Snapshot, upstream: PrimitiveUpstream, resource_id: object, caller: Caller | None
) -> tuple[Origin, Mapping[str, Any]]:
    """The raw contents of a resource that a card named, as a tool result would carry them."""
    item = _item(snapshot.resources.catalog.get, resource_id, "resource_id", "RESOURCE_NOT_FOUND")
    raw = await upstream.read_resource(item.server, item.upstream_name, caller)
    contents = raw.get("contents")
    parts = contents if isinstance(contents, Sequence) and not isinstance(contents, str) else ()
    blocks = [_as_block(part) for part in parts if isinstance(part, Mapping)]
    return Origin(item.server, item.upstream_name), {"content": blocks}


async def get_by_id(
    snapshot: Snapshot, upstream: PrimitiveUpstream, prompt_id: object, args: object, caller: Caller | None
) -> tuple[Origin, Mapping[str, Any]]:
    """A rendered prompt that a card named: each message a block, with its role in front of its text."""
    item = _item(snapshot.prompts.catalog.get, prompt_id, "prompt_id", "PROMPT_NOT_FOUND")
    raw = await upstream.get_prompt(item.server, item.upstream_name, _prompt_args(item, args), caller)
    messages = raw.get("messages")
    listed = messages if isinstance(messages, Sequence) and not isinstance(messages, str) else ()
    blocks = [_message(message) for message in listed if isinstance(message, Mapping)]
    return Origin(item.server, item.upstream_name), {"content": blocks}


def _item(get: Any, given: object, argument: str, code: Any) -> SelectableItem:
    if not isinstance(given, str):
        raise GatewayError("ARGS_INVALID", f"{argument} is a text")
    found = get(given)
    if not isinstance(found, SelectableItem):
        raise GatewayError(code, "nothing has this id; browse for the ids there are", path=given[:240])
    return found


def _prompt_args(item: SelectableItem, args: object) -> dict[str, str]:
    """Prompt arguments are texts; which ones there are, the prompt has declared."""
    given = {} if args is None else args
    if not isinstance(given, Mapping) or not all(isinstance(value, str) for value in given.values()):
        raise GatewayError("ARGS_INVALID", "the arguments of a prompt are texts, by name", path=item.id)
    known = item.args_schema.get("properties") or {}
    missing = [name for name in item.args_schema.get("required") or () if name not in given]
    unknown = [name for name in given if name not in known]
    if missing or unknown:
        violations = [{"pointer": "", "message": f'"{name}" is a required argument'} for name in sorted(missing)]
        violations += [
            {"pointer": f"/{name}", "message": "the prompt has no such argument"} for name in sorted(unknown)
        ]
        raise GatewayError(
            "ARGS_INVALID", "the arguments do not fit the prompt", path=item.id, details={"violations": violations}
        )
    return {str(name): str(value) for name, value in given.items()}


def _as_block(part: Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    return {"type": "resource", "resource": dict(part)}


def _message(message: Mapping[str, Any]) -> Mapping[str, Any]:
    content = message.get("content")
    if not isinstance(content, Mapping):
        return {"type": "text", "text": ""}
    if content.get("type") == "text" and isinstance(content.get("text"), str):
        return {**content, "text": f"{message.get('role')}: {content['text']}"}
    return content
