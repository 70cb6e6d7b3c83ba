/**
 * Packed ids (spec 5.11): three bytes for each id, the lowest first, as base64. Four characters are one id, so there is
 * never padding, and an id is coded without the ones beside it.
 */

export const MAX_PACKED_ID = 0xffffff;

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const CODES = Uint8Array.from(ALPHABET, (char) => char.charCodeAt(0));
const VALUES = new Int8Array(128).fill(-1);
CODES.forEach((code, value) => {
  VALUES[code] = value;
});
const decoder = new TextDecoder();

/** The packed form of these ids; null if one of them needs more than three bytes. */
export function packIds(ids: readonly number[]): string | null {
  const chars = new Uint8Array(ids.length * 4);
  for (let i = 0, at = 0; i < ids.length; i++, at += 4) {
    const id = ids[i]!;
    if (id > MAX_PACKED_ID) return null;
    const bits = ((id & 0xff) << 16) | (id & 0xff00) | (id >> 16);
    chars[at] = CODES[bits >> 18]!;
    chars[at + 1] = CODES[(bits >> 12) & 63]!;
    chars[at + 2] = CODES[(bits >> 6) & 63]!;
    chars[at + 3] = CODES[bits & 63]!;
  }
  return decoder.decode(chars);
}

/** The ids in a text; null if it is not exactly packed ids. */
export function unpackIds(packed: string): number[] | null {
  if (packed.length % 4 !== 0) return null;
  const ids = new Array<number>(packed.length / 4);
  for (let i = 0, at = 0; i < ids.length; i++, at += 4) {
    const bits =
      (valueAt(packed, at) << 18) |
      (valueAt(packed, at + 1) << 12) |
      (valueAt(packed, at + 2) << 6) |
      valueAt(packed, at + 3);
    if (bits < 0) return null;
    ids[i] = (bits >> 16) | (bits & 0xff00) | ((bits & 0xff) << 16);
  }
  return ids;
}

/** The bytes of packed ids, as binary frames have them; null if the text is not packed ids. */
export function bytesOfPacked(packed: string): Uint8Array | null {
  const ids = unpackIds(packed);
  if (ids === null) return null;
  const bytes = new Uint8Array(ids.length * 3);
  ids.forEach((id, i) => {
    bytes[3 * i] = id & 0xff;
    bytes[3 * i + 1] = (id >> 8) & 0xff;
    bytes[3 * i + 2] = id >> 16;
  });
  return bytes;
}

/** The packed form of such bytes; null if their number is not a multiple of three. */
export function packBytes(bytes: Uint8Array): string | null {
  if (bytes.length % 3 !== 0) return null;
  const ids = new Array<number>(bytes.length / 3);
  for (let i = 0; i < ids.length; i++) ids[i] = bytes[3 * i]! | (bytes[3 * i + 1]! << 8) | (bytes[3 * i + 2]! << 16);
  return packIds(ids);
}

/** Negative for a character outside of the alphabet; shifted to the left, it stays negative. */
function valueAt(packed: string, at: number): number {
  const code = packed.charCodeAt(at);
  return code < 128 ? VALUES[code]! : -1;
}
