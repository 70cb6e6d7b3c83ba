// Searches the catalog as a model would. In: what a person types. Out: cards in tool_browse's order, one of them whole.
// A combobox: focus stays in the field, the arrows move through the list, Enter goes into a path, Escape clears.

import { byId, element, say } from "/dashboard/element.js";
import { ask, Refused, Wrong } from "/dashboard/gateway-api.js";
import { plural } from "/dashboard/words.js";

const PAUSE_MS = 150;
const TOP_K = 20;
const ROOT = "/";
const SIGNALS = { ok: "", ambiguous: "several fit about equally well", no_match: "none fits; these are the nearest" };

export function catalogSearch(refused) {
  const field = byId("query");
  const list = byId("cards");
  let cards = [];
  let active = -1;
  let asking = null;
  let timer;

  async function search() {
    asking?.abort();
    asking = new AbortController();
    const { signal } = asking;
    try {
      const page = await ask(`/api/catalog?${question(field.value)}`, signal);
      if (!signal.aborted) show(page);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused) refused(error);
      show({ cards: [], signal: "ok" });
      say("catalog-words", error instanceof Wrong ? `${error.message}.` : "The catalog cannot be asked at the moment.");
    }
  }

  function show(page) {
    cards = page.cards;
    list.replaceChildren(...cards.map(option));
    field.setAttribute("aria-expanded", String(cards.length > 0));
    say("catalog-words", found(page));
    choose(cards.length > 0 ? 0 : -1);
  }

  function choose(index) {
    active = index;
    for (const node of list.children) node.setAttribute("aria-selected", "false");
    const chosen = list.children[index];
    chosen?.setAttribute("aria-selected", "true");
    if (chosen === undefined) field.removeAttribute("aria-activedescendant");
    else field.setAttribute("aria-activedescendant", chosen.id);
    showCard(cards[index]);
  }

  function enter(card) {
    if (card?.kind !== "internal") return;
    field.value = card.id;
    search();
  }

  const keys = {
    ArrowDown: () => choose(Math.min(active + 1, cards.length - 1)),
    ArrowUp: () => choose(Math.max(active - 1, 0)),
    Enter: () => enter(cards[active]),
    Escape: () => {
      field.value = "";
      search();
    },
  };

  field.addEventListener("keydown", (event) => {
    if (!Object.hasOwn(keys, event.key) || event.isComposing) return;
    if (cards.length === 0 && event.key.startsWith("Arrow")) return;
    event.preventDefault();
    keys[event.key]();
    list.children[active]?.scrollIntoView({ block: "nearest" });
  });
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, PAUSE_MS);
  });
  list.addEventListener("click", (event) => {
    const index = [...list.children].indexOf(event.target.closest("[role=option]"));
    if (index < 0) return;
    const again = index === active;
    choose(index);
    if (again) enter(cards[index]);
    field.focus();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    event.preventDefault();
    field.focus();
    field.select();
  });
  return search;
}

const isTyping = (target) => target.matches("input:not([type=radio]), dialog *");

function question(typed) {
  const text = typed.trim();
  const asked = text === "" || text.startsWith(ROOT) ? { path: text || ROOT } : { query: text, top_k: TOP_K };
  return new URLSearchParams(asked);
}

function found({ cards, signal }) {
  const signalText = SIGNALS[signal] ?? "";
  const number = cards.length === 0 ? "Nothing is there" : plural(cards.length, "card");
  return signalText === "" ? `${number}.` : `${number}: ${signalText}.`;
}

function option(card, index) {
  const title = card.kind === "internal" ? card.id : card.name;
  const place = card.kind === "internal" ? "path" : card.namespace;
  return element(
    "li",
    { role: "option", id: `card-${index}`, "aria-selected": "false" },
    element("span", { class: "card-name" }, title),
    element("span", { class: "of" }, place),
    element("span", { class: "card-words" }, card.description),
  );
}

function showCard(card) {
  byId("card").hidden = card === undefined;
  if (card === undefined) return;
  say("card-line", card.line);
  byId("card-facts").replaceChildren(
    ...facts(card).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
  );
}

function facts(card) {
  const known = [
    ["Tokens", String(card.tokens)],
    ["Score", card.score === null ? "" : card.score.toFixed(4)],
    ["Kind", card.kind === "internal" ? "a path: Enter goes there" : card.kind],
    ["Server", card.namespace],
    ["Safety", card.safety.replace("_", "-")],
    ["Arguments", card.kind === "internal" ? "" : card.has_schema ? "a schema, by tool_hydrate" : "none"],
  ];
  return known.filter(([, value]) => value !== "");
}
