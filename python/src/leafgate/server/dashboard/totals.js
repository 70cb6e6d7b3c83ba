// The numbers at the top. In: an answer of /api/metrics, and what happened in the last minute. Out: texts.

import { byId, say } from "/dashboard/element.js";
import { brief, count, percent } from "/dashboard/words.js";

const NONE = "none yet";

export function showTotals(answer, minute) {
  const { leafBypasses: leaf, tokenizeCalls: shim, rejectedLeaves } = answer.codec;
  say("total-leaf", count(leaf));
  say("total-shim", count(shim));
  say("total-rejected", count(sum(rejectedLeaves)));
  say("recent-leaf", lately(minute.leaf, leaf, leaf + shim));
  say("recent-shim", lately(minute.shim, shim, leaf + shim));
  say("recent-rejected", reasons(rejectedLeaves) ?? (leaf > 0 ? "every leaf was believed" : NONE));
  const isAnswered = Object.values(answer.upstream_calls).some(({ calls }) => calls > 0);
  byId("no-ids").hidden = !isAnswered || leaf + shim + sum(rejectedLeaves) > 0;
  showSaved(answer);
  const errors = sum(answer.errors);
  say("total-calls", count(sum(answer.calls)));
  say("total-errors", errors > 0 ? `${count(errors)} failed` : "none failed");
}

const sum = (numbers) => Object.values(numbers).reduce((total, value) => total + value, 0);

function lately(now, ever, all) {
  if (now > 0) return `${count(now)} in the last minute`;
  return all > 0 ? `${percent(ever, all)} of all blocks` : NONE;
}

function reasons(rejected) {
  const [most] = Object.entries(rejected).sort((a, b) => b[1] - a[1]);
  return most === undefined ? null : `mostly: ${most[0]}`;
}

function showSaved({ tokens_saved: saved, cards, shortened }) {
  const all = (cards.tokens_whole ?? 0) + (shortened.tokens_withheld ?? 0);
  const spared = saved.cards + saved.digests;
  say("total-saved", brief(spared));
  say("saved-share", all > 0 ? `${percent(spared, all)} of ${brief(all)}` : NONE);
}
