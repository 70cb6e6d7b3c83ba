// The one way in which this page makes elements. In: a tag, attributes, children. Out: an element.
// Children are elements or texts, and texts stay texts: there is no way in for markup.

const SVG = "http://www.w3.org/2000/svg";

export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function shape(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

export function byId(id) {
  return document.getElementById(id);
}

// Writes a text only where it differs, so that nothing is announced or repainted for nothing.
export function say(id, text) {
  const target = byId(id);
  if (target.textContent !== text) target.textContent = text;
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children);
  return made;
}
