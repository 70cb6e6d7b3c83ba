// A server that will not end: it overhears SIGTERM and the end of its input. In: nothing. Out: its process id.
process.on("SIGTERM", () => {});
process.stdin.resume();
process.stdout.write(`${process.pid}\n`);
setInterval(() => {}, 1000);
