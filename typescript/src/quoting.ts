/**
 * Values in messages, written as Python's `repr` writes them, so that both languages report the same.
 */

const ESCAPES: Readonly<Record<string, string>> = { "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r" };

export function quote(text: string): string {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  const body = Array.from(text, (char) => (char === mark ? `\\${char}` : (ESCAPES[char] ?? visible(char)))).join("");
  return `${mark}${body}${mark}`;
}

/** A text of one character per byte. */
export function quoteBytes(text: string): string {
  const body = quote(text).replace(/[\x80-\xff]/g, (char) => `\\x${char.charCodeAt(0).toString(16)}`);
  return `b${body}`;
}

export function quoteJson(value: unknown): string {
  if (typeof value === "string") return quote(value);
  if (value === undefined || value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number") return String(value);
  if (Array.isArray(value)) return `[${value.map(quoteJson).join(", ")}]`;
  const entries = Object.entries(value).map(([name, part]) => `${quote(name)}: ${quoteJson(part)}`);
  return `{${entries.join(", ")}}`;
}

function visible(char: string): string {
  if (char === " " || !/[\p{C}\p{Z}]/u.test(char)) return char;
  const point = char.codePointAt(0)!;
  const hex = point.toString(16);
  if (point < 0x100) return `\\x${hex.padStart(2, "0")}`;
  return point < 0x10000 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
}
