"""Loads maps with the Python library. In: {"file", "hash"?, "text"?} lines. Out: what became of each.

`file` is a path; without `hash` the file's own digest is given. For Node, `typescript/contract.mjs load` does the same.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from leafgate.maps import fetch
from leafgate.model.errors import MapDigestError, MapHashMismatchError, MapInvalidError, MapUnreachableError

KINDS = {
    MapDigestError: "bad-digest",
    MapHashMismatchError: "hash-mismatch",
    MapInvalidError: "invalid-map",
    MapUnreachableError: "unreachable",
}


def answer(line: dict[str, Any]) -> dict[str, Any]:
    digest = line["hash"] if "hash" in line else hashlib.sha256(Path(line["file"]).read_bytes()).hexdigest()
    fetch._LOADED = fetch.MapLoads()  # a digest that is in memory is not read again, and here it is to be read
    try:
        encoder = fetch.load_encoder(line["file"], digest)
    except tuple(KINDS) as error:
        found = {"error": KINDS[type(error)], "message": str(error)}
        if isinstance(error, MapHashMismatchError):
            found |= {"expected": error.expected, "found": error.found}
        return found
    ids = {"ids": encoder.encode(line["text"])} if "text" in line else {}
    return {"loaded": encoder.map.id, **ids}


for raw_line in sys.stdin.buffer:
    print(json.dumps(answer(json.loads(raw_line))), flush=True)
