"""Measure every way in turns: CPU and latency of calls, and bytes of answers on the wire.

Before anything is measured each answer is read and checked: the text is whole, the ids are those of the reference
tokenizer, and they came by the way's own path. Later answers must be the same bytes.

Frames and their compression are the gateway's. It does not compress JSON: the figure for JSON with gzip is its answer,
compressed here at the same level, which is what a plain client behind any web server gets.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

from leaf.gateways import FAST_SHIM, JSON_ONLY, Connection, Gateway, Tokenizer, Way, ask_for_ids, cpu_seconds

from leafgate.codec.compression import compress
from leafgate.codec.frames import FRAMES_TYPE
from leafgate.model.envelope import ENVELOPE_META_KEY
from leafgate.model.errors import LeafgateError
from leafgate.model.leaf import CODEC_META_KEY
from leafgate.model.request import Form
from leafgate.tokens.encoder import Encoder
from leafgate.tokens.ids import TokenIds

WARM_SIZE: Final = 128 * 1024
WARM_CALLS: Final = 24  # small ones, for code that is compiled while it runs
ACCELERATED_WITHIN: Final = 20  # seconds that the self-test of a faster tokenizer may take
# Calls of a round, by the largest size that they are for: as many as take about as long as one of a megabyte.
CALLS: Final = ((1024, 40), (4096, 24), (32 * 1024, 8), (256 * 1024, 4))

FORMS: Final[tuple[Form, ...]] = ("text", "both", "ids")
FORMATS: Final = ("json", "json+gzip", "msgpack", "msgpack+gzip", "msgpack+zstd")
BASELINE: Final[tuple[Form, str]] = ("text", "json+gzip")
_MSGPACK_CODINGS: Final = {"msgpack": "identity", "msgpack+gzip": "gzip", "msgpack+zstd": "zstd"}

assert {*FORMS} == {*get_args(Form)}

Texts = Mapping[int, Mapping[str, str]]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Sample:
    """What one call cost, in seconds: the mean over the calls of one round; the latency is their median."""

    way: str
    size: int
    gateway_cpu: float
    codec: float
    server_cpu: float
    latency: float


class Bench:
    """The gateways, their texts, and the right answer to each call."""

    def __init__(
        self, gateways: Mapping[Tokenizer, Gateway], ways: Sequence[Way], texts: Texts, encoder: Encoder
    ) -> None:
        self._gateways = gateways
        self._ways = ways
        self._texts = texts
        self._map = encoder.map.digest
        self._ids = {text: encoder.encode(text) for by_name in texts.values() for text in by_name.values()}
        self._right: dict[tuple[str, str], bytes] = {}

    def warm_up(self, warm: str, progress: Progress) -> None:
        """Check every answer once, then call until each process runs at its full speed."""
        for way in self._ways:
            progress(f"checking the answers of: {way.title}")
            with Connection(self._gateways[way.gateway].url) as connection:
                for texts in self._texts.values():
                    for name, text in texts.items():
                        self._right[way.key, name] = self._check(connection, way, name, text)
                small = next(iter(self._texts[min(self._texts)]))
                for _ in range(WARM_CALLS):
                    self._call(connection, way, small)
        if FAST_SHIM in self._ways:
            progress("waiting for the faster tokenizer's self-test")
            self._wait_until_accelerated(warm)

    def round(self, number: int) -> list[Sample]:
        """Sample each way at each size; every other round backwards, so that no way always goes first."""
        turns = [(size, way) for size in self._texts for way in self._ways]
        return [self._sample(way, size) for size, way in (turns if number % 2 == 0 else reversed(turns))]

    def _sample(self, way: Way, size: int) -> Sample:
        gateway, names = self._gateways[way.gateway], [*self._texts[size]]
        calls = calls_of(size)
        with Connection(gateway.url) as connection:
            codec = _codec_seconds(connection.status())
            pids = gateway.pid, gateway.servers[way.server]
            before = [cpu_seconds(pid) for pid in pids]
            latencies = [self._call(connection, way, names[call % len(names)]) for call in range(calls)]
            own, server = (cpu_seconds(pid) - start for pid, start in zip(pids, before, strict=True))
            codec = _codec_seconds(connection.status()) - codec
        return Sample(way.key, size, own / calls, codec / calls, server / calls, statistics.median(latencies))

    def _call(self, connection: Connection, way: Way, name: str) -> float:
        answer = connection.call(way.server, name, self._meta(way))
        if hashlib.sha256(answer.body).digest() != self._right[way.key, name]:
            raise LeafgateError(f"the answer of {way.title!r} has changed: {answer.body[:300]!r}")
        return answer.seconds

    def _check(self, connection: Connection, way: Way, name: str, text: str) -> bytes:
        """Return the hash of a right answer; LeafgateError for another one."""
        body = connection.call(way.server, name, self._meta(way)).body
        ids = self._ids[text]
        right = {"map_id": self._map, "ids": TokenIds.from_list(ids).packed if way.packed else ids}
        problem = problem_of(json.loads(body), way, text, right)
        if problem:
            raise LeafgateError(f"{way.title!r} cannot be measured with the text {name!r}: {problem}")
        return hashlib.sha256(body).digest()

    def _meta(self, way: Way) -> dict[str, Any]:
        return ask_for_ids(self._map, "both", packed=way.packed) if way.wants_ids else {}

    def _wait_until_accelerated(self, warm: str) -> None:
        """The accelerator is tested after some hundred kilobytes. It is ten times as fast: the counters show it."""
        slow = min(self._tokenize_seconds("tiktoken", warm) for _ in range(3))
        deadline = time.monotonic() + ACCELERATED_WITHIN
        while self._tokenize_seconds("accelerated", warm) > slow / 3:
            if time.monotonic() > deadline:
                raise LeafgateError("the accelerated tokenizer did not come into use; see `leafgate doctor`")

    def _tokenize_seconds(self, gateway: Tokenizer, warm: str) -> float:
        with Connection(self._gateways[gateway].url) as connection:
            before = _codec_seconds(connection.status())
            connection.call("plain", warm, ask_for_ids(self._map, "both"))
            return _codec_seconds(connection.status()) - before


def calls_of(size: int) -> int:
    """Return how many calls a round makes for texts of this size."""
    return next((calls for most, calls in CALLS if size <= most), 1)


def problem_of(answer: Mapping[str, Any], way: Way, text: str, right: Mapping[str, Any]) -> str | None:
    """Return why this is not the way's right answer, with the `right` payload; None if it is."""
    result = answer.get("result")
    if result is None or result.get("isError") or not result["content"]:
        return f"it is not a result: {str(answer)[:300]}"
    block, *notices = result["content"]
    if not all(notice["text"].startswith("[leafgate]") for notice in notices):
        return f"it has more than the text: {str(notices)[:300]}"
    if block["text"] != text:
        return "the firewall changed or shortened the text"
    payload = block.get("_meta", {}).get(CODEC_META_KEY)
    if not way.wants_ids:
        return None if payload is None else "there are ids that the client did not ask for"
    if payload != right:
        return "the ids are not those of the reference tokenizer"
    codec = result["_meta"][ENVELOPE_META_KEY]["provenance"]["codec"]
    outcome = "leaf" if codec["leafBypasses"] == 1 else "shim"
    return None if outcome == way.outcome else f"its ids came by {outcome}"


