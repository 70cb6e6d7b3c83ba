// Draws leaf, shim and rejected over time. In: bins. Out: columns in an SVG, a sentence, and rows of a table.
// Leaf and shim stand on each other above the line; rejected leaves hang below it: what was re-made stands above too.

import { byId, element, say, shape } from "/dashboard/element.js";
import { RANGES } from "/dashboard/history.js";
import { keptRows } from "/dashboard/rows.js";
import { brief, count, exactTime, machineTime, plural, timeOfDay } from "/dashboard/words.js";

const HEIGHT = 220;
const MARGIN = { top: 12, right: 4, bottom: 26, left: 44 };
const LEAST_SCALE = 4;
const NARROW = 420;

export function leafChart() {
  const target = byId("chart");
  const showRows = keptRows(byId("chart-rows"), tableRow);
  let latest = null;
  let drawn = "";

  // Only what differs is drawn, so that a tooltip stays while nothing happens.
  function draw() {
    const wanted = JSON.stringify([latest, target.clientWidth]);
    if (latest === null || target.clientWidth === 0 || wanted === drawn) return;
    target.replaceChildren(picture(latest, target.clientWidth));
    drawn = wanted;
  }

  new ResizeObserver(draw).observe(target);
  return (bins, range) => {
    latest = { bins, range };
    draw();
    say("chart-words", words(latest));
    showRows(
      bins
        .filter((bin) => bin.leaf + bin.shim + bin.rejected > 0)
        .reverse()
        .map((bin) => ({ key: bin.t, ...bin })),
    );
  };
}

function words({ bins, range }) {
  const sum = (name) => bins.reduce((total, bin) => total + bin[name], 0);
  const [leaf, shim, rejected] = [sum("leaf"), sum("shim"), sum("rejected")];
  const said = RANGES[range].said;
  if (leaf + shim + rejected === 0) return `Nothing in ${said}.`;
  const dropped = plural(rejected, "rejected leaf", "rejected leaves");
  return `In ${said}: ${count(leaf)} leaf, ${count(shim)} shim, ${dropped}.`;
}

function picture({ bins, range }, width) {
  const scale = scaleOf(bins);
  const inner = { width: width - MARGIN.left - MARGIN.right, height: HEIGHT - MARGIN.top - MARGIN.bottom };
  const y = (value) => MARGIN.top + (inner.height * (scale.up - value)) / (scale.up + scale.down);
  const slot = inner.width / bins.length;
  const svg = shape("svg", {
    viewBox: `0 0 ${width} ${HEIGHT}`,
    width,
    height: HEIGHT,
    role: "img",
    "aria-label": words({ bins, range }),
  });
  svg.append(...gridLines(scale, y, width), ...timeLabels(bins, RANGES[range], inner.width));
  bins.forEach((bin, index) => {
    const column = columnOf(bin, MARGIN.left + index * slot, slot, y);
    if (column !== null) svg.append(column);
  });
  svg.append(shape("line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(0), y2: y(0) }));
  return svg;
}

function columnOf(bin, x, slot, y) {
  if (bin.leaf + bin.shim + bin.rejected === 0) return null;
  const gap = Math.min(3, slot * 0.2);
  const bar = (series, from, to) =>
    shape("rect", {
      "data-series": series,
      x: x + gap / 2,
      width: slot - gap,
      y: y(to),
      height: y(from) - y(to),
      rx: 1,
    });
  const said = `${exactTime(bin.t)}: leaf ${bin.leaf}, shim ${bin.shim}, rejected ${bin.rejected}`;
  const column = shape("g", { class: "column" }, shape("title", {}, said));
  if (bin.leaf > 0) column.append(bar("leaf", 0, bin.leaf));
  if (bin.shim > 0) column.append(bar("shim", bin.leaf, bin.leaf + bin.shim));
  if (bin.rejected > 0) column.append(bar("rejected", -bin.rejected, 0));
  return column;
}

// The largest values above and below the line, rounded up to what a person would write beside an axis.
function scaleOf(bins) {
  const step = niceStep(
    Math.max(LEAST_SCALE, ...bins.map((bin) => bin.leaf + bin.shim), ...bins.map((bin) => bin.rejected)),
  );
  const upTo = (value) => Math.ceil(value / step) * step;
  const up = upTo(Math.max(LEAST_SCALE, ...bins.map((bin) => bin.leaf + bin.shim)));
  return { step, up, down: upTo(Math.max(0, ...bins.map((bin) => bin.rejected))) };
}

function niceStep(most) {
  const rough = most / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((times) => times * power).find((step) => step >= rough);
}

function gridLines({ step, up, down }, y, width) {
  const lines = [];
  for (let value = -down; value <= up; value += step) {
    lines.push(shape("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) }));
    lines.push(
      shape(
        "text",
        { class: "label", x: MARGIN.left - 8, y: y(value) + 4, "text-anchor": "end" },
        brief(Math.abs(value)),
      ),
    );
  }
  return lines;
}

// At full minutes or hours of the place where the page is read; half as many where there is little room.
function timeLabels(bins, { step, tick }, width) {
  const every = width < NARROW ? 2 * tick : tick;
  const [from, span] = [bins[0].t, step * bins.length];
  const label = (seconds, anchor, text) =>
    shape(
      "text",
      { class: "label", x: MARGIN.left + (width * seconds) / span, y: HEIGHT - 6, "text-anchor": anchor },
      text,
    );
  const away = new Date(from * 1000).getTimezoneOffset() * 60;
  const first = Math.ceil((from - away) / every) * every + away;
  const labels = [label(span, "end", "now")];
  for (let t = first; t < from + span * 0.92; t += every) {
    if (t - from > span * 0.03) labels.push(label(t - from, "middle", timeOfDay(t)));
  }
  return labels;
}

function tableRow({ t, leaf, shim, rejected }) {
  const cell = (value) => element("td", { class: "number" }, count(value));
  const when = element("time", { datetime: machineTime(t) }, exactTime(t));
  return element("tr", {}, element("th", { scope: "row" }, when), cell(leaf), cell(shim), cell(rejected));
}
