"""A client of the gateway: binary frames where the server offers them, and ids with or instead of text."""

from leafgate.client.client import LeafgateClient, TextBlock, ToolResult
from leafgate.client.transport import (
    ClientError,
    ClientLimits,
    HttpError,
    LeafError,
    ProtocolError,
    RpcError,
    ServerUnreachable,
)

# Earlier names of these errors, for programs that import them.
AnswerInvalid = ProtocolError
HttpRefusal = HttpError
IdsNotBelieved = LeafError

__all__ = [
    "AnswerInvalid",
    "ClientError",
    "ClientLimits",
    "HttpError",
    "HttpRefusal",
    "IdsNotBelieved",
    "LeafError",
    "LeafgateClient",
    "ProtocolError",
    "RpcError",
    "ServerUnreachable",
    "TextBlock",
    "ToolResult",
]
