// Asks the gateway. In: a path, and what to send there, if anything. Out: its JSON; or Refused (who asks?), Wrong (its
// own words), Unreachable.
// The token is kept by this tab alone, and travels in the Authorization header alone.

const KEY = "leafgate-token";
const PATIENCE_MS = 8_000;

export class Refused extends Error {}
export class Wrong extends Error {}
export class Unreachable extends Error {}

let token = withStorage((storage) => storage.getItem(KEY)) ?? null;

export const hasToken = () => token !== null;

export function keepToken(given) {
  token = given;
  withStorage((storage) => storage.setItem(KEY, given));
}

export function forgetToken() {
  token = null;
  withStorage((storage) => storage.removeItem(KEY));
}

export async function ask(path, signal, sent) {
  const shown = token;
  const response = await reached(path, signal, sent);
  if (response.status === 401 || response.status === 403) throw refusal(response.status, shown);
  if (response.status >= 500) throw new Unreachable(`it answered ${response.status}`);
  const answer = await read(response);
  if (!response.ok) throw new Wrong(String(answer.message ?? answer.error ?? response.status));
  return answer;
}

// What was refused is forgotten; unless another token was entered meanwhile, with which it is worth to ask again.
function refusal(status, shown) {
  if (shown !== token) return new Unreachable("another token was entered");
  forgetToken();
  if (status === 403) return new Refused("This token may not operate the gateway.");
  return new Refused(shown === null ? "" : "The gateway does not know this token.");
}

async function reached(path, signal, sent) {
  const patience = AbortSignal.timeout(PATIENCE_MS);
  const type = sent === undefined ? {} : { "content-type": "application/json" };
  try {
    return await fetch(path, {
      method: sent === undefined ? "GET" : "POST",
      body: sent === undefined ? undefined : JSON.stringify(sent),
      headers: token === null ? type : { ...type, authorization: `Bearer ${token}` },
      credentials: "omit", // else the browser would ask for a password in a window of its own
      cache: "no-store",
      redirect: "error",
      signal: signal ? AbortSignal.any([signal, patience]) : patience,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Unreachable("no answer");
  }
}

async function read(response) {
  try {
    return await response.json();
  } catch {
    throw new Unreachable("its answer was cut off");
  }
}

// A browser that keeps nothing for pages throws: then the token lasts until the page is left.
function withStorage(work) {
  try {
    return work(sessionStorage);
  } catch {
    return undefined;
  }
}
