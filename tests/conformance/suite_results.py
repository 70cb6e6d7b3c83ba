"""The official conformance suite, run against a URL. In: a URL, a version of the protocol. Out: the status per check.

Touches: a Node process, a temporary folder. The suite and its Node are installed in one folder (SUITE_DIR).
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
SUITE_DIR: Final = ROOT / ".tools" / "conformance"
SUITE: Final = "@modelcontextprotocol/conformance"
SUITE_VERSION: Final = "0.2.0-alpha.12"
NODE_VERSION: Final = "22"  # what the suite asks for; more than this repository does
VERSIONS: Final = ("2025-11-25", "2026-07-28")
HOW_TO_INSTALL: Final = f"npm install --prefix .tools/conformance --no-save node@{NODE_VERSION} {SUITE}@{SUITE_VERSION}"
SCENARIO_MS: Final = 20_000
RUN_SECONDS: Final = 600

PASSED: Final = "SUCCESS"
FAILED: Final = "FAILURE"

_STARTED = re.compile(r"^=== Running scenario: (.+) ===$", re.MULTILINE)
_FOLDER = re.compile(r"server-(.+?)-\d{4}-\d\d-\d\dT[\d-]+Z")


class SuiteMissing(Exception):
    """The suite is not installed. The message says what to do."""


class SuiteBroken(Exception):
    """The suite could not be run to its end."""


@dataclass(frozen=True)
class Check:
    """One check: its scenario and id, with `#2` and so on where a scenario makes it more than once."""

    key: str
    name: str
    status: str
    message: str = ""

    @property
    def scenario(self) -> str:
        return self.key.partition(":")[0]


@dataclass(frozen=True)
class Results:
    """All checks of one run, by key."""

    checks: dict[str, Check]

    def count(self, status: str) -> int:
        return sum(check.status == status for check in self.checks.values())

    def scenarios(self) -> dict[str, bool]:
        """Whether each scenario passed, that is: has no failure."""
        passed: dict[str, bool] = {}
        for check in self.checks.values():
            passed[check.scenario] = passed.get(check.scenario, True) and check.status != FAILED
        return passed

    def not_passed(self) -> list[Check]:
        """What failed or was warned of. The suite's own notes are no verdicts."""
        return [check for check in self.checks.values() if check.status not in (PASSED, "INFO")]

    def as_json(self) -> dict[str, Any]:
        scenarios = self.scenarios()
        return {
            "scenarios": {"passed": sum(scenarios.values()), "failed": len(scenarios) - sum(scenarios.values())},
            "checks": {"passed": self.count(PASSED), "failed": self.count(FAILED), "warned": self.count("WARNING")},
            "details": [asdict(check) for check in self.checks.values()],
        }


def find_suite(folder: Path = SUITE_DIR) -> list[str]:
    """The command that runs the suite installed in this folder."""
    modules = folder / "node_modules"
    node, program = modules / "node" / "bin" / "node", modules / SUITE / "dist" / "index.js"
    missing = [path for path in (node, program) if not path.exists()]
    if missing:
        names = ", ".join(str(path.relative_to(folder)) for path in missing)
        raise SuiteMissing(
            f"the conformance suite is not installed: {folder.name} lacks {names}. Run: {HOW_TO_INSTALL}"
        )
    return [str(node), str(program)]


def installed_version(folder: Path = SUITE_DIR) -> str:
    package = folder / "node_modules" / SUITE / "package.json"
    return str(json.loads(package.read_text(encoding="utf-8"))["version"])


def run_suite(url: str, version: str, folder: Path = SUITE_DIR, scenario: str | None = None) -> Results:
    """Every server scenario of this version of the protocol, or one scenario.

    Those of extensions are not of any version: they are run only by their names.
    """
    chosen = ["--suite", "all"] if scenario is None else ["--scenario", scenario, "--force"]
    with tempfile.TemporaryDirectory() as output:
        limits = ["--timeout", str(SCENARIO_MS), "--output-dir", output]
        command = [*find_suite(folder), "server", "--url", url, "--spec-version", version, *chosen, *limits]
        try:
            # Its exit code only says whether a check failed; that is read from the results.
            run = subprocess.run(
                command, capture_output=True, text=True, encoding="utf-8", timeout=RUN_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise SuiteBroken(f"the suite did not end within {RUN_SECONDS} s") from None
        started = _STARTED.findall(run.stdout) if scenario is None else [scenario]
        found = _read(Path(output))
    if not started or not found:
        raise SuiteBroken(f"the suite ran no scenario of {version}: {(run.stderr or run.stdout).strip()[-2000:]}")
    results: dict[str, Check] = {}
    for name in started:
        results |= _checks(name, found.get(name))
    return Results(results)


TIMED: Final = "server-sse-polling"


def run_until_steady(url: str, version: str) -> Results:
    """The suite; if a check of the timed scenario did not pass, that scenario is run once more, and that run counts.

    On a busy machine it misses events now and then, also on a direct connection.
    """
    results = run_suite(url, version)
    if any(check.scenario == TIMED for check in results.not_passed()):
        results = Results({**results.checks, **run_suite(url, version, scenario=TIMED).checks})
    return results


def _read(output: Path) -> dict[str, list[dict[str, Any]]]:
    """The checks by scenario, from the folder that the suite makes for each."""
    found = {}
    for file in sorted(output.glob("*/checks.json")):
        named = _FOLDER.fullmatch(file.parent.name)
        if named is None:
            raise SuiteBroken(f"a folder of results bears an unknown name: {file.parent.name}")
        found[named.group(1)] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _checks(scenario: str, raw: list[dict[str, Any]] | None) -> dict[str, Check]:
    if raw is None:  # the scenario itself broke off: the suite then writes no file
        key = f"{scenario}:scenario-ran"
        return {key: Check(key, "ScenarioRan", FAILED, "the scenario ended without results")}
    seen: Counter[str] = Counter()
    checks = {}
    for entry in raw:
        id = str(entry["id"])
        seen[id] += 1
        key = f"{scenario}:{id}" + (f"#{seen[id]}" if seen[id] > 1 else "")
        checks[key] = Check(key, str(entry.get("name", id)), str(entry["status"]), str(entry.get("errorMessage") or ""))
    return checks
