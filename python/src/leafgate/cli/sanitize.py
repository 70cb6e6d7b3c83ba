"""`leafgate sanitize`: JSON lines in, the same lines clean out. Touches standard input and output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from leafgate.cli.json_lines import JSON_OPTION, field, serve_standard_streams
from leafgate.firewall.links import LinkPolicy
from leafgate.firewall.sanitize import SanitizePolicy, sanitize_json


@click.command()
@click.option("--links", type=click.Choice(["off", "flag", "strip"]), default="flag", show_default=True,
              help="Links and images that could carry data to a foreign host.")  # fmt: skip
@click.option("--trust-host", multiple=True, metavar="HOST", help="A host whose links are fine; may be repeated.")
@click.option("--escape-html", is_flag=True, help="Escape < > & and quotes in every string.")
@click.option("--legacy-turns", is_flag=True, help='Make "Human:" and "Assistant:" after an empty line inert.')
@JSON_OPTION
def command(links: LinkPolicy, trust_host: tuple[str, ...], escape_html: bool, legacy_turns: bool) -> None:
    """Clean JSON lines from standard input as the firewall cleans tool results.

    Each line is an object {"text"?: string, "structured"?: any JSON}. The answer has the same members, every string and
    key in them cleaned, and "removed": [{"kind", "count"}]: control, escape-sequence, tag, zero-width,
    variation-selector, bidi, filler, soft-hyphen, invisible, noncharacter, surrogate, chat-marker, link, too-deep.
    What was noticed and left alone is listed likewise in "flagged", which is absent when empty.

    One line per line, in order. A line that cannot be read gives {"error": "bad-line", "message"}.
    """
    policy = SanitizePolicy(escape_html=escape_html, links=links, trusted_hosts=trust_host, legacy_turns=legacy_turns)

    def answer(line: dict[str, Any]) -> dict[str, Any]:
        if "text" in line:
            field(line, "text", str)
        cleaned = sanitize_json(line, policy)
        flagged = {"flagged": _counts(cleaned.flagged)} if cleaned.flagged else {}
        return {**cleaned.value, "removed": _counts(cleaned.removed), **flagged}

    serve_standard_streams(answer)


def _counts(kinds: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"kind": kind, "count": kinds[kind]} for kind in sorted(kinds)]
