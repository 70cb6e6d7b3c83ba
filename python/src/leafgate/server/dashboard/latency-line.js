// How fast a server answered, minute by minute. In: what 19 of 20 calls took in each. Out: a small SVG.

import { shape } from "/dashboard/element.js";
import { duration } from "/dashboard/words.js";

const MINUTES = 60;
const HEIGHT = 24;
const THICK = 1.5;

export function latencyLine(latencies) {
  if (latencies.length === 0) return "–";
  const values = latencies.map(({ p95 }) => p95);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const last = Math.floor(latencies.at(-1).t / 60);
  const bars = latencies.map(({ t, p95 }) => {
    const height = Math.max(THICK, (HEIGHT * p95) / most);
    const place = MINUTES - 1 - (last - Math.floor(t / 60));
    return shape("rect", { x: place * 2, y: HEIGHT - height, width: THICK, height });
  });
  const ground = shape("rect", { class: "ground", y: HEIGHT - 1, width: MINUTES * 2, height: 1 });
  const said = least === most ? duration(most) : `${duration(least)} to ${duration(most)}`;
  const size = { viewBox: `0 0 ${MINUTES * 2} ${HEIGHT}`, preserveAspectRatio: "none" };
  const drawn = shape("svg", { class: "latency", role: "img", "aria-label": said, ...size });
  drawn.append(shape("title", {}, said), ground, ...bars);
  return drawn;
}
