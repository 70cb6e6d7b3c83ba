// The requests that failed lately. In: the list, latest first. Out: rows, each with an id to look for in the log.

import { byId, element, say } from "/dashboard/element.js";
import { keptRows } from "/dashboard/rows.js";
import { exactTime, machineTime } from "/dashboard/words.js";

const FAULTS = {
  caller: "the caller's",
  refusal: "a refusal of the gateway",
  upstream: "the server's",
  tool: "the tool's own error",
};

export function errorTable() {
  const show = keptRows(byId("errors"), row);
  return ({ recent_errors: errors }) => {
    show(errors.map((error) => ({ key: `${error.t} ${error.correlation_id}`, ...error })));
    say("errors-summary", errors.length < 2 ? "" : `the last ${errors.length}, latest first`);
    byId("errors-empty").hidden = errors.length > 0;
  };
}

function row({ t, code, fault, operation, server, tool, correlation_id: id }) {
  const cell = (title, ...children) => element("td", { "data-title": title }, ...children);
  return element(
    "tr",
    {},
    cell("Time", element("time", { datetime: machineTime(t) }, exactTime(t))),
    element("th", { scope: "row" }, element("code", {}, code)),
    cell("Whose fault", FAULTS[fault] ?? fault),
    cell("Request", operation),
    cell("Server", tool === undefined ? server || "–" : `${server}: ${tool}`),
    cell("Correlation id", element("code", { class: "id" }, id)),
  );
}
