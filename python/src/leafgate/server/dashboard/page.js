// The dashboard. In: /api/metrics, once a second. Out: every panel up to date, and in words how the gateway is reached.

import { approvalTable } from "/dashboard/approvals.js";
import { catalogSearch } from "/dashboard/catalog-search.js";
import { byId, say } from "/dashboard/element.js";
import { errorTable } from "/dashboard/error-table.js";
import { ask, Refused } from "/dashboard/gateway-api.js";
import { graduates } from "/dashboard/graduates.js";
import { History } from "/dashboard/history.js";
import { leafChart } from "/dashboard/leaf-chart.js";
import { startPolling } from "/dashboard/polling.js";
import { savings } from "/dashboard/savings.js";
import { serverTable } from "/dashboard/server-table.js";
import { tokenGate } from "/dashboard/token-gate.js";
import { showTotals } from "/dashboard/totals.js";

const history = new History();
const chart = leafChart();
const gate = tokenGate(() => goOn());
const approvals = approvalTable((refusal) => gate.open(refusal.message));
const panels = [approvals, serverTable(), savings(), graduates(), errorTable()];
const search = catalogSearch((refusal) => gate.open(refusal.message));
let catalogSize = null; // unknown, also after the gateway was away

function chosenRange() {
  return document.querySelector("input[name=range]:checked").value;
}

function drawChart() {
  chart(history.bins(chosenRange()), chosenRange());
}

function connection(state, text) {
  byId("connection").dataset.state = state;
  say("connection", text);
}

function showAnswer(answer) {
  gate.close();
  connection("good", "Live");
  history.take(answer);
  say("version", answer.version);
  showTotals(answer, history.lastMinute());
  drawChart();
  for (const panel of panels) panel(answer, history);
  if (answer.tools !== catalogSize) {
    catalogSize = answer.tools;
    search();
  }
}

function failed(error, wait) {
  if (error instanceof Refused) {
    connection("wait", "A token is needed");
    gate.open(error.message);
    return "hold";
  }
  catalogSize = null;
  connection("bad", `Not reachable, next try in ${Math.round(wait / 1000)} s`);
  return "go on";
}

byId("range").addEventListener("change", drawChart);

const goOn = startPolling({
  poll: () => ask(`/api/metrics?since=${history.since}`),
  onAnswer: showAnswer,
  failed,
  paused: () => connection("wait", "Paused"),
});
