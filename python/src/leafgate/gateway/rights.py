"""What the operator gave one principal that differs from what everybody has. Nouns only; touches nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from leafgate.admission.capability import CapabilityPolicy
from leafgate.admission.visibility import EVERYTHING, Visibility
from leafgate.ports import Quotas


@dataclass(frozen=True)
class Rights:
    """What somebody sees, under which policy and limits, and which maps' ids; None: as everybody."""

    visibility: Visibility = EVERYTHING
    policy: CapabilityPolicy | None = None
    quotas: Quotas | None = None
    maps: frozenset[str] | None = None


AS_EVERYBODY: Final = Rights()
