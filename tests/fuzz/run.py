"""`just fuzz`: feeds every reader of foreign input, and whole gateways on both transports; ends with 1 on a find."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from random import randrange

from fuzzing import feed
from gateways import gateway_on_http
from readers import READERS
from wire import feed_http, feed_stdio, stdio_gateway

# Of all inputs; a request through a gateway takes far longer than a call of a reader.
WIRE_SHARE = 0.02


def _over_http(inputs: int, seed: int) -> int:
    with gateway_on_http() as gateway:
        return feed_http(gateway.url, inputs, seed)


def _over_stdio(inputs: int, seed: int) -> int:
    with stdio_gateway() as process:
        return feed_stdio(process, inputs, seed)


def _works(inputs: int, seed: int) -> list[tuple[str, Callable[[], int]]]:
    on_wire = int(inputs * WIRE_SHARE)
    each = -(-(inputs - 2 * on_wire) // len(READERS))
    readers = [(reader.name, partial(feed, reader, each, seed)) for reader in READERS]
    return [*readers, ("http", partial(_over_http, on_wire, seed)), ("stdio", partial(_over_stdio, on_wire, seed))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="how many in all [default: 100000]")
    parser.add_argument("--seed", type=int, help="the same inputs again [default: others every time]")
    options = parser.parse_args()
    seed = randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    total = finds = 0
    for name, work in _works(options.inputs, seed):
        started = time.monotonic()
        try:
            taken = work()
        except Exception:
            finds += 1
            print(f"{name:18} FOUND\n{traceback.format_exc()}", flush=True)
            continue
        total += taken
        print(f"{name:18} {taken:7} inputs {time.monotonic() - started:7.1f} s", flush=True)
    print(f"{total} inputs, {finds} finds")
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
