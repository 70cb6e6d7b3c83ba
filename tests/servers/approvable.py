"""A server with a tool that acts at once, and one that first asks a question of its own, over several rounds.

Writes each act to the file of CALL_LOG, one line with its mark, so that acts without approval and acts done twice show.
"""

from __future__ import annotations

import os

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.server import Context
from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

server = MCPServer("approvable")
SCHEMA = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}


def note(mark: str) -> str:
    with open(os.environ["CALL_LOG"], "a") as log:
        log.write(f"{mark}\n")
    return f"did {mark}"


@server.tool()
async def act(mark: str) -> str:
    """Act, and say so."""
    return note(mark)


@server.tool()
async def react(mark: str) -> str:
    """The same under another name."""
    return note(mark)


@server.tool()
async def ask_and_act(ctx: Context, mark: str) -> InputRequiredResult | str:
    """Ask for two words, one after another, then act."""
    words = (ctx.request_state or "").split()
    answers = ctx.input_responses or {}
    if "word" in answers:
        answer = answers["word"]
        assert isinstance(answer, ElicitResult)
        assert answer.content is not None
        words.append(str(answer.content["word"]))
    if len(words) == 2:
        return note(f"{mark} {' '.join(words)}")
    params = ElicitRequestFormParams(message=f"Word {len(words) + 1}?", requested_schema=SCHEMA)
    return InputRequiredResult(
        input_requests={"word": ElicitRequest(params=params)}, request_state=" ".join(words) or " "
    )


if __name__ == "__main__":
    server.run()
