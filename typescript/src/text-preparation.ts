/**
 * What happens to a text before its map's encoding sees it (spec 5.4): added tokens are taken out, and each stretch
 * between them is normalized.
 */
import { TextError } from "./errors.js";

export const NORMALIZERS = ["nfc", "nfkc"] as const;
export type Normalizer = (typeof NORMALIZERS)[number];

// The code points whose normalization changed between Unicode 9 and 17 (spec 5.4): engines of other versions differ.
const UNSTABLE = new RegExp(
  `[${`
  07FD 0897-089F 08CA-08D3 09FE 0C3C 0D3B-0D3C 0EBA 1715 1ABF-1ADD 1AE0-1AEB 1DF6-1DFA 32FF A7F1-A7F4 A82C AB69 105C9
  105D2 105DA 105E4 10781-10785 10787-107B0 107B2-107BA 10D24-10D27 10D69-10D6D 10EAB-10EAC 10EFA-10EFB 10EFD-10EFF
  10F46-10F50 10F82-10F85 11070 1133B 11382-11385 1138B 1138E 11390-11391 113B8 113BB 113C2 113C5 113C7-113C9
  113CE-113D0 1145E 11839-1183A 11938 1193D-1193E 11943 119E0 11A34 11A47 11A99 11D42 11D44-11D45 11D97 11F41-11F42
  1611E-16129 1612F 16D63 16D67-16D6A 16FF0-16FF1 1CCD6-1CCF9 1E030-1E06D 1E08F 1E130-1E136 1E2AE 1E2EC-1E2EF
  1E4EC-1E4EF 1E5EE-1E5EF 1E6E3 1E6E6 1E6EE-1E6EF 1E6F5 1F16C 1FBF0-1FBF9`
    .trim()
    .replace(/[0-9A-F]+/g, "\\u{$&}")
    .replace(/\s+/g, "")}]`,
  "u",
);

/** The text in the Unicode form of its map. Throws TextError if engines disagree about that form. */
export function normalize(text: string, normalizer: Normalizer | null): string {
  if (normalizer === null) return text;
  const point = UNSTABLE.exec(text)?.[0].codePointAt(0);
  if (point !== undefined)
    throw new TextError(`the text holds U+${point.toString(16).toUpperCase()}, whose normalization is not settled`);
  return text.normalize(normalizer === "nfc" ? "NFC" : "NFKC");
}

/** Finds added tokens in a text: the leftmost, and the longest of those that start at the same place. */
export class AddedTokens {
  private readonly pattern: RegExp;

  constructor(private readonly ids: ReadonlyMap<string, number>) {
    const longestFirst = [...ids.keys()].sort((a, b) => b.length - a.length);
    this.pattern = new RegExp(longestFirst.map(escapeForPattern).join("|"), "gu");
  }

  /** The ids of a text whose stretches between added tokens are encoded by `encode`. */
  encode(text: string, encode: (stretch: string) => number[]): number[] {
    const out: number[] = [];
    let start = 0;
    for (const match of text.matchAll(this.pattern)) {
      if (match.index > start) append(out, encode(text.slice(start, match.index)));
      out.push(this.ids.get(match[0])!);
      start = match.index + match[0].length;
    }
    if (start === 0) return encode(text);
    if (start < text.length) append(out, encode(text.slice(start)));
    return out;
  }
}

/** A spread would pass each id as an argument, and a call takes only so many. */
function append(out: number[], ids: readonly number[]): void {
  for (const id of ids) out.push(id);
}

function escapeForPattern(token: string): string {
  return token.replace(/[\\^$.*+?()[\]{}|/-]/g, (sign) => `\\u{${sign.charCodeAt(0).toString(16)}}`);
}
