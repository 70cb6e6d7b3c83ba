// A stdio server without an SDK. It answers tools/call with lines that no SDK would write, and says other things too.
// Answers newline-delimited JSON with the lines that the test expects, byte for byte.
import { createInterface } from "node:readline";

process.stderr.write("noisy: up\n");
process.stdout.write("banner, no JSON\r\n\n{broken\n");

const answers = {
  spaced: (id) =>
    `{ "jsonrpc" : "2.0", "id":${id} ,"result" : {"content" : [ {"type":"text", "priority": 1.0, "text":"the cat"} , {"type":"image","data":"AA==","n":12345678901234567890}], "structuredContent":{"big":12345678901234567890,"f":1.0}, "isError":false } }\r\n`,
  withdrawn: (id) =>
    `{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"the cat"},{"type":"_codec_meta","map_id":"x","ids":[]} , {"type":"audio"}]}}\n`,
  error: (id) => `{"jsonrpc":"2.0","id":${id},"error":{"code":-1,"message":"the cat", "data":1.0}}\n`,
  batch: (id) =>
    `[{"jsonrpc":"2.0","method":"x","params":{"n":1.0}}, {"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"the cat","_meta":{"a":1.0}}]}}]\n`,
  // The server's own request comes first, under the same id as the client's call.
  clash: (id) =>
    `{"jsonrpc":"2.0","id":${id},"method":"roots/list","params":{"content":[]}}\n{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"the cat"}]}}\n`,
  nothing: (id) => `{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text" , "text":""}], "x": 1.0}}\n`,
  large: (id) =>
    `{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"${"the cat ".repeat(2_500_000)}"}]}}\n`,
  multibyte: (id) =>
    `{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"日本 \\ud83d\\ude00 ${"é".repeat(70_000)}"}]}}\n`,
};

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if (message.method === "tools/call") process.stdout.write(answers[message.params.name](JSON.stringify(message.id)));
  else if (message.method === "exit") process.exit(message.params.code);
  else if (message.method === "crash") process.kill(process.pid, "SIGKILL");
  else if (message.method === "plain")
    process.stdout.write(
      `{"jsonrpc":"2.0","id":${message.id},"result":{"content":[{"type":"text", "text":"the cat"}]}}\n`,
    );
  else process.stdout.write(`echo ${line}\n`);
}
process.stdout.write("no line end");
