"""What can go wrong between this client and its server. In: nothing. Out: exception types. Touches nothing.

ClientError
├── ServerUnreachable   no connection, or it broke or was silent too long
├── HttpRefusal         an HTTP status that says no, without a message of the protocol
├── RpcError            an error of the protocol, with its code
├── AnswerInvalid       the server's fault: bytes that are no answer, or beyond a limit
└── IdsNotBelieved      the server's fault: ids that do not stand for their text
"""

from __future__ import annotations

from typing import Any

from leafgate.model.errors import LeafgateError
from leafgate.model.leaf import Reason


class ClientError(LeafgateError):
    """The root of this tree."""


class ServerUnreachable(ClientError):
    """There is no connection, or it ended."""


class HttpRefusal(ClientError):
    """The server refused before it looked at the message."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the server refused with HTTP status {status}")
        self.status = status


class RpcError(ClientError):
    """The server answered with an error of the protocol."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.data = data


class AnswerInvalid(ClientError):
    """The answer breaks the protocol or a limit of this client."""


class IdsNotBelieved(ClientError):
    """The ids of a text block fail the check of spec 5.7."""

    def __init__(self, text_index: int, reason: Reason) -> None:
        super().__init__(f"content[{text_index}] carries ids that cannot be believed: {reason}")
        self.text_index = text_index
        self.reason = reason
