/**
 * msgpack for JSON values. Throws MsgpackError for everything that JSON cannot express, except packed ids, which are
 * bytes in msgpack and a text in JSON. This is not a library, because libraries accept binaries, extensions, NaN and
 * numbers as keys.
 */
import { CODEC_META_KEY, isRecord } from "./leaf.js";
import { bytesOfPacked, packBytes } from "./packed-ids.js";

/** Deeper than any real message, and far from the end of the stack. */
export const MAX_DEPTH = 128;

const FIRST_BUFFER = 1 << 10;
const INT32_SPAN = 2 ** 32;
const INT64_SPAN = 2 ** 64;
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export type MsgpackReason =
  | "bad-msgpack"
  | "trailing-bytes"
  | "too-deep"
  | "bad-text"
  | "bad-key"
  | "duplicate-key"
  | "not-finite"
  | "binary"
  | "extension"
  | "not-json";

export class MsgpackError extends Error {
  override name = "MsgpackError";
  constructor(
    readonly reason: MsgpackReason,
    message: string,
  ) {
    super(message);
  }
}

/** The shortest msgpack of a JSON value. As in JSON, a member that is undefined is left out, and -0 is 0. */
export function packJson(value: unknown): Uint8Array {
  const writer = new Writer();
  writer.value(value, 0);
  return writer.bytes();
}

/** The one JSON value of these bytes. Integers beyond 2^53 are rounded, as JSON.parse rounds them. */
export function unpackJson(bytes: Uint8Array): unknown {
  const reader = new Reader(bytes);
  const value = reader.value(0);
  if (reader.rest > 0) throw new MsgpackError("trailing-bytes", `${reader.rest} bytes follow the value`);
  return value;
}

class Writer {
  private buffer = new Uint8Array(FIRST_BUFFER);
  private view = new DataView(this.buffer.buffer);
  private at = 0;

  bytes(): Uint8Array {
    return this.buffer.subarray(0, this.at);
  }

  value(value: unknown, depth: number): void {
    refuseTooDeep(depth);
    if (value === null) this.tag(0xc0);
    else if (typeof value === "boolean") this.tag(value ? 0xc3 : 0xc2);
    else if (typeof value === "number") this.number(value);
    else if (typeof value === "string") this.string(value);
    else if (Array.isArray(value)) this.array(value, depth);
    else if (isPlain(value)) this.object(value, depth);
    else throw new MsgpackError("not-json", `JSON has no ${describe(value)}`);
  }

  private array(values: readonly unknown[], depth: number): void {
    this.head(values.length, 0x90, 15, [null, 0xdc, 0xdd]);
    // Not forEach: it would pass over the holes of an array.
    for (const value of values) this.value(value, depth + 1);
  }

  private object(value: Record<string, unknown>, depth: number): void {
    const members = Object.entries(value).filter(([, member]) => member !== undefined);
    this.head(members.length, 0x80, 15, [null, 0xde, 0xdf]);
    for (const [key, member] of members) {
      this.string(key);
      if (key === CODEC_META_KEY && isPlain(member)) this.payload(member, depth + 1);
      else this.value(member, depth + 1);
    }
  }

  /** A payload: its packed ids become bytes. */
  private payload(payload: Record<string, unknown>, depth: number): void {
    const bytes = typeof payload.ids === "string" ? bytesOfPacked(payload.ids) : null;
    if (bytes === null) {
      this.value(payload, depth);
      return;
    }
    refuseTooDeep(depth + 1);
    const members = Object.entries(payload).filter(([, member]) => member !== undefined);
    this.head(members.length, 0x80, 15, [null, 0xde, 0xdf]);
    for (const [key, member] of members) {
      this.string(key);
      if (key === "ids") this.binary(bytes);
      else this.value(member, depth + 1);
    }
  }

  private binary(bytes: Uint8Array): void {
    this.head(bytes.length, 0, -1, [0xc4, 0xc5, 0xc6]);
    this.append(bytes);
  }

