"""Every error that leafgate raises.

LeafgateError
├── CatalogError               a malformed or colliding tool id, a card that cannot fit
├── RouteError                 a routing call that cannot be answered
├── ConfigError                the operator's file or flags
│   └── ConfigFileError        config/problem: a file, with every problem in it and its line
├── CleaningTimeout            clean/result: a text that takes too long to clean, and is not shown
├── TextError                  a text that has no tokenization
├── IdsError                   ids that cannot be decoded (reason: one of spec 5.7)
├── CodecMetaMapMismatchError  a leaf of another map than the caller asked for
├── MapError
│   ├── MapDigestError         a digest of the wrong shape; nothing was read
│   ├── MapHashMismatchError   the bytes are not the ones that were named
│   ├── MapInvalidError        the right bytes, but not a usable map
│   └── MapUnreachableError    not found, too large or too slow
├── ContextError               model/context: sessions and packs (SessionLineError, BudgetError)
├── CapabilityError            the guarded-call library: the session may not call this tool
├── IRValidationError          the guarded-call library: a definition, arguments or an answer of the wrong shape
├── FrameError, EventError     codec/frames: bytes that are not messages
├── CompressionError           codec/compression: bytes that do not unpack, or to too many
├── ClientError                client/transport: the client of the binary transport
├── StoreError                 the store of the gateway's state fails; its words are for the operator
├── UpstreamFailure            a server failed; what it said is for the operator's log only
└── GatewayError               an answer to the client; one closed list of codes (spec 7)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

Fault = Literal["caller", "refusal", "upstream"]

CallerCode = Literal[
    "PATH_INVALID",
    "PATH_NOT_FOUND",
    "ARGS_INVALID",
    "HYDRATE_FAILED",
    "VIEW_FAILED",
    "RESOURCE_NOT_FOUND",
    "PROMPT_NOT_FOUND",
    "TASK_NOT_FOUND",
]
RefusalCode = Literal["PERMISSION_DENIED", "RATE_LIMITED", "MAP_UNAVAILABLE", "STORE_UNAVAILABLE", "INTERNAL_ERROR"]
UpstreamCode = Literal["SCHEMA_INVALID", "UPSTREAM_ERROR", "UPSTREAM_TIMEOUT", "UPSTREAM_UNAVAILABLE", "AUTH_FAILED"]
ErrorCode = Literal[CallerCode, RefusalCode, UpstreamCode]

_CODES: Final[Mapping[Fault, Any]] = {"caller": CallerCode, "refusal": RefusalCode, "upstream": UpstreamCode}

FAULT_OF: Final[Mapping[ErrorCode, Fault]] = {
    code: fault for fault, codes in _CODES.items() for code in get_args(codes)
}

RETRYABLE: Final[frozenset[ErrorCode]] = frozenset(
    {"UPSTREAM_TIMEOUT", "UPSTREAM_UNAVAILABLE", "RATE_LIMITED", "MAP_UNAVAILABLE", "STORE_UNAVAILABLE"}
)


class LeafgateError(Exception):
    """The root of the tree."""


class CatalogError(LeafgateError):
    """A tool id or a card breaks a rule of spec 1 or 2."""


class RouteError(LeafgateError):
    """A routing call that cannot be answered."""


class ConfigError(LeafgateError):
    """The operator's configuration cannot be used; the message says where and what to do."""


class TextError(LeafgateError):
    """The text has no tokenization (lone surrogates, or beyond a bound)."""


class IdsError(LeafgateError):
    """The ids cannot be decoded."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class CodecMetaMapMismatchError(LeafgateError):
    """A leaf was made with another map than the caller expects: its ids would poison a cache."""

    def __init__(self, expected: str, found: str, text_index: int) -> None:
        super().__init__(f"content[{text_index}] carries ids of map {found}, expected {expected}")
        self.expected = expected
        self.found = found
        self.text_index = text_index


class MapError(LeafgateError):
    """A tokenizer map cannot be used."""


class MapDigestError(MapError):
    """Not a sha256 digest."""


class MapHashMismatchError(MapError):
    """The bytes found are not the bytes named."""

    def __init__(self, where: str, expected: str, found: str) -> None:
        super().__init__(f"{where}: the map's digest is {found}, expected {expected}")
        self.expected = expected
        self.found = found


class MapInvalidError(MapError):
    """The bytes are the right ones, but they hold no usable map."""


class MissingExtraError(MapInvalidError):
    """The map is valid, and a package that it needs is not installed."""


class MapUnreachableError(MapError):
    """The map cannot be read: absent, too large or too slow."""


class StoreError(LeafgateError):
    """What the gateway keeps cannot be read or written. Names the store as the operator may see it: no secrets."""


class CapabilityError(LeafgateError):
    """The permissions of a session do not cover a tool; the tool's server has seen nothing."""

    def __init__(self, message: str, *, capability: str, tool_id: str, deployment: str = "mcp") -> None:
        super().__init__(message)
        self.capability = capability
        self.tool_id = tool_id
        self.deployment = deployment


class IRValidationError(LeafgateError):
    """Something breaks a schema or a shape. `violation` names the rule, `schema_path` points at the first offence."""

    def __init__(self, message: str, *, violation: str, tool_id: str = "", schema_path: str = "") -> None:
        super().__init__(message)
        self.violation = violation
        self.tool_id = tool_id
        self.schema_path = schema_path


class UpstreamFailure(LeafgateError):
    """A server did not answer as it should. `detail` may quote the server: it goes to the log at the level debug only.

    `message` and `details` are the gateway's own words about the failure, and may be shown; empty means that the code
    says all there is to say. `pointers` are the places in an answer that break its schema, for the log.
    """

    def __init__(
        self,
        code: ErrorCode,
        detail: str,
        *,
        message: str = "",
        details: Mapping[str, Any] | None = None,
        rpc_code: int | None = None,
        rpc_data: Any = None,
        pointers: Sequence[str] = (),
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.pointers = tuple(pointers)
        self.rpc_code = rpc_code
        self.rpc_data = rpc_data
        self.code = code
        self.detail = detail
        self.message = message
        self.details: Mapping[str, Any] = details or {}

    def describe(self) -> str:
        """The failure in the gateway's own words: nothing that the server wrote but JSON pointers."""
        words = [str(self.code), *([self.message] if self.message else [])]
        return ": ".join(words) + (f", at {', '.join(self.pointers)}" if self.pointers else "")


@dataclass(frozen=True)
class ErrorBody:
    """What the client is shown of a failure."""

    error: ErrorCode
    message: str
    path: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def retryable(self) -> bool:
        return self.error in RETRYABLE

    def as_json(self) -> dict[str, Any]:
        body = {"error": self.error, "message": self.message, "path": self.path, "retryable": self.retryable}
        return body | ({"details": dict(self.details)} if self.details else {})


class GatewayError(LeafgateError):
    """Ends a request with an ErrorBody. Raised inside the gateway, answered at its border, never shown as a raise."""

    def __init__(
        self, code: ErrorCode, message: str, *, path: str = "", details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.body = ErrorBody(code, message, path, details or {})

    @property
    def code(self) -> ErrorCode:
        return self.body.error
