"""The gateway's answers as values of Python. In: a result as MCP clients get it. Out: what it says, typed.

Touches nothing. The gateway's errors are raised, as GatewayError; a tool's own error is an answer like any other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from leafgate.browse.confidence import Signal
from leafgate.gateway.runtime import BROWSE_META_KEY
from leafgate.model.card import ChoiceCard
from leafgate.model.envelope import ENVELOPE_META_KEY, ArtifactRef, ResultEnvelope
from leafgate.model.errors import ErrorCode, GatewayError

SUMMARY_CHARS: Final = 500


@dataclass(frozen=True)
class Delivered(ResultEnvelope):
    """The envelope of a result, and the content blocks it is about: clean, within the budget."""

    content: tuple[Mapping[str, Any], ...] = ()

    @property
    def text(self) -> str:
        """What a model reads of it: the text blocks, one after another."""
        return _text(self.content)

    @property
    def is_error(self) -> bool:
        """Whether the tool itself reports an error."""
        return self.status == "error"


class Cards(list[ChoiceCard]):
    """A page of cards; whether to believe them (`signal`, `confidence`), and the page as a model reads it (`text`)."""

    def __init__(self, cards: Iterable[ChoiceCard], signal: Signal, confidence: float | None, text: str) -> None:
        super().__init__(cards)
        self.signal = signal
        self.confidence = confidence
        self.text = text


def delivered(result: Mapping[str, Any]) -> Delivered:
    """A tool's result, a resource, a prompt, a view."""
    _raise_error(result)
    content = tuple(result["content"])
    envelope = result.get("_meta", {}).get(ENVELOPE_META_KEY, {})
    return Delivered(
        status=envelope.get("status", "ok"),
        summary=envelope.get("summary") or _text(content)[:SUMMARY_CHARS],
        facts=tuple(envelope.get("facts", ())),
        artifacts=tuple(ArtifactRef(**ref) for ref in envelope.get("artifacts", ())),
        provenance=envelope.get("provenance", {}),
        content=content,
    )


def cards(result: Mapping[str, Any]) -> Cards:
    """A page of tool_browse, resource_browse or prompt_browse."""
    _raise_error(result)
    page = result["_meta"][BROWSE_META_KEY]
    found = (ChoiceCard(**{**card, "tags": tuple(card["tags"])}) for card in page["cards"])
    return Cards(found, page["signal"], page["confidence"], _text(result["content"]))


def report(result: Mapping[str, Any]) -> dict[str, Any]:
    """What the gateway itself wrote as JSON: a dry run's report, a hydration."""
    _raise_error(result)
    found = json.loads(_text(result["content"]))
    assert isinstance(found, dict)
    return found


def _raise_error(result: Mapping[str, Any]) -> None:
    """The gateway's error in a result, raised. What a tool answered has a provenance, whatever it pretends to be."""
    envelope = result.get("_meta", {}).get(ENVELOPE_META_KEY, {})
    if not result.get("isError") or "provenance" in envelope:
        return
    body = json.loads(_text(result["content"]))
    code: ErrorCode = body["error"] if body["error"] in get_args(ErrorCode) else "INTERNAL_ERROR"
    raise GatewayError(code, body["message"], path=body["path"], details=body.get("details"))


def _text(content: Iterable[Mapping[str, Any]]) -> str:
    return "\n".join(block["text"] for block in content if block.get("type") == "text")
