/**
 * What the tokenizer of a map does, whatever its kind. `byte-level` and `metaspace` implement it.
 */
export interface Encoding {
  /** How many ids more than bytes a text may have. */
  readonly extraIds: number;
  encode(text: string): number[];
  /** A number for the token of this id, or one below zero where the map has none. */
  tokenOf(id: number): number;
  /** The bytes of a token, as they count in the text. */
  lengthOf(token: number): number;
  copyTo(token: number, target: Uint8Array, at: number): void;
  standsAt(token: number, bytes: Uint8Array, at: number): boolean;
}
