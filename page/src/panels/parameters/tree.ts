/** The table of parameters as a tree that opens and closes. */
import type { Part } from "../../protocol";

/** Parts are listed depth first, so what a module holds follows it until something is no deeper. */
export function shown(parts: readonly Part[], open: ReadonlySet<string>): Part[] {
  const rows: Part[] = [];
  let closed = Infinity; // the depth of the module that hides what follows
  for (const part of parts) {
    if (part.depth > closed) continue;
    closed = part.shape === null && !open.has(part.name) ? part.depth : Infinity;
    rows.push(part);
  }
  return rows;
}

/** Open at first: the outer modules, so that the table fits a screen. */
export function openAtFirst(parts: readonly Part[]): Set<string> {
  return new Set(parts.filter(({ depth, shape }) => shape === null && depth < 2).map(({ name }) => name));
}

/** A name without what stands in front of it already. */
export function lastOf({ name, depth }: Part): string {
  return depth === 0 ? name : name.split(".").at(-1)!;
}
