// What the drivers in JavaScript share; driver.py says what is read and written.
import readline from "node:readline";

/**
 * Run until the input ends. `connect(target)` resolves to { names, call, close }; `call(name, args)` to the text that
 * the model would get. A target has `url`, or `command`, `args` and `env`.
 */
export async function serve(connect) {
  const write = process.stdout.write.bind(process.stdout);
  process.stdout.write = process.stderr.write.bind(process.stderr);
  let session;
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    let answer;
    try {
      if (request.open) {
        session = await connect(request.open);
        answer = { tools: session.names };
      } else if (request.close) {
        await session.close();
        answer = { closed: true };
      } else {
        const value = await session.call(request.call, request.args);
        answer = { text: typeof value === "string" ? value : JSON.stringify(value) };
      }
    } catch (error) {
      console.error(error);
      answer = { error: String(error).slice(0, 2000) };
    }
    write(`${JSON.stringify(answer)}\n`);
  }
  process.exit(0);
}
