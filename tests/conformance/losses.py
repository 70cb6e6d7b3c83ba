"""What a gateway costs. In: the results of the same suite without and with it. Out: the checks that are lost."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from suite_results import PASSED, VERSIONS, Check, Results

KNOWN_FILE: Final = Path(__file__).resolve().parent / "known_losses.json"


@dataclass(frozen=True)
class KnownLoss:
    """A check that is known to be lost, and why. It must still be lost: a loss that is gone is taken off the list.

    `is_certain` is false for one that depends on how quick the gateway answers.
    """

    version: str
    check: str
    reason: str
    is_certain: bool = True


@dataclass(frozen=True)
class Comparison:
    """One version of the protocol, without and with the gateway."""

    version: str
    lost: tuple[Check, ...]
    gained: tuple[Check, ...]
    known: tuple[KnownLoss, ...]
    stale: tuple[KnownLoss, ...]  # known to be lost, and yet passed

    @property
    def unexpected(self) -> list[Check]:
        """Lost, and not known to be."""
        expected = {loss.check for loss in self.known}
        return [check for check in self.lost if check.key not in expected]

    def as_json(self) -> dict[str, Any]:
        return {
            "lost": [asdict(check) for check in self.lost],
            "gained": [asdict(check) for check in self.gained],
            "unexpected": [check.key for check in self.unexpected],
            "stale": [loss.check for loss in self.stale],
        }


def compare(version: str, direct: Results, through: Results, known: tuple[KnownLoss, ...]) -> Comparison:
    """A check is lost when it passes directly, and through the gateway does anything else, or is not made at all."""
    known = tuple(loss for loss in known if loss.version == version)
    passed = {key for key, check in through.checks.items() if check.status == PASSED}
    return Comparison(
        version,
        lost=tuple(_only_passed_by(direct, through)),
        gained=tuple(_only_passed_by(through, direct)),
        known=known,
        stale=tuple(loss for loss in known if loss.is_certain and loss.check in passed),
    )


def _only_passed_by(one: Results, other: Results) -> list[Check]:
    """The checks that the one passes and the other does not, as the other has them."""
    absent = "ABSENT"
    return [
        other.checks.get(key) or Check(key, check.name, absent, "the scenario did not come to this check")
        for key, check in one.checks.items()
        if check.status == PASSED and (key not in other.checks or other.checks[key].status != PASSED)
    ]


def load_known(file: Path = KNOWN_FILE) -> tuple[KnownLoss, ...]:
    """The checked-in list. Every entry says why, and belongs to a version that is run."""
    known = tuple(KnownLoss(**entry) for entry in json.loads(file.read_text(encoding="utf-8")))
    for loss in known:
        if not loss.reason.strip() or loss.version not in VERSIONS:
            raise ValueError(f"{file.name}: {loss.check} needs a reason, and a version out of {', '.join(VERSIONS)}")
    return known
