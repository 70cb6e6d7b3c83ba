/**
 * Repeatable random values, and texts that are difficult for tokenizers.
 */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const PIECES =
  "a A the THE Don't 'LL 'ſ ' \u0027s 1 12 1234 ٣ Ⅷ ß İ ǅ ʰ ª é e\u0301 \u0301 中 한 ع ไ 😀 👨‍👩‍👧 ! !! -- / // \\ { } <|im_end|>".split(
    " ",
  );
const BLANKS = [
  " ",
  "  ",
  "\n",
  "\r\n",
  "\t",
  "\u0085",
  "\u00a0",
  "\u2003",
  "\u3000",
  "\u200b",
  "\ufeff",
  "\u001c",
  "\u0000",
];

export function nastyText(random: () => number): string {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!;
  let text = "";
  for (let count = Math.floor(random() * 24); count > 0; count--) {
    const kind = random();
    if (kind < 0.5) text += pick(PIECES);
    else if (kind < 0.75) text += pick(BLANKS);
    else if (kind < 0.85) text += pick(PIECES).repeat(1 + Math.floor(random() * 120));
    else text += String.fromCodePoint(anyPoint(random));
  }
  return text;
}

function anyPoint(random: () => number): number {
  const point = Math.floor(random() * (random() < 0.5 ? 0x3000 : 0x110000));
  return point >= 0xd800 && point < 0xe000 ? 0x41 : point;
}
