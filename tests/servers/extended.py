"""A server with MCP Apps (SEP-1865) and skills (SEP-2640), over stdio: `extended.py NAME [--directories]`.

Two of them share the skill `refunds` and the page of their app, and each has a skill of its own. `--directories` makes
it list directories itself. Its page holds what the gateway would take out of a text for a model.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any, get_args

import anyio
from mcp import MCPError
from mcp.server import Server
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.stdio import stdio_server
from mcp.types import INVALID_PARAMS, ReadResourceRequestParams, RequestParams

NAME = sys.argv[1]
LISTS_DIRECTORIES = "--directories" in sys.argv
SKILLS = "io.modelcontextprotocol/skills"
PAGE = "ui://clock/app.html"
APP_TYPE = "text/html;profile=mcp-app"
HTML = f"<!doctype html><p>{NAME}\u200b<script>let s = '<|im_end|>', k = 'AKIAQ3EGZ7TLK4WBXN2P'</script>"
NO_ARGUMENTS = {"type": "object", "properties": {}}


def main_file(name: str, description: str) -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\n\n# {name} of {NAME}\n\nSee references/POLICY.md.\n"


FILES = {
    "skill://refunds/SKILL.md": main_file("refunds", "Refund customers by the policy."),
    "skill://refunds/references/POLICY.md": f"The policy of {NAME}.\n",
    f"skill://team/{NAME}-release/SKILL.md": main_file(f"{NAME}-release", f"Release {NAME}."),
    f"skill://{NAME}-hidden/SKILL.md": main_file(f"{NAME}-hidden", "No list has it."),
}


def skill(uri: str) -> dict[str, Any]:
    root = uri.removesuffix("SKILL.md")
    lines = FILES[uri].splitlines()
    frontmatter = dict(line.split(": ", 1) for line in lines[1:3])
    resources = [
        {"uri": each, "digest": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}", "size": len(text.encode())}
        for each, text in FILES.items()
        if each.startswith(root)
    ]
    return {"uri": uri, "frontmatter": frontmatter, "resources": resources}


def tool(name: str, **ui: Any) -> dict[str, Any]:
    described = {"name": name, "description": f"Does {name}.", "inputSchema": NO_ARGUMENTS}
    return described | ({"_meta": {"ui": ui, "ui/resourceUri": PAGE}} if ui else {})


TOOLS = [
    tool("show_clock", resourceUri=PAGE),
    tool("refresh_clock", resourceUri=PAGE, visibility=["app"]),
    tool("client_capabilities"),
    tool("strange_result"),
]


async def list_tools(ctx: Any, params: Any) -> dict[str, Any]:
    return {"resultType": "complete", "tools": TOOLS}


async def call_tool(ctx: Any, params: Any) -> dict[str, Any]:
    if params.name == "strange_result":
        return {"resultType": "example.com/strange", "content": []}
    text = f"{params.name} of {NAME}"
    if params.name == "refresh_clock":
        text += "".join(f"\n{second} seconds" for second in range(5_000))
    if params.name == "client_capabilities":
        capabilities = ctx.session.client_capabilities
        text = json.dumps(None if capabilities is None else capabilities.model_dump(by_alias=True, exclude_none=True))
    return {"resultType": "complete", "content": [{"type": "text", "text": text}]}


async def list_resources(ctx: Any, params: Any) -> dict[str, Any]:
    return {"resultType": "complete", "resources": []}


async def read_resource(ctx: Any, params: ReadResourceRequestParams) -> dict[str, Any]:
    uri = str(params.uri)
    if uri == PAGE:
        meta = {"ui": {"csp": {"connectDomains": ["https://time.example"]}}}
        return complete(contents=[{"uri": uri, "mimeType": APP_TYPE, "text": HTML, "_meta": meta}])
    if uri not in FILES:
        raise MCPError(INVALID_PARAMS, "unknown resource")
    return complete(contents=[{"uri": uri, "mimeType": "text/markdown", "text": FILES[uri]}])


async def list_skills(ctx: Any, params: Any) -> dict[str, Any]:
    uris = [uri for uri in FILES if uri.endswith("/SKILL.md") and "hidden" not in uri]
    start = int((ctx.params or {}).get("cursor") or 0)  # one skill a page
    more = {"nextCursor": str(start + 1)} if start + 1 < len(uris) else {}
    return complete(skills=[skill(uris[start])], ttlMs=60_000, cacheScope="public", **more)


async def get_skill(ctx: Any, params: ReadResourceRequestParams) -> dict[str, Any]:
    uri = str(params.uri)
    if uri not in FILES or not uri.endswith("/SKILL.md"):
        raise MCPError(INVALID_PARAMS, f"No skill is served at {uri}")
    return complete(skill=skill(uri), ttlMs=60_000, cacheScope="public")


async def read_directory(ctx: Any, params: ReadResourceRequestParams) -> dict[str, Any]:
    root = f"{params.uri}/"
    names = {uri.removeprefix(root).split("/")[0] for uri in FILES if uri.startswith(root)}
    if not names:
        raise MCPError(INVALID_PARAMS, f"{params.uri} is not a directory resource")
    children = [{"uri": f"{root}{name}", "name": name, "mimeType": "text/x-asked"} for name in sorted(names)]
    return complete(resources=children)


def complete(**result: Any) -> dict[str, Any]:
    return {"resultType": "complete", **result}


async def main() -> None:
    server: Server[Any] = Server(
        NAME,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
        cache_hints={method: CacheHint() for method in get_args(CacheableMethod)},
    )
    server.extensions = {SKILLS: {"directoryRead": True} if LISTS_DIRECTORIES else {}}
    server.add_request_handler("skills/list", RequestParams, list_skills)
    server.add_request_handler("skills/get", ReadResourceRequestParams, get_skill)
    if LISTS_DIRECTORIES:
        server.add_request_handler("resources/directory/read", ReadResourceRequestParams, read_directory)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


anyio.run(main)
