"""The results file of the suite, and the page that is made of it.

The file has the checks with their routes and, for each subject, what it did not keep. A run of some subjects replaces
those, and leaves the others as they were.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from matrix import FEATURES, ROUTES, Outcomes, features_of, key_of, route_name
from named_losses import BY_DESIGN, OPEN, NamedLoss
from subjects import ROOT, Subject

FILE: Final = Path(__file__).resolve().parent / "results.json"
PAGE: Final = ROOT / "docs" / "survival.md"

Results = dict[str, Any]

_INTRODUCTION: Final = """\
# What survives

A gateway stands between a client and a server, and may lose some of what they send to each other. This page shows how
much: {checks} features of MCP, each a small check with the official Python client ({client}), over each transport and
in both eras of the protocol, directly against the reference server and through gateways. `just survival` runs it and
makes this page; with `--peers` it installs and runs the other gateways too. The checks are in
`tests/survival`.

A feature is **kept** if the client sees what it sees on a direct connection, **lost** if it is not there, and
**changed** if something else is there. Long results that leafgate shortens count as kept if every byte can be read
through `tool_view`. In mode `gateway` the checks go through the meta-tools; peers run as their documentation says for
this use. Where a gateway speaks an older version of the protocol, the client falls back to it, and the other features
are checked in that version.
"""


def load(file: Path = FILE) -> Results:
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {"subjects": {}}


def update(results: Results, subjects: Sequence[Subject], found: Mapping[str, Mapping[str, Outcomes]]) -> Results:
    """The results with those of these subjects in place of earlier ones."""
    fresh = {subject.name: _entry(subject, found[subject.name]) for subject in subjects}
    return {
        "client": f"mcp {version('mcp')}",
        "checks": {
            key_of(feature): [route_name(*route) for route in ROUTES if feature in features_of(*route)]
            for feature in FEATURES
        },
        "subjects": {**results["subjects"], **fresh},
    }


def _entry(subject: Subject, routes: Mapping[str, Outcomes]) -> dict[str, Any]:
    losses: dict[str, dict[str, str]] = {}
    for route, outcomes in routes.items():
        for check, outcome in outcomes.items():
            if outcome.outcome != "kept":
                losses.setdefault(check, {})[route] = f"{outcome.outcome}: {outcome.why}"
    return {"about": subject.about, "package": subject.package, "routes": [*routes], "losses": losses}


def save(results: Results, file: Path = FILE) -> None:
    file.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def outcomes_of(entry: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """What a subject did not keep: `lost` or `changed`, by check and route, without the reasons."""
    return {
        check: {route: why.partition(":")[0] for route, why in routes.items()}
        for check, routes in entry["losses"].items()
    }


def render(results: Results) -> str:
    """The page."""
    subjects: dict[str, Any] = results["subjects"]
    parts = [
        _INTRODUCTION.format(checks=len(results["checks"]), client=results["client"]),
        _summary(results),
        _features(results),
        "## What leafgate does not pass on\n\nBy design:\n",
        _named(BY_DESIGN),
        *(["Open:\n", _named(OPEN)] if OPEN else []),
        "## What was seen instead\n",
        *(_reasons(name, subject) for name, subject in subjects.items() if subject["losses"]),
    ]
    return "\n".join(parts)


def _summary(results: Results) -> str:
    subjects = results["subjects"]
    rows = [
        [
            f"{name}{_pinned(subject)}",
            *(_count(results, subject, route_name(*route)) for route in ROUTES),
        ]
        for name, subject in subjects.items()
    ]
    return "Features kept, by the transport between client and subject:\n\n" + _table(
        ["", *(route_name(*route) for route in ROUTES)], rows
    )


def _pinned(subject: Mapping[str, Any]) -> str:
    pinned = subject["package"].replace("==", "@").rpartition("@")[2]
    return f" {pinned}" if pinned else ""


def _count(results: Results, subject: Mapping[str, Any], route: str) -> str:
    if route not in subject["routes"]:
        return "-"
    checks = [check for check, routes in results["checks"].items() if route in routes]
    lost = sum(route in subject["losses"].get(check, {}) for check in checks)
    return f"{len(checks) - lost} of {len(checks)}"


def _features(results: Results) -> str:
    subjects = results["subjects"]
    groups: dict[str, list[list[str]]] = {}
    for check, routes in results["checks"].items():
        group, _, name = check.partition(": ")
        cells = [_cell(subject, check, routes) for subject in subjects.values()]
        groups.setdefault(group, []).append([name, *cells])
    header = [name.removeprefix("leafgate ") for name in subjects]
    return "\n".join(
        f"## {group[0].upper()}{group[1:]}\n\n{_table(['', *header], rows)}" for group, rows in groups.items()
    )


def _cell(subject: Mapping[str, Any], check: str, routes: Sequence[str]) -> str:
    """`kept`, or what else; with the number of routes where it is not so on all of them."""
    made = [route for route in routes if route in subject["routes"]]
    losses = {route: why for route, why in subject["losses"].get(check, {}).items() if route in made}
    if not made:
        return "-"
    if not losses:
        return "kept"
    outcomes = {why.partition(":")[0] for why in losses.values()}
    outcome = "**lost**" if "lost" in outcomes else "**changed**"
    return outcome if len(losses) == len(made) else f"{outcome} {len(losses)}/{len(made)}"


def _named(named: Sequence[NamedLoss]) -> str:
    rows = [
        [loss.check, ", ".join(subject.removeprefix("leafgate ") for subject in loss.subjects), loss.reason]
        for loss in named
    ]
    return _table(["feature", "modes", "why"], rows)


def _reasons(name: str, subject: Mapping[str, Any]) -> str:
    lines = [f"- {check}: {_first(routes)}" for check, routes in subject["losses"].items()]
    return "\n".join([f"### {name}", "", f"{subject['about']}.", "", *lines, ""])


def _first(routes: Mapping[str, str]) -> str:
    """The first reason, with its route where others have none."""
    route, why = next(iter(routes.items()))
    return f"{why} ({route})" if len(routes) == 1 else why


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_escape(cell) for cell in line)} |" for line in lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("|", "\\|")
