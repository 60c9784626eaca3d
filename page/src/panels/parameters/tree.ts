/** The table of parameters as a tree that opens and closes. */
import type { Parameter } from "../../protocol.generated";

/** Parts are listed depth first, so what a module holds follows it until something is no deeper. */
export function shown(parts: readonly Parameter[], open: ReadonlySet<string>): Parameter[] {
  const rows: Parameter[] = [];
  let closed = Infinity; // the depth of the module that hides what follows
  for (const part of parts) {
    if (part.depth > closed) continue;
    closed = part.shape === null && !open.has(part.name) ? part.depth : Infinity;
    rows.push(part);
  }
  return rows;
}

/** Open at first: the outer modules, so that the table fits a screen. */
export function openAtFirst(parts: readonly Parameter[]): Set<string> {
  return new Set(parts.filter(({ depth, shape }) => shape === null && depth < 2).map(({ name }) => name));
}

/** A name without what stands in front of it already. */
export function lastOf({ name, depth }: Parameter): string {
  return depth === 0 ? name : name.split(".").at(-1)!;
}
