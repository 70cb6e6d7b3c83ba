// The tools whose own ids would save the gateway most time. In: the list, the most first. Out: rows of a table.

import { byId, element } from "/dashboard/element.js";
import { keptRows } from "/dashboard/rows.js";
import { brief, duration } from "/dashboard/words.js";

export function graduates() {
  const show = keptRows(byId("graduates"), row);
  return ({ graduate_next: tools }) => {
    show(tools.map((tool) => ({ key: `${tool.server}\n${tool.tool}`, ...tool })));
    byId("graduates-empty").hidden = tools.length > 0;
  };
}

function row({ server, tool, tokens, seconds, saves }) {
  const number = (text) => element("td", { class: "number" }, text);
  const named = element("th", { scope: "row" }, tool, element("span", { class: "of" }, server));
  const numbers = [brief(tokens), duration(seconds), duration(saves)].map(number);
  return element("tr", {}, named, ...numbers);
}
