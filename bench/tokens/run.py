"""The speed table of leaf tokens, both languages, same texts. In: nothing. Out: a table, and bench/results/tokens.json.

    .venv/bin/python bench/tokens/run.py

Touches: the clock, processes. Ratios compare figures of one process only, taken in turns: on a shared machine the
absolute figures move, the ratios much less. Python's figures are medians; Node's are the best rounds of
typescript/bench/bench.mjs, which answers {"op", "map", "size", "us"} lines.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leafgate.maps.files import MapFiles
from leafgate.tokens.encoder import Encoder
from leafgate.tokens.verify import check

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results" / "tokens.json"
NODE_BENCH = ROOT / "typescript" / "bench"
MAPS = ("openai/cl100k_base", "qwen/qwen2")
SIZES = {"1KB": 1 << 10, "32KB": 1 << 15, "1MB": 1 << 20}
OPS = ("encode", "verify-decode", "verify-canonical")
ROUNDS = 9
ROUND_SECONDS = 0.03
NODE_LIMIT = 120
GOALS = {"python": 0.2, "node": 5.0}

Figures = dict[tuple[str, str, str], float]


def shared_texts() -> dict[str, list[str]]:
    """The texts that the Node benchmark uses: prose and JSON records, as tools return them."""
    script = f"""
        import {{ makeText }} from {json.dumps((NODE_BENCH / "corpus.mjs").as_uri())};
        const sizes = {json.dumps(SIZES)};
        const texts = (bytes) => Array.from({{ length: bytes > 1e5 ? 2 : 16 }}, (_, seed) => makeText(bytes, seed));
        console.log(JSON.stringify(Object.fromEntries(Object.entries(sizes).map(([name, n]) => [name, texts(n)]))));
    """
    ran = subprocess.run(
        ["node", "--input-type=module"], input=script, capture_output=True, text=True, timeout=NODE_LIMIT, check=False
    )
    if ran.returncode:
        raise SystemExit(f"no texts from typescript/bench; run `just setup` first\n{ran.stderr}")
    found: dict[str, list[str]] = json.loads(ran.stdout)
    return found


def operations(encoder: Encoder, texts: list[str]) -> dict[str, Callable[[int], Any]]:
    ids = [encoder.encode(text) for text in texts]
    digest = encoder.map.digest

    def judge(level: Any) -> Callable[[int], Any]:
        def run(turn: int) -> None:
            at = turn % len(texts)
            assert check(encoder, texts[at], ids[at], level=level, map_id=digest).accepted

        return run

    return {
        "encode": lambda turn: encoder.encode(texts[turn % len(texts)]),
        "verify-decode": judge("decode"),
        "verify-canonical": judge("canonical"),
    }


def one_round(run: Callable[[int], Any]) -> float:
    """Microseconds per call."""
    turns = 0
    start = time.perf_counter()
    while True:
        run(turns)
        turns += 1
        spent = time.perf_counter() - start
        if spent >= ROUND_SECONDS:
            return spent / turns * 1e6


def measure_python(texts: dict[str, list[str]]) -> Figures:
    files = MapFiles()
    figures: Figures = {}
    for map_id in MAPS:
        for size in SIZES:
            todo = operations(files.load(map_id), texts[size])
            rounds: dict[str, list[float]] = {op: [] for op in todo}
            for _ in range(ROUNDS):
                for op, run in todo.items():
                    rounds[op].append(one_round(run))
            figures |= {(map_id, size, op): statistics.median(taken) for op, taken in rounds.items()}
    return figures


def measure_node() -> Figures:
    ran = subprocess.run(
        ["node", str(NODE_BENCH / "bench.mjs"), *MAPS], capture_output=True, text=True, timeout=NODE_LIMIT, check=False
    )
    if ran.returncode:
        raise SystemExit(f"typescript/bench failed; run `just setup` first\n{ran.stderr}")
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    for line in lines:
        if "skipped" in line or "differs" in line:
            print(f"node: {line}", file=sys.stderr)
    return {(line["map"], line["size"], line["op"]): line["us"] for line in lines if "us" in line and "size" in line}


def shown(us: float | None, size: str) -> str:
    return "-" if us is None else f"{us:,.0f} us {SIZES[size] / us:5.1f} MB/s"


def table(python: Figures, node: Figures) -> None:
    print(f"{'map':20} {'size':5} {'':6} {'encode':>23} {'decode-verify':>23} {'canonical verify':>23}  ratio")
    for map_id in MAPS:
        for size in SIZES:
            for name, figures in (("python", python), ("node", node)):
                cells = [f"{shown(figures.get((map_id, size, op)), size):>23}" for op in OPS]
                print(f"{map_id:20} {size:5} {name:6} {' '.join(cells)}  {ratio_shown(name, figures, map_id, size)}")


def ratio(name: str, figures: Figures, map_id: str, size: str) -> float | None:
    """Python: decode-verify to encode. Node: npm tokenizers' encode to ours."""
    encode = figures.get((map_id, size, "encode"))
    other = figures.get((map_id, size, "verify-decode" if name == "python" else "encode-npm-tokenizers"))
    return None if encode is None or other is None else other / encode


def ratio_shown(name: str, figures: Figures, map_id: str, size: str) -> str:
    found = ratio(name, figures, map_id, size)
    if found is None:
        return "npm tokenizers did not answer"
    if name == "python":
        return f"decode-verify is {found:.2f} of encode (goal: at most {GOALS['python']})"
    goal = f" (goal: at least {GOALS['node']:g})" if size != "1MB" else ""
    return f"{found:.1f} times npm tokenizers{goal}"


def as_json(python: Figures, node: Figures) -> dict[str, Any]:
    rows = [
        {"language": name, "map": map_id, "size": size, "op": op, "us": round(us, 2)}
        for name, figures in (("python", python), ("node", node))
        for (map_id, size, op), us in figures.items()
    ]
    ratios = [
        {"language": name, "map": map_id, "size": size, "ratio": ratio(name, figures, map_id, size)}
        for name, figures in (("python", python), ("node", node))
        for map_id in MAPS
        for size in SIZES
    ]
    return {"figures": rows, "ratios": ratios, "goals": GOALS}


def main() -> None:
    python = measure_python(shared_texts())
    node = measure_node()
    table(python, node)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(as_json(python, node), indent=1) + "\n")


if __name__ == "__main__":
    main()
