"""The goals of the race, judged. In: results. Out: one Goal for each, met or not, with the figure. Touches nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from results import Results

LARGE: Final = "10000"
WAYS: Final = {"stdio": "HTTP to stdio", "http": "HTTP to HTTP"}
MODES: Final = ("leafgate passthrough", "leafgate gateway")
PROXIES: Final = ("fastmcp run", "fastmcp, session kept", "mcp-proxy", "mcp-proxy, twice")
DIRECT_LIMIT: Final = 2.0
SMALLER_IS_BETTER: Final = {
    "p50_ms": "p50",
    "p50_ratio": "p50 to direct",
    "per_second_16_ratio": "16 at once",
    "per_second_64_ratio": "64 at once",
}


@dataclass(frozen=True)
class Goal:
    """`met` is None where the run did not measure it. `reason` keys the explanation of a miss."""

    words: str
    limit: str
    figure: str
    met: bool | None
    reason: str

    @property
    def verdict(self) -> str:
        return {True: "met", False: "MISSED", None: "not measured"}[self.met]


def judge(results: Results) -> list[Goal]:
    return [*_catalog(results), *_starts(results), *_calls(results), *_cards(results)]


def _catalog(results: Results) -> Iterator[Goal]:
    sizes = results["library"]["sizes"]
    own = sizes.get(LARGE, {}).get("leafgate")
    ratio = sizes.get(LARGE, {}).get("ratio", {}).get("browse")
    browse = own and own["browse"]["clock"] * 1e3
    yield _at_most("browse at 10,000 tools, p50, in process", 1.0, browse, "ms", "browse")
    figure = "" if ratio is None else f"{ratio:,.0f} times"
    yield Goal(
        "browse at 10,000 tools, against contextweaver",
        "at least 1,000 times as fast",
        figure,
        None if ratio is None else ratio >= 1000,
        "browse",
    )
    cold, same = own and own["refresh"]["clock"], own and own["unchanged"]["clock"]
    yield _at_most("refresh of 10,000 tools, cold", 3.0, cold, "s", "refresh")
    yield _at_most("refresh of 10,000 tools, nothing changed", 0.3, same, "s", "unchanged")


def _starts(results: Results) -> Iterator[Goal]:
    for mode in MODES:
        found = results["starts"].get(mode, {}).get("list_s")
        yield _at_most(f"start to the first tools/list, 1,000 tools, {mode}", 1.2, found, "s", "start")


def _calls(results: Results) -> Iterator[Goal]:
    for mode in MODES:
        for told, targets in _eras(results):
            ratio = targets[mode]["p50_ratio"] if mode in targets else None
            words = f"a call, {told}, {mode}"
            figure = "" if ratio is None else f"{ratio:.2f} times"
            met = None if ratio is None else ratio <= DIRECT_LIMIT
            yield Goal(words, f"p50 at most {DIRECT_LIMIT:g} times direct", figure, met, "direct")
    for mode in MODES:
        for told, targets in _eras(results):
            peers = {name: targets[name] for name in PROXIES if name in targets and mode in targets}
            behind = [_behind(targets[mode], name, peer) for name, peer in peers.items()]
            met = not any(behind) if peers else None
            figure = "; ".join(filter(None, behind)) or ("ahead" if met else "")
            yield Goal(f"a call, {told}, {mode}, to the proxies", "ahead of all", figure, met, "ahead")


def _eras(results: Results) -> Iterator[tuple[str, dict[str, Any]]]:
    for way, found in results["calls"].items():
        for era, targets in found["eras"].items():
            yield f"{WAYS[way]}, {era}", targets


def _behind(own: dict[str, Any], name: str, peer: dict[str, Any]) -> str:
    """In which figures a peer is better. To be ahead is to be ahead in all of them: single ones are noisy."""
    lost = [words for key, words in SMALLER_IS_BETTER.items() if peer[key] < own[key]]
    return f"behind {name} in {', '.join(lost)}" if lost else ""


def _cards(results: Results) -> Iterator[Goal]:
    found = results["library"]["tokens"].get("leafgate", {}).get("ten cards, most")
    yield _at_most("ten cards as the client receives them, the longest page", 600, found, "tokens", "cards")


def _at_most(words: str, limit: float, found: float | None, unit: str, reason: str) -> Goal:
    figure = "" if found is None else f"{found:,.0f} {unit}" if unit == "tokens" else f"{found:.2f} {unit}"
    return Goal(words, f"at most {limit:g} {unit}", figure, None if found is None else found <= limit, reason)
