"""docs/benchmarks.md and its charts, made from a results file. In: a results file. Out: texts by path.

    just bench-page [RESULTS]     # keeps RESULTS as measured.json; without: from the kept one

Touches, as a command: docs/benchmarks.md, docs/images/race-*.svg, bench/race/measured.json. A test compares the
documents with what the kept file makes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import results
from charts import draw_charts
from report import claims, conditions, failures, misses, profile_lines
from tables import all_grids

DOCS: Final = results.HERE.parents[1] / "docs"
HEAD: Final = """# Benchmarks

<!-- Made by bench/race/docs.py from bench/race/measured.json; edit those, not this. -->

leafgate against PyPI contextweaver as a gateway, and against PyPI fastmcp and mcp-proxy as a proxy. `just bench`
measures on your machine: it prints this report and writes `bench/results/DATE.json` and charts. Every peer comes from
its package at a pinned version, in an environment of its own. All get the same catalogs and calls in one run, in turns.
Each claim is a ratio of figures of that run: on a shared machine those move less than times. They still move: where
other work ran beside (see the load), calls that differ by less than a third may be a draw.
"""
SETTINGS: Final = """## How everybody is set up

- **contextweaver**: as a library its `ProxyRuntime` at its defaults, tools named `server.tool` as its `namespace`
  setting does; for recall also with the widest search that it allows (`beam_width` 10). Over HTTP `contextweaver mcp
  serve --transport streamable-http`. It finds its token ranks in a folder, as it advises, and need not fetch them.
- **fastmcp**: `fastmcp run` with a client's file, and, because that opens a session for every request, also
  `create_proxy` with a connected client: one session to the server behind, shared by all clients.
- **mcp-proxy**: its server mode. It cannot go from HTTP to HTTP by itself: there a second one stands behind the first.
- **leafgate**: `passthrough` (tools as their servers show them: what a proxy does) and `gateway` (four tools, cards,
  firewall), at their defaults; `ids` also makes token ids of every result. As a library its `ProxyRuntime`.
- **direct**: the server itself over HTTP. All HTTP clients are the same plain socket, which costs less than a library.
- At 10,000 tools contextweaver gets 8 of the 150 queries and one cold refresh, for the sake of time. Ratios of queries
  are taken over the queries that both got.
- CPU is that of the first process alone: where mcp-proxy stands twice, the second is not counted.
- 1 MB: leafgate and contextweaver answer with a digest and keep the rest, the others with the whole text; `KB` tells.
- `session` is the protocol of 2025-11-25, `stateless` that of 2026-07-28; who is not listed does not speak it.
"""


def make(found: results.Results) -> dict[str, str]:
    """The documents by their path below docs/."""
    parts = [HEAD, conditions(found) + "\n", _images(), "## In ratios\n", _bullets(claims(found))]
    parts += ["## Tables\n", *(grid.as_markdown() for grid in all_grids(found))]
    parts += ["## Goals that were missed, and why\n", _bullets(misses(found))] if misses(found) else []
    parts += ["Profiles of leafgate, as shares of the whole:\n", _bullets(profile_lines(found))]
    parts += ["## Who could not be measured\n", _bullets(failures(found))] if failures(found) else []
    pages = {"benchmarks.md": "\n".join([*parts, SETTINGS])}
    return pages | {f"images/{name}": text for name, text in draw_charts(found).items()}


def _images() -> str:
    shown = {"browse": "Time of one browse", "calls": "Calls to a direct one", "tokens": "Tokens", "recall": "Recall"}
    return "\n".join(f"![{words}](images/race-{name}.svg)" for name, words in shown.items()) + "\n"


def _bullets(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines) + "\n"


def main() -> None:
    if len(sys.argv) > 1:
        results.write(results.read(Path(sys.argv[1])), results.KEPT)
    for name, text in make(results.read()).items():
        (DOCS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
