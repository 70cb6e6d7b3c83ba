// How each server does. In: the servers, the counts of calls, the breakers, the history. Out: rows of a table.

import { byId, element, say } from "/dashboard/element.js";
import { latencyLine } from "/dashboard/latency-line.js";
import { keptRows } from "/dashboard/rows.js";
import { count, duration, percent, plural } from "/dashboard/words.js";

// What a state or a phase means to a person, and how much it should worry them.
const STATES = { up: ["up", "good"], starting: ["starting", "wait"], down: ["down", "bad"] };
const PHASES = { open: ["resting after failures", "bad"], "half-open": ["on trial after failures", "wait"] };

export function serverTable() {
  const show = keptRows(byId("servers"), row);
  return ({ upstreams, upstream_calls: calls, breakers, tools }, history) => {
    show(
      upstreams.map((server) => ({
        key: server.name,
        ...server,
        calls: own(calls, server.label),
        phase: own(breakers, server.label),
        latencies: history.latencies(server.label),
      })),
    );
    const up = upstreams.filter((server) => server.state === "up").length;
    const summary = `${up} of ${upstreams.length} up, ${plural(tools, "tool")} in the catalog`;
    say("servers-summary", upstreams.length === 0 ? "" : summary);
    byId("servers-empty").hidden = upstreams.length > 0;
  };
}

function row({ name, state, tools, last_failure: failure, calls, phase, latencies }) {
  const number = (title, text) => element("td", { class: "number", "data-title": title }, text);
  return element(
    "tr",
    {},
    element("th", { scope: "row" }, name),
    element("td", { "data-title": "State" }, ...health(state, phase, failure)),
    number("Tools", count(tools)),
    number("Calls", count(calls?.calls ?? 0)),
    number("Failed", failed(calls)),
    number("p50", duration(calls?.seconds.p50)),
    number("p95", duration(calls?.seconds.p95)),
    element("td", { class: "number", "data-title": "p95, last hour" }, latencyLine(latencies)),
  );
}

// A server may be called `constructor`.
const own = (table, name) => (Object.hasOwn(table, name) ? table[name] : null);

function failed(calls) {
  if (calls === null || calls.errors === 0) return count(calls?.errors);
  return `${count(calls.errors)} (${percent(calls.errors, calls.calls)})`;
}

function health(state, phase, failure) {
  const [said, mood] = STATES[state] ?? [state, "wait"];
  const pill = (text, worry) => element("span", { class: "pill", "data-state": worry }, text);
  const parts = [pill(said, mood)];
  if (Object.hasOwn(PHASES, phase)) parts.push(" ", pill(...PHASES[phase]));
  if (failure !== null && state !== "up") parts.push(element("span", { class: "why" }, failure));
  return parts;
}
