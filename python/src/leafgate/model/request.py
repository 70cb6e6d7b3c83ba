"""Request: what the gateway knows about one request, made once where it enters and handed down whole.

The client's arguments are not part of it: every operation of the gateway takes them and a Request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from leafgate.model.rights import Rights

Form = Literal["both", "ids", "text"]
# How much of the envelope a result carries in its `_meta` (spec 4.1).
EnvelopeForm = Literal["lean", "full"]
ApprovalAnswer = Literal["given", "refused", "timed out", "not possible"]

# Puts a question to a person. None: there is no way to ask. Only True is a yes.
Ask = Callable[[str], Awaitable[bool | None]]


async def cannot_ask(question: str) -> bool | None:
    """For clients without a person to ask."""
    return None


class TextEncoder(Protocol):
    """A tokenizer. It is an Encoder of the room `tokens`, whose maps this room does not know."""

    @property
    def map(self) -> Any: ...

    def encode(self, text: str) -> list[int]: ...

    def decode_bytes(self, ids: Sequence[int]) -> bytes: ...


class ClientChannel(Protocol):
    """The way back to the client of one request, for the server that works on it."""

    owner: str  # the same for all requests of one client
    user: str  # the same for all clients of one principal: the owner of its requests' artifacts
    takes_input_requests: bool  # False: the questions of an `input_required` result are asked one by one
    takes_any_json: bool  # False: only objects are accepted as structured content
    resume: Mapping[str, Any]  # `inputResponses` and `requestState`, where this request answers such a result
    capabilities: Mapping[str, Any]  # as the client declared them, in the form of MCP
    log_level: str | None  # the lowest level of the server's log lines that the client wants
    meta: Mapping[str, Any]  # the `_meta` of the request, without what is between the client and the gateway

    async def progress(self, progress: float, total: float | None, message: str | None) -> None: ...

    async def log(self, params: Mapping[str, Any]) -> None: ...

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Pass on a server's question (sampling, elicitation, roots). GatewayError if the client cannot be asked."""


@dataclass(frozen=True)
class Request:
    """Who makes a request, what they may have, and the form of the answer.

    `owner` is whose artifacts are used. `principal` is the name that policies know; `session` stands for callers
    without one, whose artifacts may all have one owner. `ask` asks a person for approval. `map_digest` is the tokenizer
    map of the ids in the answer; None: the answer has no ids. `reader_map` is the map of the model that reads the
    answer, where it is known, also of an answer without ids. `encoder` is the tokenizer of `map_digest` where it is
    loaded already. `is_packed`: the ids are packed (spec 5.11). `envelope` is how much the `_meta` of the answer says.
    `client_name` is what the client calls itself, which nothing checks. `argument_tokens` is the number of ids that the
    arguments came as; None: they came as JSON.
    """

    owner: str = "local"
    principal: str | None = None
    rights: Rights = Rights()  # noqa: RUF009  frozen
    map_digest: str | None = None
    reader_map: str | None = None
    encoder: TextEncoder | None = field(default=None, compare=False, repr=False)
    form: Form = "both"
    is_packed: bool = False
    envelope: EnvelopeForm = "full"
    client: ClientChannel | None = None
    ask: Ask = cannot_ask
    session: str | None = None
    client_name: str = ""
    argument_tokens: int | None = None

    @property
    def caller(self) -> str:
        """Whose quotas and stable pages are used."""
        return self.owner if self.session is None else self.session


# A request of the program or the process that started the gateway: nothing is withheld from it.
LOCAL: Final = Request()


@dataclass(frozen=True)
class Served:
    """What log lines, error reports, spans and the audit file say of the request that is being served.

    `correlation_id` leads from an answer to the log; `server` and `tool` are those that the request goes to, if any.
    The tokens are the ids in the arguments and in the answer; None where there are none. `approval` is the answer of
    the person who was asked, `denied_by` what denied the request. `cut` counts what was withheld; `removed`, `redacted`
    and `flagged` count what cleaning did, by kind. `flows` are what flow rules found in the request: from which server
    to which, of which kind, and the effect. `reader_map` is that of the Request.
    """

    correlation_id: str
    operation: str
    server: str = ""
    tool: str = ""
    principal: str | None = None
    client_name: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    approval: ApprovalAnswer | None = None
    denied_by: str = ""
    reader_map: str | None = None
    cut: Mapping[str, int] = field(default_factory=dict)
    removed: Mapping[str, int] = field(default_factory=dict)
    redacted: Mapping[str, int] = field(default_factory=dict)
    flagged: Mapping[str, int] = field(default_factory=dict)
    flows: tuple[Mapping[str, str], ...] = ()


# Set for as long as a request lasts, in its own task; log lines are written with it.
SERVING: Final[ContextVar[Served | None]] = ContextVar("serving", default=None)
