import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { findBundledMap } from "../src/map.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const toy = findBundledMap("toy")!;

function answers(args: string[], lines: Array<string | object>): unknown[] {
  const input = lines.map((line) => `${typeof line === "string" ? line : JSON.stringify(line)}\n`).join("");
  const { stdout, status } = spawnSync(process.execPath, [`${root}contract.mjs`, ...args], {
    input,
    encoding: "utf8",
    maxBuffer: 1 << 28,
  });
  expect(status).toBe(0);
  return stdout
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}

const reason = (answer: unknown) => (answer as { reason: string | null }).reason;
const error = (answer: unknown) => (answer as { error?: string }).error;

describe("contract.mjs", () => {
  it("answers every line, in order", () => {
    const lines = Array.from({ length: 5000 }, (_, i) => ({ text: `the cat ${i}` }));
    const found = answers(["encode", "--map", "toy"], lines) as Array<{ ids: number[] }>;
    expect(found).toHaveLength(5000);
    const texts = answers(["decode", "--map", toy.path], found) as Array<{ text: string }>;
    expect(texts).toEqual(lines);
  });

  it("answers bad lines too", () => {
    const lines = [
      "",
      "{",
      "[]",
      "5",
      "null",
      "{}",
      '{"text":1}',
      '{"text":"\\ud800"}',
      '\ufeff{"text":""}',
      '{"text":""}\r',
    ];
    expect(answers(["encode", "--map", "toy"], lines).map((answer) => error(answer) ?? answer)).toEqual([
      ...new Array(7).fill("bad-line"),
      "bad-text",
      "bad-line",
      { ids: [] },
    ]);
  });

  it("reads ids as they are written", () => {
    const lines = [
      '{"text":"the cat","ids":[261,264]}',
      '{"text":"the cat","ids":[261,264.0]}',
      '{"text":"the cat","ids":[261,2640e-1]}',
      '{"text":"the cat","ids":[261,264E0]}',
      '{"ids":[261.0,264],"text":"the cat","ids":[261,264]}',
      '{"text":"1.5","ids":[49,46,53],"x":{"ids":[1.0]}}',
      '{"text":"\\"ids\\":[1.0]","ids":[1]}',
      '{"text":"the cat","ids":[261,"1.0"]}',
      '{"text":"a","ids":[-0]}',
      `{"text":"a","ids":[${"9".repeat(400)}]}`,
      '{"text":"a","ids":[-9e999]}',
      `{"text":"a","ids":[97],"map_id":"${toy.sha256}"}`,
      '{"text":"a","ids":[97],"map_id":7}',
      '{"text":"a","ids":[97],"map_id":null}',
    ];
    expect(answers(["check", "--map", "toy"], lines).map(reason)).toEqual([
      null,
      "not-integer",
      "not-integer",
      "not-integer",
      null,
      null,
      "text-mismatch",
      "not-integer",
      "text-mismatch",
      "too-large",
      "not-integer",
      null,
      "foreign-map",
      null,
    ]);
    expect(
      answers(["check", "--map", "toy", "--level", "decode"], ['{"text":"the","ids":[116,257]}']).map(reason),
    ).toEqual([null]);
  });

  it("wraps, reads, verifies and strips", () => {
    const plain = { result: { content: [{ type: "text", text: "the cat" }] } };
    const wrapped = answers(["wrap", "--map", "toy"], [plain]) as object[];
    expect(answers(["verify", "--map", "toy"], wrapped)).toEqual([
      { entries: [{ textIndex: 0, verdict: "accept", reason: null }] },
    ]);
    expect(answers(["strip"], wrapped)).toEqual([plain]);
    const expectedMapHash = "0".repeat(64);
    expect(
      answers(["read"], [...wrapped, { ...wrapped[0], expectedMapHash }, { ...wrapped[0], expectedMapHash: "x" }]),
    ).toEqual([
      { entries: [{ textIndex: 0, text: "the cat", ids: [261, 264], mapId: toy.sha256, source: "meta" }] },
      { error: "map-mismatch", expected: `sha256:${expectedMapHash}`, found: toy.sha256, textIndex: 0 },
      expect.objectContaining({ error: "bad-digest" }),
    ]);
  });

  it("loads maps, and says what is wrong with them", () => {
    const found = answers(
      ["load"],
      [
        { file: toy.path, hash: toy.sha256, text: "the cat" },
        { file: toy.path },
        { file: toy.path, hash: "0".repeat(64) },
        { file: toy.path, hash: "0" },
        { file: `${toy.path}.none`, hash: toy.sha256 },
        { file: fileURLToPath(import.meta.url) },
      ],
    );
    expect(found.map((answer) => error(answer) ?? answer)).toEqual([
      { loaded: "toy", ids: [261, 264] },
      { loaded: "toy" },
      "hash-mismatch",
      "bad-digest",
      "unreachable",
      "invalid-map",
    ]);
  });

  it("says how it is used", () => {
    for (const args of [
      [],
      ["nonsense"],
      ["encode"],
      ["encode", "--map", "none"],
      ["check", "--map", "toy", "--level", "x"],
    ])
      expect(spawnSync(process.execPath, [`${root}contract.mjs`, ...args], { input: "" }).status).toBe(2);
  });
});
