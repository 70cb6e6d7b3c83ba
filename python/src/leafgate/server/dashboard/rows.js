// Brings a list on the page up to date. In: entries, each with a key. Out: one node an entry, in their order.
// A node whose entry did not change stays the same node, so that focus, selection and scrolling survive an update.

export function keptRows(parent, make) {
  let shown = new Map();
  return (entries) => {
    const next = new Map();
    for (const { key, ...entry } of entries) {
      const written = JSON.stringify(entry);
      const before = shown.get(key);
      next.set(key, before?.written === written ? before : { written, node: make(entry) });
    }
    shown = next;
    const nodes = Array.from(next.values(), (row) => row.node);
    place(parent, nodes);
  };
}

function place(parent, nodes) {
  const wanted = new Set(nodes);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  nodes.forEach((node, index) => {
    if (parent.children[index] !== node) parent.insertBefore(node, parent.children[index] ?? null);
  });
}
