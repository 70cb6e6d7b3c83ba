// The tools that gain most from sending their own ids. In: the list, dearest first. Out: rows of a table.

import { byId, element } from "/dashboard/element.js";
import { keptRows } from "/dashboard/rows.js";
import { brief, count, duration } from "/dashboard/words.js";

export function graduates() {
  const show = keptRows(byId("graduates"), row);
  return ({ graduate_next: tools }) => {
    show(tools.map((tool) => ({ key: `${tool.server}\n${tool.tool}`, ...tool })));
    byId("graduates-empty").hidden = tools.length > 0;
  };
}

function row({ server, tool, blocks, tokens, seconds }) {
  const number = (text) => element("td", { class: "number" }, text);
  const named = element("th", { scope: "row" }, tool, element("span", { class: "of" }, server));
  return element("tr", {}, named, number(count(blocks)), number(brief(tokens)), number(duration(seconds)));
}
