"""Texts that a careless reader of results would stumble over, for the tests of the firewall's rooms."""

from __future__ import annotations

import json

from hypothesis import strategies as st

LOG = "\n".join(
    f"2024-05-01T10:{n // 60 % 60:02d}:{n % 60:02d} {'ERROR boom' if n % 400 == 7 else 'INFO fine'} request {n}"
    for n in range(2000)
)
CSV = "id,name,score\n" + "\n".join(f'{n},"Name, {n}",{n / 7:.3f}' for n in range(1, 1001))
PROSE = " ".join(f"This is sentence number {n}, and it says little. Is it {n}? It is!" for n in range(900))
RECORDS = json.dumps([{"id": n, "name": f"item {n}", "ok": n % 2 == 0} for n in range(1500)])
NESTED = json.dumps(
    {
        "count": 900,
        "items": [
            {"id": n, "owner": {"login": f"user{n}", "tags": ["a"] * (n % 4)}, "note": None if n % 3 else "x" * n}
            for n in range(900)
        ],
        "cursor": None,
    }
)
MARKDOWN = "| name | size |\n|---|---:|\n" + "\n".join(f"| file{n} | {n * 10} |" for n in range(400))
JSON_LINES = "\n".join(json.dumps({"n": n, "level": "info"}) for n in range(900))

HOSTILE = {
    "deep arrays": "[" * 100_000 + "]" * 100_000,
    "deep objects": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "unbalanced": "[" * 100_000,
    "closed too early": "[1]" * 30_000,
    "no JSON inside": "[" + "nonsense, " * 9000 + "]",
    "one line": "x" * 1_000_000,
    "one line of words": "word " * 100_000,
    "blanks": " " * 300_000,
    "line feeds": "\n" * 50_000,
    "carriage returns": "a\r\n" * 20_000,
    "quotes": '"' * 50_001,
    "open quote": 'a,b\n1,"' + "x\n" * 30_000,
    "numbers": "[" + ",".join(["NaN", "Infinity", "-Infinity", "1e400", "9" * 400] * 4000) + "]",
    "a number too long to parse": '{"a": ' + "9" * 60_000 + "}",
    "equal keys": "{" + ",".join('"k": 1' for _ in range(9000)) + "}",
    "many keys": json.dumps({f"key {n}": n for n in range(9000)}),
    "one long key": json.dumps({"k" * 50_000: {"k" * 50_000: ["v"] * 100}}),
    "one long string": json.dumps({"text": "word " * 30_000, "more": [1, 2]}),
    "a string of escapes": json.dumps({"a": '\\"' * 30_000}),
    "backslashes": '{"a": "' + "\\" * 60_001,
    "emoji": "👩‍👩‍👧‍👦" * 9000,
    "combining": "e\u0301" * 30_000,
    "right to left": "שלום " * 20_000,
    "null bytes": "\x00" * 50_000,
    "replacement characters": "\ufffd" * 50_000,
    "lone surrogates": "\ud800" * 30_000,
    "markdown rule": "|a|\n" + "|-" * 60_000 + "|\nx|y\n",
    "dashes": ("-" * 2000 + "|") * 100 + "\n" + "-|" * 5000,
    "wide table": ",".join(map(str, range(3000))) + "\n" + "\n".join(",".join(["1"] * 3000) for _ in range(5)),
    "ragged": "a,b,c\n1,2,3\n4,5\n" * 3000,
    "special tokens": "<|endoftext|><|im_start|>" * 5000,
    "base64": "QUJD" * 50_000,
    "empty objects": "[" + ",".join(["{}"] * 30_000) + "]",
    "mixed array": json.dumps([1, "a", None, {"b": [1]}, [2]] * 3000),
}
KINDS = {
    "log": LOG,
    "csv": CSV,
    "prose": PROSE,
    "records": RECORDS,
    "nested": NESTED,
    "markdown": MARKDOWN,
    "json lines": JSON_LINES,
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=30,
)
texts = st.one_of(
    st.text(max_size=2000),
    st.lists(st.text(max_size=200), max_size=80).map("\n".join),
    st.lists(st.lists(st.text(max_size=8), min_size=3, max_size=3).map(",".join), max_size=60).map("\n".join),
    json_values.map(json.dumps),
    st.lists(json_values, min_size=1, max_size=20).map(lambda value: json.dumps(value * 30)),
    st.tuples(st.text(min_size=1, max_size=20), st.integers(1, 2000)).map(lambda pair: pair[0] * pair[1]),
)
