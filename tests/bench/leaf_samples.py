"""Made-up samples and weights of the benchmark, where each way costs what a test says."""

from __future__ import annotations

from collections.abc import Mapping

from leaf.figures import Figures, Weights
from leaf.gateways import WAYS
from leaf.measure import FORMATS, FORMS, Sample, Weight

KB32 = 32 * 1024


def samples(size: int = KB32, slow: float = 1.0, **gateway: float) -> list[Sample]:
    """One round. A way's gateway CPU is given in ms, by its key; a quarter is codec work. Its server uses 1 ms."""
    return [
        Sample(
            way.key,
            size,
            gateway_cpu=slow * gateway.get(way.key.replace("-", "_"), 4.0) / 1000,
            codec=slow * (gateway.get(way.key.replace("-", "_"), 4.0) / 4000 if way.wants_ids else 0.0),
            server_cpu=slow / 1000,
            latency=slow * 10 / 1000,
        )
        for way in WAYS
    ]


def figures(*sizes: int, rounds: int = 3, **gateway: float) -> Figures:
    """The same in each round, at each size."""
    return Figures([[one for size in sizes or (KB32,) for one in samples(size, **gateway)] for _ in range(rounds)])


def weights(*sizes: int, **bytes: int) -> Weights:
    """1000 bytes each, but for those that are given, such as ids_msgpack_gzip=500."""
    by_form: Mapping[tuple[str, str], int] = {
        (form, format): bytes.get(f"{form}_{format}".replace("+", "_"), 1000) for form in FORMS for format in FORMATS
    }
    return Weights(
        [Weight(size, "prose", *key, weight) for size in sizes or (KB32,) for key, weight in by_form.items()]
    )
