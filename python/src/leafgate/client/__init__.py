"""A small client of the gateway: binary where the server speaks it, and ids beside or instead of text."""

from leafgate.client.client import LeafgateClient
from leafgate.client.errors import AnswerInvalid, ClientError, HttpRefusal, IdsNotBelieved, RpcError, ServerUnreachable
from leafgate.client.result import TextBlock, ToolResult
from leafgate.client.wire import ClientLimits

__all__ = [
    "AnswerInvalid",
    "ClientError",
    "ClientLimits",
    "HttpRefusal",
    "IdsNotBelieved",
    "LeafgateClient",
    "RpcError",
    "ServerUnreachable",
    "TextBlock",
    "ToolResult",
]
