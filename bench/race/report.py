"""The report of a run, in words. In: results. Out: lines about conditions, claims and misses. Touches nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from goals import judge
from reasons import REASONS
from results import Results


def conditions(results: Results) -> str:
    machine = results["machine"]
    peers = ", ".join(f"{package} ({problem})" if problem else package for package, problem in results["peers"].items())
    quick = " A quick run: few rounds, small catalogs." if results["quick"] else ""
    return (
        f"Measured on {results['date']} on {machine['cpus']} shared processors (load {machine['load_before']:.1f} "
        f"before, {machine['load_after']:.1f} after), Python {machine['python']}, mcp {machine['mcp']}. "
        f"Peers: {peers}.{quick}"
    )


def claims(results: Results) -> list[str]:
    """Each a ratio of figures of this run."""
    return [*_library_claims(results["library"]), *_start_claims(results["starts"]), *_call_claims(results["calls"])]


def failures(results: Results) -> list[str]:
    """Whom the run could not measure, and why."""
    told = [f"{package}: {problem}" for package, problem in results["peers"].items() if problem]
    for way, found in results["calls"].items():
        told += [f"{name}, {way} behind: {why}" for name, why in found["failures"].items()]
    for name, found in results["starts"].items():
        told += [f"{name}, start: {why}" for why in found["failures"]]
    return told


def misses(results: Results) -> list[str]:
    """Why something was missed; a reason is told once."""
    return [REASONS[key] for key in dict.fromkeys(goal.reason for goal in judge(results) if goal.met is False)]


def profile_lines(results: Results) -> list[str]:
    """Where leafgate's time goes: shares of the whole, called functions included."""
    profiles = results["library"]["profiles"]
    return [
        f"{what} at {profiles['tools']:,} tools: "
        + ", ".join(f"{file}:{function} {share:.0%}" for file, function, _, share in rows)
        for what, rows in profiles.items()
        if what != "tools"
    ]


def _library_claims(library: dict[str, Any]) -> Iterator[str]:
    for tools, found in library["sizes"].items():
        if ratio := found.get("ratio"):
            yield (
                f"{int(tools):,} tools: browse takes contextweaver {_x(ratio['browse'])} as long as leafgate, a cold "
                f"refresh {_x(ratio['refresh'])}, one without change {_x(ratio['unchanged'])}, the first query "
                f"{_x(ratio['first'])}."
            )
    tokens = library["tokens"]
    if {"leafgate", "contextweaver"} <= tokens.keys():
        own, peer = tokens["leafgate"], tokens["contextweaver"]
        yield (
            f"A model reads {_x(peer['ten cards'] / own['ten cards'])} as many tokens for contextweaver's ten cards, "
            f"and {_x(peer['small result'] / own['small result'])} as many for a small result."
        )
        ratio = library["calls"]["ratio"]
        yield (
            f"A call in process takes contextweaver {_x(ratio['small'])} as long with a small result, "
            f"{_x(ratio['large'])} with 1 MB."
        )


def _start_claims(starts: dict[str, Any]) -> Iterator[str]:
    own = starts.get("leafgate gateway", {}).get("tools_s")
    told = [f"{name} {_x(each['tools_s'] / own)}" for name, each in starts.items() if own and "tools_s" in each]
    if len(told) > 1:
        yield f"From the start to an answer that knows 1,000 tools, to leafgate gateway: {', '.join(told[1:])}."


def _call_claims(calls: dict[str, Any]) -> Iterator[str]:
    for way, found in calls.items():
        for era, targets in found["eras"].items():
            told = [f"{name} {_x(row['p50_ratio'])}" for name, row in targets.items() if name != "direct"]
            yield f"A small call, {way} behind, {era}, to direct: {', '.join(told)}."
        yield (
            f"The server over stdio by itself takes {found['stdio_ms']:.2f} ms: a proxy that costs nothing adds that."
            if way == "stdio"
            else "Behind HTTP a proxy that costs nothing would take twice direct: it waits for two requests."
        )


def _x(ratio: float) -> str:
    return f"{ratio:,.2f}x" if ratio < 10 else f"{ratio:,.0f}x"
