/** The head view's lines: which weights are worth one, and how they are drawn fast. */

/** Lines of one head, in the order of their queries. */
export interface Edges {
  query: Uint16Array;
  key: Uint16Array;
  weight: Float32Array;
  /** Where each query's lines begin; one more entry than there are queries. */
  from: Uint32Array;
}

/** Weights of at least `least`. `queries` and `keys` say which rows and columns of the pattern are shown. */
export function edgesOf(
  pattern: Float32Array | Int32Array,
  columns: number,
  queries: readonly number[],
  keys: readonly number[],
  least: number,
): Edges {
  const query: number[] = [];
  const key: number[] = [];
  const weight: number[] = [];
  const from = new Uint32Array(queries.length + 1);
  for (let i = 0; i < queries.length; i++) {
    const row = queries[i] * columns;
    for (let j = 0; j < keys.length; j++) {
      const value = pattern[row + keys[j]];
      if (value < least) continue;
      query.push(i);
      key.push(j);
      weight.push(value);
    }
    from[i + 1] = query.length;
  }
  return { query: Uint16Array.from(query), key: Uint16Array.from(key), weight: Float32Array.from(weight), from };
}

export interface Columns {
  /** Where lines begin and end, and how tokens are laid out between them. */
  left: number;
  right: number;
  row: number;
  /** What is scrolled away above, and how much is seen. */
  top: number;
  height: number;
}

const SHADES = 8;

/** All lines with an end in sight. One path a shade: thousands of lines cost a few strokes. */
export function paintEdges(ctx: CanvasRenderingContext2D, edges: Edges, color: string, at: Columns, strength: number): void {
  const paths = Array.from({ length: SHADES }, () => new Path2D());
  const used = new Uint8Array(SHADES);
  for (let n = 0; n < edges.weight.length; n++) {
    const from = (edges.query[n] + 0.5) * at.row - at.top;
    const to = (edges.key[n] + 0.5) * at.row - at.top;
    if ((from < 0 || from > at.height) && (to < 0 || to > at.height)) continue;
    const shade = Math.min(SHADES - 1, Math.floor(edges.weight[n] * SHADES));
    curve(paths[shade], at.left, from, at.right, to);
    used[shade] = 1;
  }
  ctx.strokeStyle = color;
  for (let shade = 0; shade < SHADES; shade++) {
    if (!used[shade]) continue;
    const share = (shade + 0.5) / SHADES;
    ctx.globalAlpha = Math.min(1, (0.12 + 0.88 * share) * strength);
    ctx.lineWidth = 0.8 + 2.2 * share;
    ctx.stroke(paths[shade]);
  }
  ctx.globalAlpha = 1;
}

/** The lines of one query, or (`side` "key") all that go to one key. */
export function edgesAt(edges: Edges, side: "query" | "key", index: number): number[] {
  if (side === "query") {
    const start = edges.from[index] ?? 0;
    return Array.from({ length: (edges.from[index + 1] ?? start) - start }, (_, n) => start + n);
  }
  const found: number[] = [];
  for (let n = 0; n < edges.key.length; n++) if (edges.key[n] === index) found.push(n);
  return found;
}

export function curve(path: Path2D, x1: number, y1: number, x2: number, y2: number): void {
  const bend = (x2 - x1) * 0.4;
  path.moveTo(x1, y1);
  path.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
}

export const PAIRS = ["all", "aa", "ab", "ba", "bb"] as const;
/** Which sentence looks at which: "ab" is from the first to the second. */
export type PairFilter = (typeof PAIRS)[number];

/** The positions that a filter leaves on one side. Marks of a pair belong to the sentence they close. */
export function filtered(sentences: readonly (number | null)[], filter: PairFilter, side: "query" | "key"): number[] {
  const all = sentences.map((_, index) => index);
  if (filter === "all") return all;
  const wanted = filter[side === "query" ? 0 : 1] === "a" ? 0 : 1;
  const second = sentences.indexOf(1);
  return all.filter((index) => (second < 0 || index < second ? 0 : 1) === wanted);
}
