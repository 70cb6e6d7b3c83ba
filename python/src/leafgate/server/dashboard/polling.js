// Asks again and again. In: what to ask. Out: calls of `onAnswer`, `failed` and `paused`, and a function to go on.
// Once a second while all is well, ever more rarely while it is not, never while the page is hidden. Where `failed` answers
// "hold", it waits for a call of that function.

const EVERY_MS = 1_000;
const RAREST_MS = 15_000;

export function startPolling({ poll, onAnswer, failed, paused }) {
  let failures = 0;
  let timer;
  let running = false;
  let held = false;

  async function turn() {
    clearTimeout(timer);
    if (running || held) return;
    if (document.hidden) return paused();
    running = true;
    let wait = EVERY_MS;
    try {
      wait = await asked();
    } finally {
      running = false;
      if (!held) timer = setTimeout(turn, wait);
    }
  }

  // How long to wait after it.
  async function asked() {
    let answer;
    try {
      answer = await poll();
    } catch (error) {
      const wait = Math.min(RAREST_MS, EVERY_MS * 2 ** failures);
      failures += 1;
      held = failed(error, wait) === "hold";
      return wait;
    }
    failures = 0;
    onAnswer(answer);
    return EVERY_MS;
  }

  document.addEventListener("visibilitychange", turn);
  window.addEventListener("online", turn);
  turn();
  return () => {
    held = false;
    turn();
  };
}
