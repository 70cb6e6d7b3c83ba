/**
 * In: JSON text that a parser has already accepted. Out: where its members and elements begin and end. Touches nothing.
 * For what parsing loses: whether a number was written `1.0`, and every byte that we have no business to change.
 */
export interface Span {
  start: number;
  end: number;
}

export interface Member extends Span {
  key: string;
  value: Span;
}

/** The members of the object that starts at or behind this place, in the order of the text, repeated keys included. */
export function membersAt(json: string, place: number): Member[] {
  const members: Member[] = [];
  let at = skipBlanks(json, skipBlanks(json, place) + 1);
  while (json[at] === '"') {
    const keyEnd = skipString(json, at);
    const valueStart = skipBlanks(json, skipBlanks(json, keyEnd) + 1);
    const end = skipValue(json, valueStart);
    const key = JSON.parse(json.slice(at, keyEnd)) as string;
    members.push({ key, start: at, end, value: { start: valueStart, end } });
    at = skipComma(json, end);
  }
  return members;
}

/** The elements of the array that starts at or behind this place. */
export function elementsAt(json: string, place: number): Span[] {
  const elements: Span[] = [];
  let at = skipBlanks(json, skipBlanks(json, place) + 1);
  while (at < json.length && json[at] !== "]") {
    const end = skipValue(json, at);
    elements.push({ start: at, end });
    at = skipComma(json, end);
  }
  return elements;
}

/** The member that a parser would have kept: the last of its name. */
export function memberNamed(members: readonly Member[], key: string): Member | undefined {
  return members.findLast((member) => member.key === key);
}

function skipBlanks(json: string, place: number): number {
  let at = place;
  for (;;) {
    const code = json.charCodeAt(at);
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return at;
    at++;
  }
}

function skipComma(json: string, place: number): number {
  const at = skipBlanks(json, place);
  return json[at] === "," ? skipBlanks(json, at + 1) : at;
}

function skipString(json: string, place: number): number {
  for (let at = place + 1; ; ) {
    const quote = json.indexOf('"', at);
    let slashes = 0;
    while (json.charCodeAt(quote - 1 - slashes) === 0x5c) slashes++;
    if (slashes % 2 === 0) return quote + 1;
    at = quote + 1;
  }
}

function skipValue(json: string, place: number): number {
  const first = json[place];
  if (first === '"') return skipString(json, place);
  if (first === "{" || first === "[") return skipNested(json, place);
  let at = place;
  while (at < json.length && !",]} \n\r\t".includes(json[at]!)) at++;
  return at;
}

function skipNested(json: string, place: number): number {
  let depth = 0;
  for (let at = place; at < json.length; ) {
    const code = json.charCodeAt(at);
    if (code === 0x22) {
      at = skipString(json, at);
      continue;
    }
    at++;
    if (code === 0x7b || code === 0x5b) depth++;
    else if ((code === 0x7d || code === 0x5d) && --depth === 0) return at;
  }
  return json.length;
}
