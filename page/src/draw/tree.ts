/** Where the nodes of a beam search stand: a column a step, no two in one place, children near their parents. */
import type { BeamNode } from "../protocol.generated";

export interface Placed {
  index: number;
  node: BeamNode;
  column: number;
  row: number;
  /** On the way to the best text. */
  best: boolean;
}

export interface Tree {
  nodes: Placed[];
  columns: number;
  rows: number;
}

/** The way from the text to a node, the node itself last. */
export function pathTo(nodes: readonly BeamNode[], index: number): number[] {
  const path: number[] = [];
  for (let at: number | null = index; at !== null; at = nodes[at].parent) path.unshift(at);
  return path;
}

/** The text that leads to a node. */
export function wayTo(nodes: readonly BeamNode[], index: number): string {
  return pathTo(nodes, index).map((node) => nodes[node].text).join("");
}

/** Each column is filled from above in the order of the parents' rows, better children first; a parent moves
 * down to the middle of its children where there is room. */
export function layTree(nodes: readonly BeamNode[], best: number | null, pruned = true): Tree {
  const onWay = new Set(best === null ? [] : pathTo(nodes, best));
  const shown = nodes.map((node, index) => ({ node, index })).filter(({ node, index }) => pruned || node.state !== "pruned" || onWay.has(index));
  const children = new Map<number | null, number[]>();
  for (const { node, index } of shown) {
    const list = children.get(node.parent);
    if (list) list.push(index);
    else children.set(node.parent, [index]);
  }
  for (const list of children.values()) list.sort((a, b) => nodes[b].score - nodes[a].score);

  const rows = new Map<number, number>();
  const free: number[] = []; // the first free row of every column
  const place = (index: number, column: number): number => {
    const below = (children.get(index) ?? []).map((child) => place(child, column + 1));
    const middle = below.length ? (below[0] + below[below.length - 1]) / 2 : 0;
    const row = Math.max(free[column] ?? 0, middle);
    // What comes later stands lower in all columns to the right, too, so that lines don't cross.
    for (let c = column; c < Math.max(free.length, column + 1); c++) free[c] = Math.max(free[c] ?? 0, c === column ? row + 1 : Math.ceil(row));
    rows.set(index, row);
    return row;
  };
  for (const root of children.get(null) ?? []) place(root, 0);

  const placed = shown.map(({ node, index }) => ({ index, node, column: node.step, row: rows.get(index) ?? 0, best: onWay.has(index) }));
  return {
    nodes: placed,
    columns: 1 + Math.max(-1, ...placed.map((at) => at.column)),
    rows: 1 + Math.max(-1, ...placed.map((at) => Math.ceil(at.row))),
  };
}
