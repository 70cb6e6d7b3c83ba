"""The survival suite. In: nothing. Out: a table of what each subject keeps, results.json and docs/survival.md.

    just survival                      leafgate in its three modes, and the reference server directly
    just survival --peers              the other gateways too; installs them
    just survival --only NAME          one subject; may be given more than once

Exit code: 0 as expected, 1 something is lost that is not named, or is named and not lost.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings

import anyio
import survival_results as results
from matrix import run_subjects
from mcp import MCPDeprecationWarning
from named_losses import stale, unnamed
from subjects import DIRECT, LEAFGATES, PEER_SUBJECTS, Subject, install, transports_of


def main() -> int:
    chosen = _arguments()
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    logging.disable()  # the official client logs what it refuses
    subjects = _subjects(chosen)
    found = anyio.run(run_subjects, subjects, {subject.name: transports_of(subject) for subject in subjects})
    fault = False
    for name, routes in found.items():
        for route, outcomes in routes.items():
            lost = {check: outcome for check, outcome in outcomes.items() if outcome.outcome != "kept"}
            print(f"{name}, {route}: {len(outcomes) - len(lost)} of {len(outcomes)} kept")
            for check, outcome in lost.items() if chosen.verbose else ():
                print(f"  {outcome.outcome:<8} {check}: {outcome.why}")
        if name == "direct" or name.startswith("leafgate"):
            for where, outcome in unnamed(name, routes).items():
                print(f"NOT NAMED  {name}, {where}: {outcome.outcome}, {outcome.why}")
            for check in stale(name, routes):
                print(f"NOT LOST ANY MORE  {name}, {check}: take it off named_losses.py")
            fault = fault or bool(unnamed(name, routes) or stale(name, routes))
    merged = results.update(results.load(), subjects, found)
    results.save(merged)
    results.PAGE.write_text(results.render(merged), encoding="utf-8")
    return int(fault)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [subject.name for subject in (DIRECT, *LEAFGATES, *PEER_SUBJECTS)]
    parser.add_argument("--peers", action="store_true", help="run the other gateways too")
    parser.add_argument("--only", action="append", choices=names, help="run one subject")
    parser.add_argument("--verbose", action="store_true", help="print each loss")
    return parser.parse_args()


def _subjects(chosen: argparse.Namespace) -> list[Subject]:
    """The chosen subjects, without peers that cannot be installed."""
    if chosen.only:
        wanted = [each for each in (DIRECT, *LEAFGATES, *PEER_SUBJECTS) if each.name in chosen.only]
    else:
        wanted = [DIRECT, *LEAFGATES, *(PEER_SUBJECTS if chosen.peers else ())]
    subjects = []
    for subject in wanted:
        problem = install(subject) if subject.package else None
        if problem is None:
            subjects.append(subject)
        else:
            print(f"{subject.name}: {problem}", file=sys.stderr)
    return subjects


if __name__ == "__main__":
    sys.exit(main())
