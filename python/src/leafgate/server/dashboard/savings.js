// What cards and digests spared the models. In: what would have been sent, and what was. Out: two bars with words.

import { byId, element } from "/dashboard/element.js";
import { keptRows } from "/dashboard/rows.js";
import { count, percent, plural } from "/dashboard/words.js";

export function savings() {
  const show = keptRows(byId("saved"), block);
  return ({ tokens_saved: saved, cards, shortened }) =>
    show([
      {
        key: "cards",
        title: "Cards instead of definitions",
        saved: saved.cards,
        whole: cards.tokens_whole ?? 0,
        shown: cards.tokens_shown ?? 0,
        meaning: `${plural(cards.browses ?? 0, "page")} of cards, each in the place of all definitions of the catalog.`,
      },
      {
        key: "digests",
        title: "Digests instead of long results",
        saved: saved.digests,
        whole: shortened.tokens_withheld ?? 0,
        shown: shortened.tokens_shown ?? 0,
        meaning: `${plural(shortened.texts ?? 0, "long result")} kept here; a digest was sent, the rest can be viewed.`,
      },
    ]);
}

function block({ title, saved, whole, shown, meaning }) {
  const share = whole === 0 ? 0 : Math.max(0, 1 - shown / whole);
  const amount = whole === 0 ? " tokens" : ` of ${count(whole)} tokens, ${percent(saved, whole)}`;
  const meter = element("meter", { min: 0, max: 1, value: share, "aria-label": `${title}: share that was saved` });
  return element(
    "div",
    { class: "saving" },
    element("h3", {}, title),
    element("p", { class: "amount" }, element("strong", {}, count(saved)), amount),
    meter,
    element("p", { class: "hint" }, whole === 0 ? "Nothing yet." : meaning),
  );
}
