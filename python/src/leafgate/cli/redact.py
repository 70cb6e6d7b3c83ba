"""`leafgate redact`: JSON lines in, the same lines without secrets out. Touches standard input and output."""

from __future__ import annotations

from typing import Any

import click

from leafgate.cli.json_lines import JSON_OPTION, field, serve_standard_streams
from leafgate.firewall.redact import RedactPolicy, redact_json


@click.command()
@click.option("--allow", multiple=True, metavar="VALUE",
              help="A value that is no secret, or its beginning followed by *; may be repeated.")  # fmt: skip
@JSON_OPTION
def command(allow: tuple[str, ...]) -> None:
    """Replace secrets in JSON lines from standard input as the firewall does in tool results.

    Each line is an object {"text"?: string, "structured"?: any JSON}. The answer has the same members with each secret
    replaced by [redacted:TYPE], in strings and keys, and "redacted": [{"type", "count"}].

    One line per line, in order. A line that cannot be read gives {"error": "bad-line", "message"}.
    """
    policy = RedactPolicy(allow=allow)

    def answer(line: dict[str, Any]) -> dict[str, Any]:
        if "text" in line:
            field(line, "text", str)
        redacted = redact_json(line, policy)
        types = redacted.redacted
        return {**redacted.value, "redacted": [{"type": kind, "count": types[kind]} for kind in sorted(types)]}

    serve_standard_streams(answer)
