"""The official conformance suite, without and with the gateway. In: nothing. Out: a table of what the gateway costs.

    .venv/bin/python tests/conformance/run.py                     both, for both versions of the protocol
    .venv/bin/python tests/conformance/run.py --only direct       the reference server alone
    .venv/bin/python tests/conformance/run.py --gateway-url URL   any server in the gateway's place

Writes bench/results/conformance.json. Exit code: 0 as expected, 1 something failed or was lost, 2 could not run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

from losses import Comparison, compare, load_known
from suite_results import (
    SUITE_DIR,
    SUITE_VERSION,
    VERSIONS,
    Check,
    Results,
    SuiteBroken,
    SuiteMissing,
    find_suite,
    installed_version,
    run_suite,
)
from targets import ROOT, TargetBroken, reference_behind_gateway, reference_directly

OUTPUT: Final = ROOT / "bench" / "results" / "conformance.json"

Target = Callable[[], AbstractContextManager[str]]
"""How to come by a URL, for as long as it is needed."""

Runs = dict[str, dict[str, Results]]
"""The results by target, then by version."""


def main() -> int:
    chosen = _arguments()
    try:
        find_suite(chosen.suite)
        installed = installed_version(chosen.suite)
        if installed != SUITE_VERSION:
            print(f"note: the suite is {installed}; the known losses were written for {SUITE_VERSION}", file=sys.stderr)
        runs = {
            name: _run(name, target, chosen) for name, target in _targets(chosen).items() if chosen.only in (None, name)
        }
    except (SuiteMissing, SuiteBroken, TargetBroken) as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 2
    comparisons = _compare(runs, chosen)
    _print_table(runs)
    for name, results in runs.items():
        for version, result in results.items():
            _print_checks(f"{name}, {version}: not passed", result.not_passed())
    for comparison in comparisons:
        _print_comparison(comparison)
    _write(chosen.output, installed, runs, comparisons)
    direct_fails = any(result.not_passed() for result in runs.get("direct", {}).values())
    return int(direct_fails or any(comparison.unexpected or comparison.stale for comparison in comparisons))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", type=Path, default=SUITE_DIR, help="where npm installed the suite")
    parser.add_argument("--only", choices=("direct", "gateway"), help="one of the two targets")
    parser.add_argument("--direct-url", help="a running server, instead of starting the reference server")
    parser.add_argument("--gateway-url", help="a running server, instead of starting the gateway")
    parser.add_argument("--version", action="append", choices=VERSIONS, help="of the protocol; both by default")
    parser.add_argument("--scenario", help="one scenario instead of all; needs one --version that has it")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where the JSON goes")
    chosen = parser.parse_args()
    if chosen.scenario and len(chosen.version or ()) != 1:
        parser.error("--scenario needs one --version")
    return chosen


def _targets(chosen: argparse.Namespace) -> dict[str, Target]:
    return {
        "direct": (lambda: nullcontext(chosen.direct_url)) if chosen.direct_url else reference_directly,
        "gateway": (lambda: nullcontext(chosen.gateway_url)) if chosen.gateway_url else reference_behind_gateway,
    }


def _run(name: str, target: Target, chosen: argparse.Namespace) -> dict[str, Results]:
    results = {}
    with target() as url:
        for version in chosen.version or VERSIONS:
            print(f"running {version} against {name} at {url}", file=sys.stderr)
            results[version] = run_suite(url, version, chosen.suite, chosen.scenario)
    return results


def _compare(runs: Runs, chosen: argparse.Namespace) -> list[Comparison]:
    if len(runs) < 2:
        return []
    known = load_known()
    if chosen.scenario:
        known = tuple(loss for loss in known if loss.check.partition(":")[0] == chosen.scenario)
    return [compare(version, runs["direct"][version], runs["gateway"][version], known) for version in runs["direct"]]


def _print_table(runs: Runs) -> None:
    print(f"{'version':<12}{'target':<10}{'scenarios':>10}{'failed':>8}{'checks':>10}{'failed':>8}{'warned':>8}")
    for version in next(iter(runs.values())):
        for name, results in runs.items():
            figures = results[version].as_json()
            scenarios, checks = figures["scenarios"], figures["checks"]
            print(
                f"{version:<12}{name:<10}{scenarios['passed']:>10}{scenarios['failed']:>8}"
                f"{checks['passed']:>10}{checks['failed']:>8}{checks['warned']:>8}"
            )


def _print_checks(title: str, checks: list[Check]) -> None:
    if checks:
        print(f"\n{title}")
        for check in checks:
            print(f"  {check.status:<8} {check.key} ({check.name}) {check.message[:200]}".rstrip())


def _print_comparison(comparison: Comparison) -> None:
    reasons = {loss.check: loss.reason for loss in comparison.known}
    _print_checks(f"{comparison.version}: lost through the gateway", comparison.unexpected)
    expected = [check for check in comparison.lost if check.key in reasons]
    if expected:
        print(f"\n{comparison.version}: lost through the gateway, as known")
        for check in expected:
            print(f"  {check.key}: {reasons[check.key]}")
    if comparison.stale:
        print(f"\n{comparison.version}: not lost any more; take them off known_losses.json")
        for loss in comparison.stale:
            print(f"  {loss.check}")
    _print_checks(f"{comparison.version}: passed only through the gateway", list(comparison.gained))
    if not comparison.lost:
        print(f"\n{comparison.version}: nothing is lost through the gateway")


def _write(file: Path, installed: str, runs: Runs, comparisons: list[Comparison]) -> None:
    document: dict[str, Any] = {"suite": installed, "versions": {}}
    for name, results in runs.items():
        for version, result in results.items():
            document["versions"].setdefault(version, {})[name] = result.as_json()
    for comparison in comparisons:
        document["versions"][comparison.version]["comparison"] = comparison.as_json()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
