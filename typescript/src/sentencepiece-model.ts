/**
 * Reads SentencePiece .model files, which are protocol buffers, without their library.
 */
import { MapInvalidError } from "./errors.js";

// Types of pieces and of models, as sentencepiece_model.proto numbers them.
export const PieceType = { NORMAL: 1, UNKNOWN: 2, CONTROL: 3, USER_DEFINED: 4, UNUSED: 5, BYTE: 6 } as const;
export const BPE = 2;
export const MODEL_NAMES: ReadonlyMap<number, string> = new Map([
  [1, "unigram"],
  [2, "BPE"],
  [3, "word"],
  [4, "char"],
]);

export interface Piece {
  text: string;
  score: number;
  type: number;
}

/** What of a model says how it tokenizes. */
export interface SentencePieceModel {
  pieces: readonly Piece[];
  type: number;
  byteFallback: boolean;
  spaceIsSuffix: boolean;
  hasNormalizer: boolean;
  addsPrefix: boolean;
  removesSpaces: boolean;
  escapesSpaces: boolean;
}

type Value = number | Uint8Array;
type Fields = ReadonlyMap<number, Value>;

class NotABufferError extends Error {}

/** Throws MapInvalidError if the bytes are not a model. */
export function readModel(raw: Uint8Array, where: string): SentencePieceModel {
  let model: SentencePieceModel;
  try {
    model = readMessages(raw);
  } catch (error) {
    if (!(error instanceof NotABufferError || error instanceof TypeError)) throw error;
    throw new MapInvalidError(`${where}: neither JSON, nor a rank file, nor a SentencePiece model`);
  }
  if (model.pieces.length === 0) throw new MapInvalidError(`${where}: a SentencePiece model without pieces`);
  return model;
}

function readMessages(raw: Uint8Array): SentencePieceModel {
  const pieces: Piece[] = [];
  let trainer: Value = new Uint8Array();
  let normalizer: Value = new Uint8Array();
  for (const [number, value] of fieldsOf(raw)) {
    if (number === 1) pieces.push(readPiece(value));
    if (number === 2) trainer = value;
    if (number === 3) normalizer = value;
  }
  const [training, normalizing] = [new Map(fieldsOf(trainer)), new Map(fieldsOf(normalizer))];
  return {
    pieces,
    type: numberOf(training.get(3) ?? 1),
    byteFallback: isSet(training, 35, false),
    spaceIsSuffix: isSet(training, 24, false),
    hasNormalizer: isSet(normalizing, 2, false),
    addsPrefix: isSet(normalizing, 3, true),
    removesSpaces: isSet(normalizing, 4, true),
    escapesSpaces: isSet(normalizing, 5, true),
  };
}

function readPiece(value: Value): Piece {
  const fields = new Map(fieldsOf(value));
  const [text, score] = [fields.get(1), fields.get(2) ?? new Uint8Array(4)];
  if (!(text instanceof Uint8Array) || !(score instanceof Uint8Array) || score.length !== 4)
    throw new NotABufferError();
  return {
    text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(text),
    score: new DataView(score.buffer, score.byteOffset, 4).getFloat32(0, true),
    type: numberOf(fields.get(3) ?? PieceType.NORMAL),
  };
}

function isSet(fields: Fields, number: number, fallback: boolean): boolean {
  const value = fields.get(number);
  if (value === undefined) return fallback;
  return typeof value === "number" ? value !== 0 : value.length > 0;
}

function numberOf(value: Value): number {
  if (typeof value !== "number") throw new NotABufferError();
  return value;
}

/** The fields of a message: their number, and an integer or bytes. */
function* fieldsOf(message: Value): Generator<[number, Value]> {
  if (typeof message === "number") throw new NotABufferError();
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let place = 0; place < 10; place++) {
      const byte = message[at++];
      if (byte === undefined) throw new NotABufferError();
      value += (byte & 0x7f) * 2 ** (7 * place);
      if (byte < 0x80) return value;
    }
    throw new NotABufferError();
  };
  while (at < message.length) {
    const key = varint();
    const [number, wire] = [Math.floor(key / 8), key % 8];
    if (wire === 0) {
      yield [number, varint()];
      continue;
    }
    const size = wire === 2 ? varint() : wire === 1 ? 8 : wire === 5 ? 4 : -1;
    if (size < 0 || at + size > message.length) throw new NotABufferError();
    yield [number, message.subarray(at, at + size)];
    at += size;
  }
}
