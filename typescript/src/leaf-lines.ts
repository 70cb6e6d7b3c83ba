/**
 * In: the lines of a JSON-RPC conversation, in both directions. Out: the same lines, tools/call results with their ids.
 * Touches nothing. Only text blocks are written anew, and of these only `_meta`; every other byte stays as it came.
 */
import { elementsAt, type Member, memberNamed, membersAt, type Span } from "./json-spans.js";
import { CODEC_META_KEY, isRecord, isTextBlock, isWithdrawnBlock, type MetaTokenizer } from "./leaf.js";
import { type WrapOptions, wrapToolCall } from "./write-leaf.js";

interface Edit extends Span {
  text: string;
}

/** Follows one conversation: which of the requests under way are tool calls. */
export class LeafLines {
  private readonly calls = new Set<string>();

  constructor(
    private readonly meta: MetaTokenizer,
    private readonly options: WrapOptions = {},
  ) {}

  /** A line from the client, which is passed on as it is. */
  fromClient(line: Uint8Array): void {
    const parsed = parse(line);
    for (const message of Array.isArray(parsed?.value) ? parsed.value : [parsed?.value]) this.note(message);
  }

  /** A line from the server: the very same bytes, unless it answers a tool call. */
  fromServer(line: Uint8Array): Uint8Array {
    if (this.calls.size === 0) return line;
    const parsed = parse(line);
    if (parsed === null) return line;
    const { json, value } = parsed;
    const edits = Array.isArray(value)
      ? elementsAt(json, 0).flatMap((span, index) => this.editsOf(json, span.start, value[index]))
      : this.editsOf(json, 0, value);
    return edits.length === 0 ? line : Buffer.from(applied(json, edits));
  }

  private note(message: unknown): void {
    if (!isRecord(message)) return;
    if (message.method === "tools/call" && message.id !== undefined) this.calls.add(keyOf(message.id));
    // A cancelled call need not be answered, and must not be remembered for ever.
    if (message.method === "notifications/cancelled" && isRecord(message.params))
      this.calls.delete(keyOf(message.params.requestId));
  }

  private editsOf(json: string, place: number, message: unknown): Edit[] {
    // A server's own requests have ids of their own, which may look like the client's.
    if (!isRecord(message) || message.id === undefined || message.method !== undefined) return [];
    if (!this.calls.delete(keyOf(message.id)) || !isRecord(message.result)) return [];
    if (!Array.isArray(message.result.content)) return [];
    const result = memberNamed(membersAt(json, place), "result");
    const content = memberNamed(membersAt(json, result!.value.start), "content");
    return contentEdits(json, content!.value.start, message.result.content, (block) => {
      return wrapToolCall({ content: [block] }, this.meta, this.options).content[0];
    });
  }
}

/** A request's 1 and "1" are different ids. */
function keyOf(id: unknown): string {
  return JSON.stringify(id) ?? "";
}

function parse(line: Uint8Array): { json: string; value: unknown } | null {
  try {
    const json = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(line);
    return { json, value: JSON.parse(json) as unknown };
  } catch {
    return null;
  }
}

function contentEdits(json: string, place: number, blocks: unknown[], wrap: (block: unknown) => unknown): Edit[] {
  const spans = elementsAt(json, place);
  const edits: Edit[] = [];
  let behindText = false;
  blocks.forEach((block, index) => {
    const span = spans[index]!;
    if (behindText && isWithdrawnBlock(block)) {
      // The comma in front of it goes too.
      edits.push({ start: spans[index - 1]!.end, end: span.end, text: "" });
      return;
    }
    behindText = isTextBlock(block);
    const wrapped = behindText ? wrap(block) : block;
    if (wrapped !== block) edits.push({ ...span, text: withMeta(json, span, wrapped) });
  });
  return edits;
}

/** The block's own text with another `_meta`; members that we have no part in are copied letter by letter. */
function withMeta(json: string, span: Span, block: unknown): string {
  const members = membersAt(json, span.start);
  const old = memberNamed(members, "_meta");
  const kept = members.filter((member) => member.key !== "_meta").map((member) => json.slice(member.start, member.end));
  const meta = isRecord(block) ? block._meta : undefined;
  if (isRecord(meta)) kept.push(`"_meta":{${metaMembers(json, old, meta).join(",")}}`);
  return `{${kept.join(",")}}`;
}

function metaMembers(json: string, old: Member | undefined, meta: Record<string, unknown>): string[] {
  const isObject = old !== undefined && json[old.value.start] === "{";
  const others = isObject ? membersAt(json, old.value.start).filter((member) => member.key !== CODEC_META_KEY) : [];
  const kept = others.map((member) => json.slice(member.start, member.end));
  const payload = meta[CODEC_META_KEY];
  return payload === undefined ? kept : [...kept, `${JSON.stringify(CODEC_META_KEY)}:${JSON.stringify(payload)}`];
}

function applied(json: string, edits: readonly Edit[]): string {
  let at = 0;
  const parts: string[] = [];
  for (const { start, end, text } of edits) {
    parts.push(json.slice(at, start), text);
    at = end;
  }
  return parts.join("") + json.slice(at);
}
