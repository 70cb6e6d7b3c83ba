"""What goes over the wire for the same text: without ids, with them, ids alone. In: a gateway. Out: bytes of bodies.

Touches loopback. Frames and their compression are the gateway's own. It does not compress JSON: the figure for JSON
with gzip is its answer, compressed here at the same level, which is what a plain client behind any web server has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, get_args

from leafgate.cli.leaf_bench.asking import JSON_ONLY, Asking, wish_for
from leafgate.cli.leaf_bench.processes import Gateway
from leafgate.codec.compression import compress
from leafgate.codec.frames import CONTENT_TYPE
from leafgate.model.call import Form
from leafgate.model.errors import LeafgateError

FORMS: Final[tuple[Form, ...]] = ("text", "both", "ids")
FORMATS: Final = ("json", "json+gzip", "msgpack", "msgpack+gzip", "msgpack+zstd")
BASELINE: Final[tuple[Form, str]] = ("text", "json+gzip")
_MSGPACK_CODINGS: Final = {"msgpack": "identity", "msgpack+gzip": "gzip", "msgpack+zstd": "zstd"}

assert {*FORMS} == {*get_args(Form)}


@dataclass(frozen=True)
class Weight:
    """The body of one answer."""

    size: int
    kind: str
    form: str
    format: str
    bytes: int


def weigh_answers(gateway: Gateway, texts: Mapping[int, Mapping[str, str]], map_digest: str) -> list[Weight]:
    """Each text in each form and format, once."""
    with Asking(gateway.url) as asking:
        return [
            Weight(size, name.partition("-")[0], form, format, weight)
            for size, named in texts.items()
            for name in named
            for form in FORMS
            for format, weight in _weights(asking, name, form, map_digest)
        ]


def _weights(asking: Asking, name: str, form: Form, map_digest: str) -> Iterator[tuple[str, int]]:
    wish = wish_for(map_digest, form)
    plain = asking.call("decode", name, wish, accept=JSON_ONLY).body
    yield "json", len(plain)
    yield "json+gzip", len(compress(plain, "gzip"))
    for format, coding in _MSGPACK_CODINGS.items():
        answer = asking.call("decode", name, wish, accept=CONTENT_TYPE, encoding=coding)
        if answer.media_type != CONTENT_TYPE:
            raise LeafgateError(f"the gateway answered a client that reads frames with {answer.media_type}")
        yield format, len(answer.body)
