"""Measures every way in turns. In: gateways that run, texts. Out: samples, one for each way, size and round.

Touches the clock, other processes' clocks and loopback. Before anything is measured each answer is read and checked:
the text is whole, the ids are those of the reference tokenizer, and they came by the way that is claimed. What is
measured afterwards must be the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leafgate.cli.leaf_bench.asking import Asking, wish_for
from leafgate.cli.leaf_bench.processes import Gateway, cpu_seconds
from leafgate.cli.leaf_bench.ways import FAST_SHIM, Tokenizer, Way
from leafgate.model.envelope import ENVELOPE_META_KEY
from leafgate.model.errors import LeafgateError
from leafgate.model.leaf import CODEC_META_KEY
from leafgate.tokens.encoder import Encoder

WARM_SIZE: Final = 128 * 1024
WARM_CALLS: Final = 24  # small ones, for what compiles while it runs
ACCELERATED_WITHIN: Final = 20  # seconds that the self-test of a faster tokenizer may take
# Calls of a round, by the largest size that they are for: as many as take about as long as one of a megabyte.
CALLS: Final = ((1024, 40), (4096, 24), (32 * 1024, 8), (256 * 1024, 4))

Texts = Mapping[int, Mapping[str, str]]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Sample:
    """What one call cost, in seconds: the mean over the calls of one round; of the latency, the median."""

    way: str
    size: int
    gateway_cpu: float
    codec: float
    server_cpu: float
    latency: float


class Bench:
    """The gateways, their texts, and what each answer must be."""

    def __init__(
        self, gateways: Mapping[Tokenizer, Gateway], ways: Sequence[Way], texts: Texts, encoder: Encoder
    ) -> None:
        self._gateways = gateways
        self._ways = ways
        self._texts = texts
        self._map = encoder.map.digest
        self._ids = {text: encoder.encode(text) for named in texts.values() for text in named.values()}
        self._right: dict[tuple[str, str], bytes] = {}

    def warm_up(self, warm: str, progress: Progress) -> None:
        """Every answer once, read and checked; then until each process runs as fast as it will."""
        for way in self._ways:
            progress(f"checking the answers of: {way.title}")
            with Asking(self._gateways[way.gateway].url) as asking:
                for texts in self._texts.values():
                    for name, text in texts.items():
                        self._right[way.key, name] = self._checked(asking, way, name, text)
                small = next(iter(self._texts[min(self._texts)]))
                for _ in range(WARM_CALLS):
                    self._call(asking, way, small)
        if FAST_SHIM in self._ways:
            progress("waiting for the faster tokenizer's self-test")
            self._wait_until_accelerated(warm)

    def round(self, number: int) -> list[Sample]:
        """Each way at each size; every other round backwards, so that nobody always goes first."""
        turns = [(size, way) for size in self._texts for way in self._ways]
        return [self._sample(way, size) for size, way in (turns if number % 2 == 0 else reversed(turns))]

    def _sample(self, way: Way, size: int) -> Sample:
        gateway, names = self._gateways[way.gateway], [*self._texts[size]]
        calls = calls_of(size)
        with Asking(gateway.url) as asking:
            codec = _codec_seconds(asking.status())
            pids = gateway.pid, gateway.servers[way.server]
            used = [cpu_seconds(pid) for pid in pids]
            taken = [self._call(asking, way, names[call % len(names)]) for call in range(calls)]
            own, server = (cpu_seconds(pid) - before for pid, before in zip(pids, used, strict=True))
            codec = _codec_seconds(asking.status()) - codec
        return Sample(way.key, size, own / calls, codec / calls, server / calls, statistics.median(taken))

    def _call(self, asking: Asking, way: Way, name: str) -> float:
        answer = asking.call(way.server, name, self._wish(way))
        if hashlib.sha256(answer.body).digest() != self._right[way.key, name]:
            raise LeafgateError(f"the answer of {way.title!r} has changed: {answer.body[:300]!r}")
        return answer.seconds

    def _checked(self, asking: Asking, way: Way, name: str, text: str) -> bytes:
        body = asking.call(way.server, name, self._wish(way)).body
        problem = problem_of(json.loads(body), way, text, {"map_id": self._map, "ids": self._ids[text]})
        if problem:
            raise LeafgateError(f"{way.title!r} cannot be measured with the text {name!r}: {problem}")
        return hashlib.sha256(body).digest()

    def _wish(self, way: Way) -> dict[str, Any]:
        return wish_for(self._map, "both") if way.wants_ids else {}

    def _wait_until_accelerated(self, warm: str) -> None:
        """It is looked for after some hundred kilobytes. It is ten times as fast: the counters tell when it came."""
        slow = min(self._tokenize_seconds("tiktoken", warm) for _ in range(3))
        until = time.monotonic() + ACCELERATED_WITHIN
        while self._tokenize_seconds("accelerated", warm) > slow / 3:
            if time.monotonic() > until:
                raise LeafgateError("the accelerated tokenizer did not come into use; see `leafgate doctor`")

    def _tokenize_seconds(self, gateway: Tokenizer, warm: str) -> float:
        with Asking(self._gateways[gateway].url) as asking:
            before = _codec_seconds(asking.status())
            asking.call("plain", warm, wish_for(self._map, "both"))
            return _codec_seconds(asking.status()) - before


def calls_of(size: int) -> int:
    return next((calls for most, calls in CALLS if size <= most), 1)


def problem_of(answer: Mapping[str, Any], way: Way, text: str, right: Mapping[str, Any]) -> str | None:
    """Why this is not the answer that the way promises, with the `right` payload; None if it is."""
    result = answer.get("result")
    if result is None or result.get("isError") or len(result["content"]) != 1:
        return f"it is no result: {str(answer)[:300]}"
    (block,) = result["content"]
    if block["text"] != text:
        return "the firewall changed or shortened the text"
    payload = block.get("_meta", {}).get(CODEC_META_KEY)
    if not way.wants_ids:
        return None if payload is None else "there are ids that nobody asked for"
    if payload != right:
        return "the ids are not those of the reference tokenizer"
    codec = result["_meta"][ENVELOPE_META_KEY]["provenance"]["codec"]
    came_by = "leaf" if codec["leafBypasses"] == 1 else "shim"
    return None if came_by == way.outcome else f"its ids came by {came_by}"


def _codec_seconds(status: Mapping[str, Any]) -> float:
    """CPU that the gateway itself counts for checking leaves and tokenizing."""
    spent = status["codec_seconds"]
    return float(spent["verify"] + spent["tokenize"])
