// Numbers and moments as people read them. In: numbers. Out: texts. Touches nothing but the browser's language.

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const exactClock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hourCycle: "h23" });
const NONE = "–";

export const count = (value) => (value === null || value === undefined ? NONE : whole.format(value));

export const brief = (value) => (value < 10_000 ? whole.format(value) : short.format(value));

export const percent = (part, all) => {
  if (all === 0) return NONE;
  const share = (100 * part) / all;
  return share > 99 && share < 100 ? ">99 %" : share > 0 && share < 1 ? "<1 %" : `${Math.round(share)} %`;
};

export const duration = (seconds) => {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds < 0.0095) return `${(seconds * 1000).toFixed(1)} ms`;
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
};

export const timeOfDay = (seconds) => clock.format(new Date(seconds * 1000));

export const exactTime = (seconds) => exactClock.format(new Date(seconds * 1000));

export const machineTime = (seconds) => new Date(seconds * 1000).toISOString();

export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;
