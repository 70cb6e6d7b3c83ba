"""What the gateway returns: values that the server writes as MCP results, and that a program gets as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from leafgate.gateway.browse import CardPage
from leafgate.model.envelope import ENVELOPE_META_KEY, ResultEnvelope
from leafgate.model.errors import ErrorBody, GatewayError
from leafgate.model.request import EnvelopeForm

BROWSE_META_KEY: Final = "leafgate/browse"


@dataclass(frozen=True)
class Delivered(ResultEnvelope):
    """The envelope of a result, and what it is about: content blocks and structured content, clean, within the budget.

    `structured_content` may be any JSON, also null: `has_structured` says whether there is any. `server_meta` is the
    `_meta` of the server's own result.
    """

    content: tuple[Mapping[str, Any], ...] = ()
    structured_content: Any = field(default=None, repr=False)
    has_structured: bool = field(default=False, repr=False)
    server_meta: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def text(self) -> str:
        """What a model reads of it: the text blocks, one after another."""
        return "\n".join(block["text"] for block in self.content if block.get("type") == "text")

    @property
    def is_error(self) -> bool:
        """Whether this reports an error: the tool's own, or for a Failure the gateway's."""
        return self.status == "error"

    def as_mcp(self, form: EnvelopeForm = "full") -> dict[str, Any]:
        """The result as MCP clients get it."""
        result: dict[str, Any] = {"content": [*self.content], "isError": self.is_error}
        if self.has_structured:
            result["structuredContent"] = self.structured_content
        meta = {**self.server_meta, **(self._full_meta() if form == "full" else self._lean_meta())}
        return result | {"_meta": meta} if meta else result

    def _full_meta(self) -> dict[str, Any]:
        """The envelope, for what a server answered and for errors; texts of the gateway itself have none."""
        return {ENVELOPE_META_KEY: self.as_json()} if self.provenance or self.is_error else {}

    def _lean_meta(self) -> dict[str, Any]:
        """At most 40 tokens, and only if something was withheld: some libraries show their model all of a result.

        A flow that a rule flags is stated too."""
        flows = {"flows": self.provenance["flows"]} if "flows" in self.provenance else {}
        if not self.artifacts:
            return {ENVELOPE_META_KEY: {"status": self.status, **flows}} if flows else {}
        first, more = self.artifacts[0], len(self.artifacts) - 1
        lean = {"status": self.status, **flows, "artifacts": [{"handle": first.handle}]}
        return {ENVELOPE_META_KEY: lean | ({"more": more} if more else {})}


@dataclass(frozen=True)
class BrowseResult(Delivered):
    """A page of cards, as its text and as a value."""

    page: CardPage = CardPage(())  # noqa: RUF009  frozen

    def _full_meta(self) -> dict[str, Any]:
        return {BROWSE_META_KEY: self.page.as_json()}


@dataclass(frozen=True)
class Report(Delivered):
    """The report of a dry run, as its text and as a value."""

    report: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure(Delivered):
    """An error of the gateway, as a text that a model reads and as a value."""

    error: ErrorBody = ErrorBody("INTERNAL_ERROR", "")  # noqa: RUF009  frozen

    def as_exception(self) -> GatewayError:
        error = self.error
        return GatewayError(error.error, error.message, path=error.path, details=error.details)


@dataclass(frozen=True)
class InputRequired:
    """A server's questions to the client, which it answers with another request. An MCP result that passes clean."""

    result: Mapping[str, Any]

    def as_mcp(self, form: EnvelopeForm = "full") -> dict[str, Any]:
        return dict(self.result)


@dataclass(frozen=True)
class TaskCreated:
    """A task under its public id, whose result the client fetches later. An MCP result that passes clean."""

    result: Mapping[str, Any]

    def as_mcp(self, form: EnvelopeForm = "full") -> dict[str, Any]:
        return dict(self.result)


# What a call of a tool ends with.
CallResult = Delivered | InputRequired | TaskCreated
