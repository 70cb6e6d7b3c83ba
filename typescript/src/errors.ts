/**
 * All errors of maps, writers and readers. The client has a separate tree.
 *
 *   MapError                    the map cannot be used
 *   ├── MapDigestError          its digest is malformed; nothing was fetched
 *   ├── MapUnreachableError     it cannot be read, is too large, or takes too long
 *   ├── MapHashMismatchError    its bytes are not the expected ones
 *   └── MapInvalidError         its bytes have the right digest, but the content is invalid
 *   TextError                   this text cannot be tokenized
 *   IdsError                    these ids cannot be decoded under this map
 *   CodecMetaMapMismatchError   a payload belongs to another map than the reader expects
 *   NotATokenizerError          a promise, or anything else, where a tokenizer is needed
 */

/** Why ids are not valid, or cannot be decoded (spec 5.7). */
export type Reason =
  | "foreign-map"
  | "empty-text"
  | "bad-text"
  | "too-many-ids"
  | "not-integer"
  | "negative"
  | "too-large"
  | "special-id"
  | "unknown-id"
  | "text-mismatch"
  | "non-canonical";

export class MapError extends Error {
  override name = "MapError";
}

export class MapDigestError extends MapError {
  override name = "MapDigestError";
}

export class MapUnreachableError extends MapError {
  override name = "MapUnreachableError";
}

export class MapHashMismatchError extends MapError {
  override name = "MapHashMismatchError";
  constructor(
    where: string,
    readonly expected: string,
    readonly found: string,
  ) {
    super(`${where}: expected ${expected}, found ${found}`);
  }
}

export class MapInvalidError extends MapError {
  override name = "MapInvalidError";
}

export class TextError extends Error {
  override name = "TextError";
}

export class IdsError extends Error {
  override name = "IdsError";
  constructor(
    readonly reason: Reason,
    message: string,
  ) {
    super(message);
  }
}

export class NotATokenizerError extends TypeError {
  override name = "NotATokenizerError";
}

export class CodecMetaMapMismatchError extends Error {
  override name = "CodecMetaMapMismatchError";
  constructor(
    readonly expected: string,
    readonly found: string,
    readonly textIndex: number,
  ) {
    super(`content[${textIndex}] was tokenized with map ${found}, the reader expects ${expected}`);
  }
}
