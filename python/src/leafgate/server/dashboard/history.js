// The samples of the gateway, kept as they come. In: answers of /api/metrics. Out: bins of equal width for a chart.
// Pure but for what it keeps; the moment is the gateway's, so that a clock set wrongly here shifts nothing.

const KEPT_SECONDS = 600;
const KEPT_MINUTES = 86_400;

// `step` seconds a bin, `bins` of them, made of samples that are one second or one minute wide; a mark every `tick`.
export const RANGES = {
  minutes: { step: 5, bins: 60, of: "seconds", tick: 60, said: "the last 5 minutes" },
  hour: { step: 60, bins: 60, of: "minutes", tick: 600, said: "the last hour" },
  day: { step: 1_200, bins: 72, of: "minutes", tick: 14_400, said: "the last 24 hours" },
};

export class History {
  #seconds = new Map();
  #minutes = new Map();
  #epoch = null;
  now = 0;

  // Where the next answer should begin: the latest sample may come again, with more in it.
  get since() {
    return Math.max(0, ...this.#seconds.keys());
  }

  // A gateway that was started anew knows nothing of what was: its whole story is asked for at the next turn.
  take(answer) {
    const same = this.#epoch === null || this.#epoch === answer.codec.since;
    this.#epoch = answer.codec.since;
    this.now = answer.now;
    if (!same) {
      this.#seconds.clear();
      this.#minutes.clear();
      return;
    }
    for (const sample of answer.seconds) this.#seconds.set(sample.t, sample);
    for (const sample of answer.minutes) this.#minutes.set(sample.t, sample);
    forget(this.#seconds, this.now - KEPT_SECONDS);
    forget(this.#minutes, this.now - KEPT_MINUTES);
  }

  bins(range) {
    const { step, bins, of } = RANGES[range];
    const last = Math.floor(this.now / step) * step;
    const first = last - step * (bins - 1);
    const made = Array.from({ length: bins }, (_, index) => empty(first + index * step));
    for (const sample of (of === "seconds" ? this.#seconds : this.#minutes).values()) {
      const bin = made[Math.floor((sample.t - first) / step)];
      if (bin !== undefined) add(bin, sample);
    }
    return made;
  }

  // Of each minute of the last hour in which a server was called: what 19 of 20 calls took at most.
  latencies(server) {
    const recent = [...this.#minutes.values()].filter((sample) => sample.t > this.now - 3_600);
    return recent.flatMap(({ t, upstreams }) =>
      Object.hasOwn(upstreams, server) ? [{ t, p95: upstreams[server].p95 }] : [],
    );
  }

  lastMinute() {
    const sum = empty(0);
    for (const sample of this.#seconds.values()) if (sample.t > this.now - 60) add(sum, sample);
    return sum;
  }
}

const empty = (t) => ({ t, leaf: 0, shim: 0, rejected: 0 });

function add(bin, sample) {
  bin.leaf += sample.leaf;
  bin.shim += sample.shim;
  bin.rejected += sample.rejected;
}

function forget(samples, before) {
  for (const t of samples.keys()) if (t < before) samples.delete(t);
}
