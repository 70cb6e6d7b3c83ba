// Loads npm `tokenizers` with the vocabulary of a byte_level map without merges, or says why it cannot. The library needs
// merges, so they are derived: the last merge that makes each token.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export async function loadHuggingFace(map) {
  let Tokenizer;
  try {
    ({ Tokenizer } = await import("tokenizers"));
  } catch (error) {
    return { reason: `npm tokenizers cannot be loaded: ${error.message}` };
  }
  const folder = mkdtempSync(join(tmpdir(), "leaf-bench-"));
  try {
    const file = join(folder, "tokenizer.json");
    writeFileSync(file, JSON.stringify(asTokenizerJson(map)));
    return { tokenizer: Tokenizer.fromFile(file) };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function asTokenizerJson(map) {
  const split = { type: "Split", pattern: { Regex: map.pre_tokenizer_pattern }, behavior: "Isolated", invert: false };
  const bytes = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false };
  return {
    version: "1.0",
    added_tokens: [],
    pre_tokenizer: { type: "Sequence", pretokenizers: [split, bytes] },
    decoder: bytes,
    model: { type: "BPE", vocab: map.vocab, merges: deriveMerges(map.vocab), ignore_merges: true },
  };
}

function deriveMerges(vocab) {
  const ranks = new Map(Object.entries(vocab));
  const merges = [];
  for (const [token, rank] of [...ranks].sort((a, b) => a[1] - b[1])) {
    const parts = [...token];
    while (parts.length > 2) {
      const at = bestPair(parts, ranks, rank);
      if (at < 0) break;
      parts.splice(at, 2, parts[at] + parts[at + 1]);
    }
    if (parts.length === 2) merges.push(parts);
  }
  return merges;
}

function bestPair(parts, ranks, limit) {
  let best = limit;
  let at = -1;
  for (let i = 0; i + 1 < parts.length; i++) {
    const rank = ranks.get(parts[i] + parts[i + 1]);
    if (rank !== undefined && rank < best) {
      best = rank;
      at = i;
    }
  }
  return at;
}
