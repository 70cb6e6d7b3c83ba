// Speaks with a gateway as the TypeScript client does. In: {"url", "map", "texts", "long", "ways": [{"era", "frames",
// "form"}]} on standard input. Out: for each way {"version", "speaksFrames", "tools", "described", "answers",
// "progress", "seen", "refused", "aborted"}.
import { readFileSync } from "node:fs";
import { connect } from "../../typescript/dist/src/client.js";
import { makeMetaTokenizer } from "../../typescript/dist/src/index.js";

const { url, map, texts, long, ways } = JSON.parse(readFileSync(0, "utf8"));
const tokenizer = await makeMetaTokenizer({ mapUrl: map });

async function go(way) {
  const client = await connect({ url, tokenizer, ...way });
  const tools = (await client.listTools()).map((tool) => tool.name);
  const speaksFrames = client.speaksFrames;
  const { page } = await client.browse({ path: "/faulty" });
  const idOf = (name) => page.cards.find((card) => card.name === name).id;
  const { tool: hydrated } = await client.hydrate(idOf("echo"));
  const unknown = await client.hydrate("faulty:nothing#00000000");
  const answers = await Promise.all(texts.map((text) => client.execute(idOf("echo"), { text })));
  const progress = [];
  const steps = { onProgress: (step) => progress.push(step) };
  answers.push(await client.execute(idOf("progress"), { steps: 3 }, steps));
  answers.push(await client.execute(idOf("echo"), {}, { dryRun: true }));
  answers.push(await client.execute("faulty:nothing#00000000"));
  answers.push(await client.view("no-such-handle", { type: "head", lines: 5 }));
  const shortened = await client.execute(idOf("echo"), { text: long });
  const { handle } = JSON.parse(shortened.texts[0].match(/tool_view (\{.*\})\]/)[1]);
  const seen = (await client.view(handle, { type: "lines", start: 2, end: 3 })).texts;
  const refused = await failure(client.request("no/such/method"));
  const aborted = await failure(client.execute(idOf("hang"), {}, { signal: AbortSignal.timeout(300) }));
  await client.close();
  const described = { hydrated, unknown: [unknown.tool, unknown.isError] };
  return { version: client.protocolVersion, speaksFrames, tools, described, answers, progress, seen, refused, aborted };
}

async function failure(promise) {
  try {
    await promise;
    return null;
  } catch (error) {
    return { name: error.name, code: error.code, fault: error.fault };
  }
}

const found = [];
for (const way of ways) found.push(await go(way));
console.log(JSON.stringify(found));