  private append(bytes: Uint8Array): void {
    this.reserve(bytes.length);
    this.buffer.set(bytes, this.at);
    this.at += bytes.length;
  }

  private string(text: string): void {
    if (!text.isWellFormed())
      throw new MsgpackError("bad-text", "a text holds lone surrogates and cannot be written as UTF-8");
    const bytes = encoder.encode(text);
    this.head(bytes.length, 0xa0, 31, [0xd9, 0xda, 0xdb]);
    this.append(bytes);
  }

  /** A length: in the tag itself up to `most`, else behind the tag for 8, 16 or 32 bits. */
  private head(
    length: number,
    short: number,
    most: number,
    [tag8, tag16, tag32]: [number | null, number, number],
  ): void {
    if (length <= most) this.tag(short | length);
    else if (length < 0x100 && tag8 !== null) this.tag(tag8, 1, (at) => this.view.setUint8(at, length));
    else if (length < 0x10000) this.tag(tag16, 2, (at) => this.view.setUint16(at, length));
    else this.tag(tag32, 4, (at) => this.view.setUint32(at, length));
  }

  private number(value: number): void {
    refuseNotFinite(value);
    if (!Number.isInteger(value) || value >= INT64_SPAN || value < -INT64_SPAN / 2)
      this.tag(0xcb, 8, (at) => this.view.setFloat64(at, value));
    else if (value < 0) this.negative(value);
    else this.natural(value);
  }

  private natural(value: number): void {
    if (value < 0x80) this.tag(value);
    else if (value < 0x100) this.tag(0xcc, 1, (at) => this.view.setUint8(at, value));
    else if (value < 0x10000) this.tag(0xcd, 2, (at) => this.view.setUint16(at, value));
    else if (value < INT32_SPAN) this.tag(0xce, 4, (at) => this.view.setUint32(at, value));
    else this.tag(0xcf, 8, (at) => this.view.setBigUint64(at, BigInt(value)));
  }

  private negative(value: number): void {
    if (value >= -0x20) this.tag(value & 0xff);
    else if (value >= -0x80) this.tag(0xd0, 1, (at) => this.view.setInt8(at, value));
    else if (value >= -0x8000) this.tag(0xd1, 2, (at) => this.view.setInt16(at, value));
    else if (value >= -INT32_SPAN / 2) this.tag(0xd2, 4, (at) => this.view.setInt32(at, value));
    else this.tag(0xd3, 8, (at) => this.view.setBigInt64(at, BigInt(value)));
  }

  private tag(tag: number, size = 0, write?: (at: number) => void): void {
    this.reserve(1 + size);
    this.buffer[this.at] = tag;
    write?.(this.at + 1);
    this.at += 1 + size;
  }

  private reserve(more: number): void {
    if (this.at + more <= this.buffer.length) return;
    const larger = new Uint8Array(Math.max(this.buffer.length * 2, this.at + more));
    larger.set(this.bytes());
    this.buffer = larger;
    this.view = new DataView(larger.buffer);
  }
}

class Reader {
  private readonly view: DataView;
  private at = 0;

  constructor(private readonly bytes: Uint8Array) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get rest(): number {
    return this.bytes.length - this.at;
  }

  /** `place` says where the value is: only the ids of a payload may be bytes. */
  value(depth: number, place: "payload" | "ids" | "" = ""): unknown {
    refuseTooDeep(depth);
    const tag = this.view.getUint8(this.take(1));
    if (tag < 0x80) return tag;
    if (tag < 0x90) return this.object(tag & 0x0f, depth, place);
    if (tag < 0xa0) return this.array(tag & 0x0f, depth);
    if (tag < 0xc0) return this.string(tag & 0x1f);
    if (tag >= 0xe0) return tag - 0x100;
    return this.tagged(tag, depth, place);
  }

