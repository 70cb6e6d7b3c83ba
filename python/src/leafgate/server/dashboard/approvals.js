// The calls that wait for an operator. In: the list, oldest first. Out: rows with two buttons, whose answer is sent.

import { byId, element, say } from "/dashboard/element.js";
import { ask, Refused, Wrong } from "/dashboard/gateway-api.js";
import { keptRows } from "/dashboard/rows.js";
import { exactTime, machineTime, plural } from "/dashboard/words.js";

export function approvalTable(refused) {
  const show = keptRows(byId("approvals"), row);

  async function decide(button) {
    const { id, approve } = button.dataset;
    const buttons = button.closest("tr").querySelectorAll("button");
    for (const each of buttons) each.disabled = true;
    try {
      await ask(`/api/approvals/${encodeURIComponent(id)}`, undefined, { approve: approve === "true" });
      say("approvals-words", approve === "true" ? "Approved." : "Denied.");
    } catch (error) {
      if (error instanceof Refused) refused(error);
      say("approvals-words", error instanceof Wrong ? `${error.message}.` : "The answer could not be sent.");
      for (const each of buttons) each.disabled = false;
    }
  }

  byId("approvals").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button !== null) decide(button);
  });

  return ({ approvals }) => {
    // The age changes with each answer; a row whose call is the same stays, with its focus.
    show(approvals.map(({ age_seconds: age, ...approval }) => ({ key: approval.id, ...approval })));
    approvals.forEach(({ id, age_seconds: age }) => say(`age-${id}`, `${Math.round(age)} s`));
    byId("approvals-panel").hidden = approvals.length === 0;
    say("approvals-summary", approvals.length === 0 ? "" : `${plural(approvals.length, "call")} waiting`);
  };
}

function row({ id, principal, server, tool, arguments: args, created, reason }) {
  const cell = (title, ...children) => element("td", { "data-title": title }, ...children);
  const button = (approve, text) =>
    element("button", { type: "button", "data-id": id, "data-approve": String(approve), class: approve && "primary" }, text);
  return element(
    "tr",
    {},
    element("th", { scope: "row" }, tool),
    cell("Server", server),
    cell("Principal", principal || "–"),
    cell("Arguments", element("pre", { class: "arguments", tabindex: "0", "aria-label": "The arguments" }, args), reason ? `Asked because ${reason}.` : ""),
    cell("Since", element("time", { datetime: machineTime(created) }, exactTime(created)), " (", ageOf(id), ")"),
    cell("Answer", element("div", { class: "answers" }, button(true, "Approve"), button(false, "Deny"))),
  );
}

const ageOf = (id) => element("span", { id: `age-${id}` }, "0 s");