def _codec_seconds(status: Mapping[str, Any]) -> float:
    """Return the CPU time that the gateway itself counts for checking leaves and tokenizing."""
    seconds = status["codec_seconds"]
    return float(seconds["verify"] + seconds["tokenize"])


@dataclass(frozen=True)
class Weight:
    """The bytes of one answer's body."""

    size: int
    kind: str
    form: str
    format: str
    bytes: int


def weigh_answers(gateway: Gateway, texts: Texts, map_digest: str) -> list[Weight]:
    """Weigh each text in each form and format, once."""
    with Connection(gateway.url) as connection:
        return [
            Weight(size, name.partition("-")[0], form, format, weight)
            for size, by_name in texts.items()
            for name in by_name
            for form in FORMS
            for format, weight in _weights(connection, name, form, map_digest)
        ]


def _weights(connection: Connection, name: str, form: Form, map_digest: str) -> Iterator[tuple[str, int]]:
    meta = ask_for_ids(map_digest, form)
    plain = connection.call("decode", name, meta, accept=JSON_ONLY).body
    yield "json", len(plain)
    yield "json+gzip", len(compress(plain, "gzip"))
    for format, coding in _MSGPACK_CODINGS.items():
        answer = connection.call("decode", name, meta, accept=FRAMES_TYPE, encoding=coding)
        if answer.media_type != FRAMES_TYPE:
            raise LeafgateError(f"the gateway answered a client that reads frames with {answer.media_type}")
        yield format, len(answer.body)