  private tagged(tag: number, depth: number, place: "payload" | "ids" | ""): unknown {
    const { view } = this;
    switch (tag) {
      case 0xc0:
        return null;
      case 0xc2:
      case 0xc3:
        return tag === 0xc3;
      case 0xca:
        return this.float(view.getFloat32(this.take(4)));
      case 0xcb:
        return this.float(view.getFloat64(this.take(8)));
      case 0xcc:
        return view.getUint8(this.take(1));
      case 0xcd:
        return view.getUint16(this.take(2));
      case 0xce:
        return view.getUint32(this.take(4));
      case 0xcf:
        return Number(view.getBigUint64(this.take(8)));
      case 0xd0:
        return view.getInt8(this.take(1));
      case 0xd1:
        return view.getInt16(this.take(2));
      case 0xd2:
        return view.getInt32(this.take(4));
      case 0xd3:
        return Number(view.getBigInt64(this.take(8)));
      case 0xd9:
        return this.string(view.getUint8(this.take(1)));
      case 0xda:
        return this.string(view.getUint16(this.take(2)));
      case 0xdb:
        return this.string(view.getUint32(this.take(4)));
      case 0xdc:
        return this.array(view.getUint16(this.take(2)), depth);
      case 0xdd:
        return this.array(view.getUint32(this.take(4)), depth);
      case 0xde:
        return this.object(view.getUint16(this.take(2)), depth, place);
      case 0xdf:
        return this.object(view.getUint32(this.take(4)), depth, place);
      case 0xc1:
        throw new MsgpackError("bad-msgpack", "there is a tag that msgpack does not have");
      case 0xc4:
        return this.ids(view.getUint8(this.take(1)), place);
      case 0xc5:
        return this.ids(view.getUint16(this.take(2)), place);
      case 0xc6:
        return this.ids(view.getUint32(this.take(4)), place);
      default:
        throw new MsgpackError("extension", "JSON has no extensions");
    }
  }

  private ids(length: number, place: string): string {
    const start = this.take(length);
    const packed = place === "ids" ? packBytes(this.bytes.subarray(start, start + length)) : null;
    if (packed === null) throw new MsgpackError("binary", "only packed ids are binary");
    return packed;
  }

  private key(): string {
    const tag = this.view.getUint8(this.take(1));
    const text = (tag >= 0xa0 && tag < 0xc0) || (tag >= 0xd9 && tag <= 0xdb);
    if (!text) throw new MsgpackError("bad-key", "a key is not a text");
    this.at--;
    return this.value(0) as string;
  }

  private float(value: number): number {
    refuseNotFinite(value);
    return value;
  }

  private array(length: number, depth: number): unknown[] {
    // Memory is not allocated by the announced length.
    const values: unknown[] = [];
    for (let i = 0; i < length; i++) values.push(this.value(depth + 1));
    return values;
  }

  private object(length: number, depth: number, place: string): Record<string, unknown> {
    const members = new Map<string, unknown>();
    for (let i = 0; i < length; i++) {
      const key = this.key();
      if (members.has(key)) throw new MsgpackError("duplicate-key", "a key occurs twice");
      const inner = key === CODEC_META_KEY ? "payload" : place === "payload" && key === "ids" ? "ids" : "";
      members.set(key, this.value(depth + 1, inner));
    }
    // Defines own members for all names, also for `__proto__`.
    return Object.fromEntries(members);
  }

  private string(length: number): string {
    const start = this.take(length);
    try {
      return decoder.decode(this.bytes.subarray(start, start + length));
    } catch {
      throw new MsgpackError("bad-text", "a text is not UTF-8");
    }
  }

  private take(size: number): number {
    if (size > this.rest) throw new MsgpackError("bad-msgpack", "it ends in the middle of a value");
    this.at += size;
    return this.at - size;
  }
}

function refuseNotFinite(value: number): void {
  if (!Number.isFinite(value)) throw new MsgpackError("not-finite", `JSON has no ${value}`);
}

function refuseTooDeep(depth: number): void {
  if (depth > MAX_DEPTH) throw new MsgpackError("too-deep", `nested deeper than ${MAX_DEPTH}`);
}

function isPlain(value: unknown): value is Record<string, unknown> {
  if (!isRecord(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

function describe(value: unknown): string {
  return isRecord(value) ? "objects of a class" : typeof value;
}
